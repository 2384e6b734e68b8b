//! Defaults of pods and of objects that hold a pod template.

use serde_json::{Value, json};

use super::{below, default, default_absent, each, has, made, text};

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A pod: the defaults of a template and three more.
pub(super) fn pod(object: &mut Value) {
    template(object);
    below(object, &["status"], addresses);
    let Some(spec) = object.get_mut("spec") else {
        return;
    };
    default(spec, "enableServiceLinks", true);
    let grace = "terminationGracePeriodSeconds";
    if spec
        .get(grace)
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        spec[grace] = 1.into();
    }
    for list in &CONTAINERS[..2] {
        let host = spec.get("hostNetwork") == Some(&Value::Bool(true));
        each(spec, &[list], |container| {
            requests_from_limits(container);
            if host {
                each(container, &["ports"], |port| {
                    if let Some(number) = port.get("containerPort").cloned() {
                        default(port, "hostPort", number);
                    }
                });
            }
        });
    }
}

pub(super) fn pod_template(object: &mut Value) {
    below(object, &["template"], template);
}

/// Any object whose `spec` is a pod spec.
pub(super) fn template(object: &mut Value) {
    let spec = made(object, &["spec"]);
    account(spec);
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", "default-scheduler");
    for list in CONTAINERS {
        each(spec, &[list], container);
    }
    each(spec, &["volumes"], |volume| {
        let sources = volume.as_object().map_or(0, |fields| {
            let of_name = usize::from(fields.contains_key("name"));
            fields.len() - of_name
        });
        if sources == 0 {
            default(volume, "emptyDir", json!({}));
        }
        volume_source(volume);
    });
}

/// The name of the service account is in two fields, the second of which is the former name of the
/// first: clients write and read either. If they differ, the first one counts.
fn account(spec: &mut Value) {
    const FIELDS: [&str; 2] = ["serviceAccountName", "serviceAccount"];
    let mut named = FIELDS.iter().map(|key| text(spec, key));
    let name = named.find(|name| !name.is_empty()).map(str::to_owned);
    if let Some(name) = name {
        for key in FIELDS {
            spec[key] = name.as_str().into();
        }
    }
}

/// The first address of a pod is in two fields, the second of which came later. If they differ, the
/// first one counts, because old agents of nodes know only that.
fn addresses(status: &mut Value) {
    let one = text(status, "podIP").to_owned();
    let first = status.pointer("/podIPs/0");
    let first = first.map(|first| text(first, "ip").to_owned());
    match first {
        Some(first) if one.is_empty() => default(status, "podIP", first),
        first if !one.is_empty() && first.as_ref() != Some(&one) => {
            status["podIPs"] = json!([{"ip": one}]);
        }
        _ => {}
    }
}

/// The volume sources that pods and persistent volumes share.
pub(super) fn volume_source(volume: &mut Value) {
    const MODE: u32 = 0o644;
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        below(volume, &[source], |source| {
            default(source, "defaultMode", MODE)
        });
    }
    each(volume, &["downwardAPI", "items"], field_ref);
    each(volume, &["projected", "sources"], |source| {
        below(source, &["serviceAccountToken"], |token| {
            default(token, "expirationSeconds", 3600);
        });
        each(source, &["downwardAPI", "items"], field_ref);
    });
    below(volume, &["hostPath"], |source| default(source, "type", ""));
    below(volume, &["image"], |source| {
        let policy = pull_policy(text(source, "reference"));
        default(source, "pullPolicy", policy);
    });
    below(volume, &["iscsi"], |source| {
        default(source, "iscsiInterface", "default")
    });
    below(volume, &["rbd"], |source| {
        default(source, "pool", "rbd");
        default(source, "user", "admin");
        default(source, "keyring", "/etc/ceph/keyring");
    });
    below(volume, &["azureDisk"], |source| {
        default_absent(source, "cachingMode", "ReadWrite");
        default(source, "fsType", "ext4");
        default(source, "readOnly", false);
        default_absent(source, "kind", "Shared");
    });
    below(volume, &["scaleIO"], |source| {
        default(source, "storageMode", "ThinProvisioned");
        default(source, "fsType", "xfs");
    });
    below(
        volume,
        &["ephemeral", "volumeClaimTemplate", "spec"],
        |spec| {
            default_absent(spec, "volumeMode", "Filesystem");
        },
    );
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    each(container, &["ports"], |port| {
        default(port, "protocol", "TCP")
    });
    each(container, &["env"], |env| {
        below(env, &["valueFrom"], field_ref);
    });
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        below(container, &[name], probe);
    }
    for hook in ["postStart", "preStop"] {
        below(container, &["lifecycle", hook], handler);
    }
}

fn probe(probe: &mut Value) {
    default(probe, "timeoutSeconds", 1);
    default(probe, "periodSeconds", 10);
    default(probe, "successThreshold", 1);
    default(probe, "failureThreshold", 3);
    handler(probe);
    below(probe, &["grpc"], |grpc| default(grpc, "service", ""));
}

fn handler(handler: &mut Value) {
    below(handler, &["httpGet"], |get| {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    });
}

fn field_ref(holder: &mut Value) {
    below(holder, &["fieldRef"], |field| {
        default(field, "apiVersion", "v1")
    });
}

fn requests_from_limits(container: &mut Value) {
    let limits = container.pointer("/resources/limits").cloned();
    let Some(Value::Object(limits)) = limits else {
        return;
    };
    for (resource, limit) in limits {
        let requests = made(container, &["resources", "requests"]);
        if !has(requests, &resource) {
            default(requests, &resource, limit);
        }
    }
}

/// An image that may change is pulled again.
fn pull_policy(image: &str) -> &'static str {
    if latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

/// True for an image without tag and digest, or with the tag `latest`. No image is none.
fn latest(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest && !image.is_empty(),
    }
}
