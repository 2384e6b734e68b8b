//! The objects that pods and volumes name.

use machinery::object;
use serde_json::Value;

/// Sources of a pod's volume that name a secret, and where they do.
const SECRETS_OF_SOURCES: [(&str, &[&str]); 10] = [
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("rbd", &["secretRef", "name"]),
    ("scaleIO", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("storageos", &["secretRef", "name"]),
];
/// Sources of a volume of the cluster whose secret is in the namespace of the claim, unless they
/// name another namespace.
const SECRETS_BESIDE_CLAIMS: [&str; 5] = ["cephfs", "flexVolume", "iscsi", "rbd", "scaleIO"];
/// Sources of it that name the namespace.
const SECRETS_ELSEWHERE: [&str; 2] = ["cinder", "storageos"];
/// Secrets of a CSI volume that nodes use. Others are for controllers.
const SECRETS_OF_CSI: [&str; 3] = [
    "nodePublishSecretRef",
    "nodeStageSecretRef",
    "nodeExpandSecretRef",
];

/// The secrets that a pod names.
pub(crate) fn secrets(pod: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = object::items(pod, &["spec", "imagePullSecrets"])
        .iter()
        .map(|one| object::text(one, &["name"]))
        .collect();
    of_containers(pod, "secretRef", "secretKeyRef", &mut names);
    for volume in volumes(pod) {
        for (source, path) in SECRETS_OF_SOURCES {
            let source = volume.get(source).unwrap_or(&Value::Null);
            names.push(object::text(source, path));
        }
        for source in object::items(volume, &["projected", "sources"]) {
            names.push(object::text(source, &["secret", "name"]));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The config maps that a pod names.
pub(crate) fn config_maps(pod: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    of_containers(pod, "configMapRef", "configMapKeyRef", &mut names);
    for volume in volumes(pod) {
        names.push(object::text(volume, &["configMap", "name"]));
        for source in object::items(volume, &["projected", "sources"]) {
            names.push(object::text(source, &["configMap", "name"]));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The claims of a pod's volumes, also those that are made for it.
pub(super) fn claims(pod: &Value) -> Vec<String> {
    let claim = |volume: &Value| match object::text(volume, &["persistentVolumeClaim", "claimName"])
    {
        "" if is_given(volume, "ephemeral") => claim_of_ephemeral(pod, volume),
        name => name.to_owned(),
    };
    volumes(pod).iter().map(claim).collect()
}

/// The name of the claim that is made for an ephemeral volume of a pod.
pub(crate) fn claim_of_ephemeral(pod: &Value, volume: &Value) -> String {
    let volume = object::text(volume, &["name"]);
    format!("{}-{volume}", object::name(pod))
}

/// The resource claims of a pod, also those that are made for it.
pub(super) fn resource_claims(pod: &Value) -> Vec<&str> {
    let made = object::items(pod, &["status", "resourceClaimStatuses"]);
    let extended = ["status", "extendedResourceClaimStatus", "resourceClaimName"];
    let mut names = vec![object::text(pod, &extended)];
    for claim in object::items(pod, &["spec", "resourceClaims"]) {
        if is_given(claim, "resourceClaimName") {
            names.push(object::text(claim, &["resourceClaimName"]));
        } else if let Some(made) = made.iter().find(|made| made["name"] == claim["name"]) {
            names.push(object::text(made, &["resourceClaimName"]));
        }
    }
    names
}

/// Namespaces and names of the secrets that a volume of the cluster names for nodes.
pub(super) fn secrets_of_volume(volume: &Value) -> Vec<(&str, &str)> {
    let of_claim = object::text(volume, &["spec", "claimRef", "namespace"]);
    let text = |source, path: &[&str]| {
        let source = object::at(volume, &["spec", source]);
        source.map_or("", |source| object::text(source, path))
    };
    let beside = |namespace| match namespace {
        "" => of_claim,
        namespace => namespace,
    };
    let mut all = vec![(
        beside(text("azureFile", &["secretNamespace"])),
        text("azureFile", &["secretName"]),
    )];
    for source in SECRETS_BESIDE_CLAIMS {
        let namespace = text(source, &["secretRef", "namespace"]);
        all.push((beside(namespace), text(source, &["secretRef", "name"])));
    }
    for source in SECRETS_ELSEWHERE {
        let namespace = text(source, &["secretRef", "namespace"]);
        all.push((namespace, text(source, &["secretRef", "name"])));
    }
    for secret in SECRETS_OF_CSI {
        all.push((
            text("csi", &[secret, "namespace"]),
            text("csi", &[secret, "name"]),
        ));
    }
    all.retain(|(_, name)| !name.is_empty());
    all
}

/// The names in the environments of all containers: of whole objects, and of their keys.
fn of_containers<'a>(pod: &'a Value, whole: &str, key: &str, names: &mut Vec<&'a str>) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in object::items(pod, &["spec", list]) {
            for source in object::items(container, &["envFrom"]) {
                names.push(object::text(source, &[whole, "name"]));
            }
            for variable in object::items(container, &["env"]) {
                names.push(object::text(variable, &["valueFrom", key, "name"]));
            }
        }
    }
}

fn volumes(pod: &Value) -> &[Value] {
    object::items(pod, &["spec", "volumes"])
}

fn is_given(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|value| !value.is_null())
}
