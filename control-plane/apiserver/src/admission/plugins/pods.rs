//! Defaults of pods: the priority of their class, and tolerations for short failures of nodes.

use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::admission::{Attributes, Context, DELETE, NOT_READY, Plugin};
use crate::auth::Answer;
use crate::storage::reader::Reader;

/// Default time that pods stay on a node that is not ready or not reachable.
const TOLERATED_SECONDS: i64 = 300;

/// Sets the priority of a pod from its class.
pub(crate) struct Priority;

/// Lets pods stay for a while on a failed node.
pub(crate) struct DefaultTolerationSeconds;

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_of_pod(attributes)
    }

    fn mutate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        pod: &'a mut Value,
    ) -> Answer<'a, ()> {
        let done = match attributes.old {
            None => new_priority(&context.reader, pod),
            Some(old) => {
                keep_priority(old, pod);
                Ok(())
            }
        };
        Box::pin(async { done })
    }
}

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_of_pod(attributes)
    }

    fn mutate<'a>(
        &'a self,
        _: &'a Context,
        _: &'a Attributes<'a>,
        pod: &'a mut Value,
    ) -> Answer<'a, ()> {
        tolerations(pod);
        Box::pin(async { Ok(()) })
    }
}

fn is_of_pod(attributes: &Attributes<'_>) -> bool {
    attributes.operation != DELETE && attributes.is_about("", "pods", "")
}

/// An update without a priority keeps the old one.
fn keep_priority(old: &Value, pod: &mut Value) {
    for key in ["priority", "preemptionPolicy"] {
        let path = ["spec", key];
        if object::at(pod, &path).is_none()
            && let Some(kept) = object::at(old, &path)
        {
            object::set(pod, &path, kept.clone());
        }
    }
}

/// Sets the priority from the pod's class, or from the default class.
fn new_priority(reader: &Reader, pod: &mut Value) -> Result<(), Status> {
    let Some(classes) = schema::resource("scheduling.k8s.io", "v1", "priorityclasses") else {
        return Ok(());
    };
    let wanted = object::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = match wanted.as_str() {
        "" => {
            let all = reader.cached_readable(classes, "");
            let defaults = all
                .into_iter()
                .filter(|class| class["globalDefault"] == true);
            defaults.min_by_key(|class| class["value"].as_i64())
        }
        name => {
            let why = format!("no PriorityClass with name {name} was found");
            let missing = || Status::forbidden("", "pods", object::name(pod), &why);
            Some(reader.cached(classes, "", name).ok_or_else(missing)?)
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

/// Adds the tolerations for short failures of nodes.
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
