//! Runtime classes: how containers run, what that costs, and where it is possible.

use std::collections::BTreeSet;

use machinery::name;
use machinery::status::Cause;
use serde_json::{Value, json};

use super::pod::{overhead_of, tolerations};
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, unchanged};

pub(crate) fn check(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let class = FieldValue::new("", object);
    causes.must_be_named(&class, "handler", name::dns1123_label);
    causes.below(&class, "overhead", |causes, overhead| {
        let limits = json!({"limits": overhead.get("podFixed").unwrap_or(&Value::Null)});
        overhead_of(&FieldValue::new("overhead", &limits), false, causes);
    });
    causes.below(&class, "scheduling", |causes, scheduling| {
        causes.labels(scheduling, "nodeSelector");
        tolerations(scheduling, false, causes);
        let mut seen = BTreeSet::new();
        causes.each(scheduling, "tolerations", |causes, one| {
            let keys = ["key", "operator", "value", "effect"];
            if !seen.insert(keys.map(|key| one.text(key))) {
                causes.push(Cause::duplicate(&one.path, one.value));
            }
        });
    });
    causes
}

pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    unchanged(old, new, &["handler"])
}
