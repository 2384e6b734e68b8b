//! Gives a new pod its service account: the name, a volume with a token, and the account's image
//! pull secrets.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use machinery::object::{self, MIRROR_POD};
use machinery::schema;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::admission::{Attributes, CREATE, Context, Plugin};
use crate::auth::Answer;
use crate::auth::authenticate::token::SECONDS_OF_POD;
use crate::basics::clock;
use crate::storage::reader::Reader;

/// Attempts to find the default account, which a controller creates with the namespace.
const TRIES_MAX: usize = 10;
/// Delay between two attempts.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The account of a pod that names none.
const DEFAULT_ACCOUNT: &str = "default";
/// Prefix of the name of the token's volume.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Mount path of the token in containers.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Annotation of an account that allows only its own secrets.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// Gives new pods their service accounts.
pub struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == CREATE && attributes.is_about("", "pods", "")
    }

    fn mutate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        pod: &'a mut Value,
    ) -> Answer<'a, ()> {
        Box::pin(give_account(&context.reader, attributes.namespace, pod))
    }
}

async fn give_account(reader: &Reader, namespace: &str, pod: &mut Value) -> Result<(), Status> {
    let shown = match object::name(pod) {
        "" => object::generate_name(pod).to_owned(),
        name => name.to_owned(),
    };
    let forbidden = |why: &str| Status::forbidden("", "pods", &shown, why);
    let name = account(pod).map_err(|why| forbidden(&why))?;
    let Some(name) = name else { return Ok(()) };
    let found = find_account(reader, namespace, &name).await;
    let account = found.map_err(|error| {
        let why = match error.code {
            404 => format!("serviceaccount {name:?} not found"),
            _ => error.message,
        };
        forbidden(&format!(
            "error looking up service account {namespace}/{name}: {why}"
        ))
    })?;
    let volume = clock::generated_name(VOLUME_PREFIX);
    apply(pod, &account, &volume).map_err(|why| forbidden(&why))
}

async fn find_account(reader: &Reader, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
    let kind = schema::resource("", "v1", "serviceaccounts").ok_or_else(Status::unknown_path)?;
    if let Some(found) = reader.cached(kind, namespace, name) {
        return Ok(found);
    }
    let patient = name == DEFAULT_ACCOUNT;
    for _ in 1..TRIES_MAX {
        match reader.get(kind, namespace, name).await {
            Err(error) if error.code == 404 && patient => tokio::time::sleep(RETRY_AFTER).await,
            found => return found,
        }
    }
    reader.get(kind, namespace, name).await
}

/// Returns the pod's service account, after setting the default if it names none. `None` for a
/// mirror pod, which has no account and is not changed. The error names what a mirror pod may not
/// have.
fn account(pod: &mut Value) -> Result<Option<String>, String> {
    if object::annotation(pod, MIRROR_POD).is_some() {
        return check_mirror(pod).map(|()| None);
    }
    let named = ["serviceAccountName", "serviceAccount"]
        .map(|key| object::text(pod, &["spec", key]).to_owned())
        .into_iter()
        .find(|name| !name.is_empty());
    let name = named.unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
    // The second field is the older name of the first, and clients read either.
    for key in ["serviceAccountName", "serviceAccount"] {
        object::set(pod, &["spec", key], name.as_str().into());
    }
    Ok(Some(name))
}

/// Adds the token's volume and the image pull secrets, and checks that the pod uses only secrets
/// it may. `volume` is the name of a new volume.
fn apply(pod: &mut Value, account: &Value, volume: &str) -> Result<(), String> {
    let wanted = |object: &Value, path: &[&str]| object::at(object, path).and_then(Value::as_bool);
    let mounts = wanted(pod, &["spec", "automountServiceAccountToken"])
        .or_else(|| wanted(account, &["automountServiceAccountToken"]))
        .unwrap_or(true);
    if mounts {
        mount_token(pod, volume);
    }
    if object::items(pod, &["spec", "imagePullSecrets"]).is_empty() {
        let secrets: Vec<Value> = object::items(account, &["imagePullSecrets"])
            .iter()
            .map(|secret| json!({ "name": object::text(secret, &["name"]) }))
            .collect();
        if !secrets.is_empty() {
            object::set(pod, &["spec", "imagePullSecrets"], secrets.into());
        }
    }
    let strict = ["1", "t", "T", "TRUE", "true", "True"];
    if object::annotation(account, ENFORCE).is_some_and(|value| strict.contains(&value)) {
        check_secrets(pod, account)?;
    }
    Ok(())
}

