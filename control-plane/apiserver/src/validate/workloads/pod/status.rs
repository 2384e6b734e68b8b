//! The status of pods, which agents of nodes report.

mod claims;
mod states;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::{Value, json};

use super::change;
use crate::basics::address::read;
use crate::validate::words::{address, field::FieldValue};
use crate::validate::{Causes, named, unchanged};

const NOT_NEGATIVE: &str = "must be a non-negative integer";

/// The conditions whose types are no qualified names.
const SYSTEM_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// An update of the status. The spec is the old one.
pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = change::annotations(old, new);
    let at = |pod| FieldValue::new("status", pod);
    let status = at(new.get("status").unwrap_or(&Value::Null));
    let before = at(old.get("status").unwrap_or(&Value::Null));
    let spec = FieldValue::new("spec", old.get("spec").unwrap_or(&Value::Null));
    conditions(&status, &mut causes);
    nominated(&spec, &before, &status, &mut causes);
    if status.number("observedGeneration") < 0 {
        causes.wrong(&status, "observedGeneration", NOT_NEGATIVE);
    }
    causes.extend(unchanged(old, new, &["status", "qosClass"]));
    states::transitions(&spec, &before, &status, &mut causes);
    claims::generated(&spec, &status, &mut causes);
    claims::of_extended_resources(&spec, &status, &mut causes);
    addresses("podIPs", old, &status, &mut causes);
    if let Some(first) = status.each("hostIPs").next()
        && first.text("ip") != status.text("hostIP")
    {
        causes.wrong_text(&first, "ip", "must be equal to `hostIP`");
    }
    addresses("hostIPs", old, &status, &mut causes);
    states::users(&spec, &status, &mut causes);
    states::resources(&spec, &status, &mut causes);
    causes
}

fn conditions(status: &FieldValue, causes: &mut Causes) {
    causes.each(status, "conditions", |causes, condition| {
        if condition.number("observedGeneration") < 0 {
            causes.wrong(condition, "observedGeneration", NOT_NEGATIVE);
        }
        let kind = condition.text("type");
        if !SYSTEM_CONDITIONS.contains(&kind) {
            // Kubernetes names the field as its program does.
            let field = condition.path_of("Type");
            causes.extend(named(&field, kind, name::qualified_name(kind)));
        }
    });
}

/// The node on which the pod is expected to run.
fn nominated(spec: &FieldValue, before: &FieldValue, status: &FieldValue, causes: &mut Causes) {
    const KEY: &str = "nominatedNodeName";
    if status.text(KEY) == before.text(KEY) {
        return;
    }
    causes.named_unless_empty(status, KEY, name::dns1123_subdomain);
    if !spec.text("nodeName").is_empty() && !status.text(KEY).is_empty() {
        let why = "may not be set on pods that are already bound to a node";
        causes.forbidden(status, KEY, why);
    }
}

/// A list of addresses: at most one of each family. Those in a form that is refused today stay.
fn addresses(key: &str, old: &Value, status: &FieldValue, causes: &mut Causes) {
    let texts = |list: &[Value]| -> Vec<String> {
        let texts = list.iter().map(|one| object::text(one, &["ip"]).to_owned());
        texts.collect()
    };
    let had = texts(object::items(old, &["status", key]));
    let had: Vec<&str> = had.iter().map(String::as_str).collect();
    causes.each(status, key, |causes, one| {
        causes.extend(address::wrong_new(&one.path, one.text("ip"), &had));
    });
    let all = texts(status.items(key));
    if all.len() < 2 {
        return;
    }
    let path = status.path_of(key);
    if let Some(at) = all.iter().position(|text| read(text).is_none()) {
        let why = format!(
            "failed to check for dual stack with error:invalid IP[{at}]: {}",
            all[at]
        );
        causes.push(Cause::internal(&path, &why));
    }
    let families = all.iter().map(|text| read(text).map(|one| one.is_ipv4()));
    let families: Vec<Option<bool>> = families.collect();
    let is_pair = matches!(families[..], [Some(one), Some(other)] if one != other);
    if !is_pair {
        // Kubernetes shows the fields as they are called in its program.
        let shown = all.iter().map(|text| json!({"IP": text}));
        let why = "may specify no more than one IP for each IP family";
        causes.push(Cause::invalid(&path, &shown.collect(), why));
    }
}
