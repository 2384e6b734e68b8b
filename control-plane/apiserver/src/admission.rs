//! What the cluster has to say about an object before it is stored: namespaces, priorities,
//! tolerations, and that no node begins with pods. Accounts are the gate's.

use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::api::Api;
use crate::auth::Admission;
use crate::catalogue;
use crate::catalogue::Resource;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// How long pods stay on a node that is not ready or not reachable, unless they say.
const TOLERATED_SECONDS: i64 = 300;
/// The taint of a node that nobody has found ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Refuses or completes a new object.
pub(crate) async fn create(
    api: &Api,
    resource: &'static Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    if resource.kind.namespaced() {
        open_namespace(api, resource, namespace, object::name(object)).await?;
    }
    match (resource.kind.group, resource.kind.kind) {
        ("", "Pod") => {
            priority(api, object)?;
            tolerations(object);
        }
        ("", "Node") => not_ready(object),
        _ => {}
    }
    Ok(())
}

/// Refuses the end of what must not end.
pub(crate) fn delete(resource: &Resource, name: &str) -> Result<(), Status> {
    if (resource.kind.group, resource.kind.plural) == ("", "namespaces") && IMMORTAL.contains(&name)
    {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden("", "namespaces", name, why));
    }
    Ok(())
}

/// The namespace must be there and stay.
async fn open_namespace(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    let namespaces = catalogue::resource("", "v1", "namespaces")
        .ok_or_else(|| Status::internal("no namespaces in the schema"))?;
    let found = match api.cached(namespaces.kind, "", namespace) {
        Some(found) => found,
        // It may have been made a moment ago.
        None => api.get(namespaces.kind, "", namespace).await?,
    };
    if object::is_deleting(&found) {
        let (group, plural) = (resource.kind.group, resource.kind.plural);
        return Err(Status::namespace_terminating(
            group, plural, name, namespace,
        ));
    }
    Ok(())
}

/// A pod's priority is that of its class, or of the class that is the default.
fn priority(api: &Api, pod: &mut Value) -> Result<(), Status> {
    let Some(classes) = catalogue::resource("scheduling.k8s.io", "v1", "priorityclasses") else {
        return Ok(());
    };
    let wanted = object::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = match wanted.as_str() {
        "" => {
            let all = api.cached_list(classes.kind, "");
            let defaults = all
                .into_iter()
                .filter(|class| class["globalDefault"] == true);
            defaults.min_by_key(|class| class["value"].as_i64())
        }
        name => {
            let why = format!("no PriorityClass with name {name} was found");
            let missing = || Status::forbidden("", "pods", object::name(pod), &why);
            Some(api.cached(classes.kind, "", name).ok_or_else(missing)?)
        }
    };
    let (value, policy) = match &class {
        None => (json!(0), json!("PreemptLowerPriority")),
        Some(class) => {
            object::set(
                pod,
                &["spec", "priorityClassName"],
                object::name(class).into(),
            );
            let policy = object::text(class, &["preemptionPolicy"]);
            let policy = if policy.is_empty() {
                "PreemptLowerPriority"
            } else {
                policy
            };
            (
                class.get("value").cloned().unwrap_or(json!(0)),
                json!(policy),
            )
        }
    };
    if let Some(given) = object::integer(pod, &["spec", "priority"])
        && json!(given) != value
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(Status::forbidden("", "pods", object::name(pod), &why));
    }
    let given = object::text(pod, &["spec", "preemptionPolicy"]);
    if !given.is_empty() && policy != given {
        let policy = policy.as_str().unwrap_or_default();
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(Status::forbidden("", "pods", object::name(pod), &why));
    }
    object::set(pod, &["spec", "priority"], value);
    object::set(pod, &["spec", "preemptionPolicy"], policy);
    Ok(())
}

/// Pods outlast short troubles of their node.
fn tolerations(pod: &mut Value) {
    let mut all = object::items(pod, &["spec", "tolerations"]).to_vec();
    for key in [NOT_READY, "node.kubernetes.io/unreachable"] {
        let covers = |one: &Value| {
            let (its_key, effect) = (object::text(one, &["key"]), object::text(one, &["effect"]));
            (its_key == key || its_key.is_empty()) && ["NoExecute", ""].contains(&effect)
        };
        if !all.iter().any(covers) {
            all.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
    object::set(pod, &["spec", "tolerations"], all.into());
}

/// A new node gets no pods before somebody has looked whether it is ready, and has taken this taint
/// away.
fn not_ready(node: &mut Value) {
    let mut taints = object::items(node, &["spec", "taints"]).to_vec();
    let is_there = |one: &Value| one["key"] == NOT_READY && one["effect"] == "NoSchedule";
    if !taints.iter().any(is_there) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        object::set(node, &["spec", "taints"], taints.into());
    }
}

/// Lets the gate change or refuse an object.
pub(crate) async fn ask_gate(
    api: &Api,
    admission: Admission<'_>,
    object: &mut Value,
) -> Result<(), Status> {
    api.0.config.gate.admit(api, admission, object).await
}
