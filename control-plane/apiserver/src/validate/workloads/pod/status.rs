//! The status of pods, which agents of nodes report.

use machinery::object;
use machinery::status::Cause;
use serde_json::{Value, json};

use super::change;
use crate::basics::address::read;
use crate::validate::Causes;
use crate::validate::words::{address, field::FieldValue};

/// An update of the status.
pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = change::annotations(old, new);
    let status = FieldValue::new("status", new.get("status").unwrap_or(&Value::Null));
    addresses("podIPs", old, &status, &mut causes);
    if let Some(first) = status.each("hostIPs").next()
        && first.text("ip") != status.text("hostIP")
    {
        causes.wrong_text(&first, "ip", "must be equal to `hostIP`");
    }
    addresses("hostIPs", old, &status, &mut causes);
    causes
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
