//! What the class of a pod's runtime adds to the pod: the overhead of the runtime, and the nodes
//! that have it.

use machinery::amounts;
use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, Plugin};
use crate::auth::Answer;

const OVERHEAD: [&str; 2] = ["spec", "overhead"];
const OTHER_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Adds to a pod what the class of its runtime says.
pub(crate) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
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
        Box::pin(async move {
            let class = class_of(context, attributes, pod).await?;
            let refused = |why: String| attributes.forbidden(&why);
            set_overhead(&class, pod).map_err(refused)?;
            set_scheduling(&class, pod).map_err(refused)
        })
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        pod: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let class = class_of(context, attributes, pod).await?;
            let has = object::at(pod, &OVERHEAD);
            let why = if object::at(&class, &["overhead"]).is_some() {
                let is_its = amounts::read(has) == overhead_of(&class);
                (!is_its).then_some(OTHER_OVERHEAD)
            } else {
                has.map(|_| {
                    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                })
            };
            why.map_or(Ok(()), |why| Err(attributes.forbidden(why)))
        })
    }
}

/// The class that a pod names; null if it names none.
async fn class_of(
    context: &Context,
    attributes: &Attributes<'_>,
    pod: &Value,
) -> Result<Value, Status> {
    let named = object::at(pod, &["spec", "runtimeClassName"]).and_then(Value::as_str);
    let kind = schema::resource("node.k8s.io", "v1", "runtimeclasses");
    let Some((name, kind)) = named.zip(kind) else {
        return Ok(Value::Null);
    };
    if let Some(class) = context.reader.cached(kind, "", name) {
        return Ok(Value::clone(&class));
    }
    match context.reader.get(kind, "", name).await {
        Ok(class) => Ok(Value::clone(&class)),
        Err(status) if status.code == 404 => {
            let why = format!("pod rejected: RuntimeClass {name:?} not found");
            Err(attributes.forbidden(&why))
        }
        Err(status) => Err(status),
    }
}

fn overhead_of(class: &Value) -> amounts::Amounts {
    amounts::read(object::at(class, &["overhead", "podFixed"]))
}

fn set_overhead(class: &Value, pod: &mut Value) -> Result<(), String> {
    if object::at(class, &["overhead"]).is_none() {
        return Ok(());
    }
    let has = amounts::read(object::at(pod, &OVERHEAD));
    if !has.is_empty() && has != overhead_of(class) {
        return Err(OTHER_OVERHEAD.to_owned());
    }
    match object::at(class, &["overhead", "podFixed"]) {
        Some(fixed) => object::set(pod, &OVERHEAD, fixed.clone()),
        None => drop(object::remove(pod, &OVERHEAD)),
    }
    Ok(())
}

fn set_scheduling(class: &Value, pod: &mut Value) -> Result<(), String> {
    let selector = object::at(class, &["scheduling", "nodeSelector"]);
    for (key, value) in selector.and_then(Value::as_object).into_iter().flatten() {
        let path = ["spec", "nodeSelector", key.as_str()];
        let (wanted, has) = (value.as_str().unwrap_or_default(), object::text(pod, &path));
        if object::at(pod, &path).is_some() && has != wanted {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {has}"
            ));
        }
        object::set(pod, &path, value.clone());
    }
    let tolerated = object::items(class, &["scheduling", "tolerations"]);
    if object::at(class, &["scheduling"]).is_some() {
        let path = ["spec", "tolerations"];
        let all = [object::items(pod, &path), tolerated].concat();
        if !all.is_empty() {
            object::set(pod, &path, merged(&all).into());
        }
    }
    Ok(())
}

/// Leaves out tolerations that another one covers; of equal ones the first stays.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let later = &mut all[at + 1..].iter();
        let is_covered = kept.iter().any(|other| covers(other, one))
            || later.any(|other| other != one && covers(other, one));
        if !is_covered {
            kept.push(one.clone());
        }
    }
    kept
}

/// True if `wide` tolerates everything that `one` tolerates.
fn covers(wide: &Value, one: &Value) -> bool {
    let of = |of: &Value, key: &str| object::text(of, &[key]).to_owned();
    let (operator, effect) = (of(wide, "operator"), of(wide, "effect"));
    if wide == one {
        return true;
    }
    let is_any_key = of(wide, "key").is_empty() && operator == "Exists";
    if of(one, "key") != of(wide, "key") && !is_any_key {
        return false;
    }
    if of(one, "effect") != effect && !effect.is_empty() {
        return false;
    }
    let seconds = |of: &Value| object::integer(of, &["tolerationSeconds"]);
    if effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(one).is_none_or(|wanted| wanted > most)
    {
        return false;
    }
    match operator.as_str() {
        "Equal" | "" => of(one, "operator") == "Equal" && of(one, "value") == of(wide, "value"),
        operator => operator == "Exists",
    }
}
