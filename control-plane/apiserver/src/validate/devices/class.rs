//! Classes.

use machinery::amounts::is_extended;
use machinery::name;
use serde_json::Value;

use super::CONFIGURATIONS_MAX;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

/// A class.
pub(crate) fn class(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    causes.selectors(&spec);
    causes.few(&spec, "config", CONFIGURATIONS_MAX, |causes, one| {
        causes.configuration(one);
    });
    let resource = spec.text("extendedResourceName");
    if spec.has("extendedResourceName") && !is_extended(resource) {
        let why = "must be a valid extended resource name";
        causes.wrong(&spec, "extendedResourceName", why);
    }
    causes
}

/// The name of a class. Kubernetes counts its length in other words than elsewhere.
pub(crate) fn class_name(text: &str) -> Vec<String> {
    let wrong = name::dns1123_subdomain(text).into_iter();
    wrong
        .map(|why| why.replace("no more than 253 characters", "no more than 253 bytes"))
        .collect()
}