fn mount_token(pod: &mut Value, volume: &str) {
    let volumes = object::items(pod, &["spec", "volumes"]).iter();
    let mut names = volumes.map(|volume| object::text(volume, &["name"]));
    let present = names
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    let name = present.clone().unwrap_or_else(|| volume.to_owned());
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        let containers = pod.pointer_mut(&format!("/spec/{list}"));
        for container in containers
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let mounts = object::items(container, &["volumeMounts"]).iter();
            // A mount at this path replaces the token.
            if mounts
                .clone()
                .any(|mount| object::text(mount, &["mountPath"]) == MOUNT_PATH)
            {
                continue;
            }
            let mut mounts: Vec<Value> = mounts.cloned().collect();
            mounts.push(json!({ "mountPath": MOUNT_PATH, "name": name, "readOnly": true }));
            object::set(container, &["volumeMounts"], mounts.into());
            needed = true;
        }
    }
    if needed && present.is_none() {
        let mut volumes = object::items(pod, &["spec", "volumes"]).to_vec();
        volumes.push(token_volume(&name));
        object::set(pod, &["spec", "volumes"], volumes.into());
    }
}

/// A volume with token, authority and namespace, each in a file.
fn token_volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                { "serviceAccountToken": {
                    "expirationSeconds": SECONDS_OF_POD, "path": "token",
                } },
                { "configMap": {
                    "items": [{ "key": "ca.crt", "path": "ca.crt" }],
                    "name": "kube-root-ca.crt",
                } },
                { "downwardAPI": { "items": [{
                    "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                    "path": "namespace",
                }] } },
            ],
        },
    })
}

fn check_mirror(pod: &Value) -> Result<(), String> {
    if !object::text(pod, &["spec", "serviceAccountName"]).is_empty() {
        return Err("a mirror pod may not reference service accounts".into());
    }
    let volumes = object::items(pod, &["spec", "volumes"]);
    let of_token = |source: &Value| source.get("serviceAccountToken").is_some();
    let projected = |volume: &Value| {
        object::items(volume, &["projected", "sources"])
            .iter()
            .any(of_token)
    };
    if !secrets_of(pod).is_empty()
        || volumes.iter().any(|volume| volume.get("secret").is_some())
        || !object::items(pod, &["spec", "imagePullSecrets"]).is_empty()
    {
        return Err("a mirror pod may not reference secrets".into());
    }
    if volumes.iter().any(projected) {
        let why = "a mirror pod may not use ServiceAccountToken volume projections";
        return Err(why.into());
    }
    Ok(())
}

/// A secret that a container reads variables from, and its description.
struct Use {
    secret: String,
    what: String,
}

fn secrets_of(pod: &Value) -> Vec<Use> {
    let mut uses = Vec::new();
    for (list, kind) in [
        ("initContainers", "init container"),
        ("containers", "container"),
    ] {
        for container in object::items(pod, &["spec", list]) {
            let place = format!("{kind} {}", object::text(container, &["name"]));
            for variable in object::items(container, &["env"]) {
                let secret = object::text(variable, &["valueFrom", "secretKeyRef", "name"]);
                if !secret.is_empty() {
                    uses.push(Use {
                        secret: secret.to_owned(),
                        what: format!(
                            "{place} with envVar {} referencing secret.secretName={secret:?}",
                            object::text(variable, &["name"])
                        ),
                    });
                }
            }
            for source in object::items(container, &["envFrom"]) {
                let secret = object::text(source, &["secretRef", "name"]);
                if !secret.is_empty() {
                    uses.push(Use {
                        secret: secret.to_owned(),
                        what: format!(
                            "{place} with envFrom referencing secret.secretName={secret:?}"
                        ),
                    });
                }
            }
        }
    }
    uses
}

fn check_secrets(pod: &Value, account: &Value) -> Result<(), String> {
    let name = object::name(account);
    let has = |list: &str, secret: &str| {
        let all = object::items(account, &[list]).iter();
        all.map(|one| object::text(one, &["name"]))
            .any(|one| one == secret)
    };
    let refused = |what: String| {
        Err(format!(
            "{what} is not allowed because service account {name} does not reference that secret"
        ))
    };
    for volume in object::items(pod, &["spec", "volumes"]) {
        let secret = object::text(volume, &["secret", "secretName"]);
        if volume.get("secret").is_some() && !has("secrets", secret) {
            return refused(format!("volume with secret.secretName={secret:?}"));
        }
    }
    for one in secrets_of(pod) {
        if !has("secrets", &one.secret) {
            return refused(one.what);
        }
    }
    for (place, secret) in object::items(pod, &["spec", "imagePullSecrets"])
        .iter()
        .enumerate()
    {
        let secret = object::text(secret, &["name"]);
        if !has("imagePullSecrets", secret) {
            return Err(format!(
                "imagePullSecrets[{place}].name={secret:?} is not allowed because service account \
                 {name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}
