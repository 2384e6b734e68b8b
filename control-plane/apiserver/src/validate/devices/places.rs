//! Where devices are, of a whole slice or of one device.

use machinery::name;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::workloads::pod::node_selector;
use crate::validate::{Causes, named};

/// Which of the fields are set that say where devices are, and whether each is valid. Of `flags`
/// only true is.
pub(super) fn places(
    causes: &mut Causes,
    at: &FieldValue,
    flags: &[&'static str],
) -> Vec<&'static str> {
    let mut places = Vec::new();
    if at.has("nodeName") {
        let text = at.text("nodeName");
        if text.is_empty() {
            let why = match at.path.as_str() {
                "spec" => "must be either unset or set to a non-empty string",
                _ => "must not be empty",
            };
            causes.wrong(at, "nodeName", why);
        } else {
            places.push("nodeName");
            let wrong = name::dns1123_subdomain(text);
            causes.extend(named(&at.path_of("nodeName"), text, wrong));
        }
    }
    causes.below(at, "nodeSelector", |causes, selector| {
        places.push("nodeSelector");
        node_selector(causes, selector, false);
    });
    for flag in flags {
        if at.flag(flag) {
            places.push(*flag);
        } else if at.has(flag) {
            causes.wrong(at, flag, "must be either unset or set to true");
        }
    }
    places
}

/// How errors name several fields.
pub(super) fn shown(places: &[&str]) -> Value {
    let all: Vec<String> = places.iter().map(|key| format!("`{key}`")).collect();
    format!("{{{}}}", all.join(", ")).into()
}
