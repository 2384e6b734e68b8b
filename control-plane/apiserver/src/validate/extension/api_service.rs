//! APIServices.

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1_000;
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

pub(crate) fn check(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let root = FieldValue::new("", object);
    let null = Value::Null;
    let spec = root
        .child("spec")
        .unwrap_or_else(|| FieldValue::new("spec", &null));
    let (group, version) = (spec.text("group"), spec.text("version"));
    let required = format!("{version}.{group}");
    let given = object::name(object);
    if !given.is_empty() && given != required {
        let why = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        causes.push(Cause::invalid("metadata.name", &given.into(), &why));
    }
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        causes.push(Cause::required("spec.group", why));
    }
    if !group.is_empty() {
        for why in name::dns1123_subdomain(group) {
            causes.wrong_text(&spec, "group", &why);
        }
    }
    for why in name::dns1035_label(version) {
        causes.wrong_text(&spec, "version", &why);
    }
    for (key, most) in [
        ("groupPriorityMinimum", GROUP_PRIORITY_MAX),
        ("versionPriority", VERSION_PRIORITY_MAX),
    ] {
        let given = spec.number(key);
        if !(1..=most).contains(&given) {
            let why = format!("must be positive and less than {most}");
            let field = format!("spec.{key}");
            causes.push(Cause::invalid(&field, &given.into(), &why));
        }
    }
    causes.extend(server(&spec));
    causes
}

/// The rules about the other server, and about there being none.
fn server(spec: &FieldValue) -> Causes {
    let mut causes = Causes::default();
    let bundle = spec.text("caBundle");
    let is_insecure = spec.flag("insecureSkipTLSVerify");
    let Some(service) = spec.child("service") else {
        if !bundle.is_empty() {
            // Three bytes are four characters.
            let bytes = bundle.trim_end_matches('=').len() * 3 / 4;
            let why = "local APIServices may not have a caBundle";
            let shown = Value::from(format!("{bytes} bytes"));
            causes.push(Cause::invalid("spec.caBundle", &shown, why));
        }
        if is_insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            causes.wrong(spec, "insecureSkipTLSVerify", why);
        }
        return causes;
    };
    causes.required(&service, "namespace");
    causes.required(&service, "name");
    if let Some(port) = service.integer("port")
        && !(1..=i64::from(u16::MAX)).contains(&port)
    {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.wrong(&service, "port", why);
    }
    if is_insecure && !bundle.is_empty() {
        let why = "may not be true if caBundle is present";
        causes.wrong(spec, "insecureSkipTLSVerify", why);
    }
    causes
}

/// Checks the conditions that others write.
pub(crate) fn status(object: &Value) -> Causes {
    let conditions = object::items(object, &["status", "conditions"]).iter();
    let wrong = conditions.enumerate().filter_map(|(at, one)| {
        let given = object::text(one, &["status"]);
        let field = format!("status.conditions[{at}].status");
        (!STATUSES.contains(&given)).then(|| Cause::not_supported(&field, &given.into(), &STATUSES))
    });
    wrong.collect()
}
