//! Roles and their bindings.

use machinery::name;
use machinery::object;
use machinery::selector::LabelSelector;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::words::shown::{self, Field};

const GROUP: &str = "rbac.authorization.k8s.io";
const SUBJECTS: [&str; 3] = ["ServiceAccount", "User", "Group"];
const ROLE_REF: [Field; 3] = [
    ("APIGroup", "apiGroup", "\"\""),
    ("Kind", "kind", "\"\""),
    ("Name", "name", "\"\""),
];

pub(crate) fn check(kind: &str, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let whole = FieldValue::new("", object);
    match kind {
        "Role" | "ClusterRole" => {
            causes.each(&whole, "rules", |causes, rule| {
                self::rule(rule, kind == "Role", causes);
            });
            causes.below(&whole, "aggregationRule", aggregation);
        }
        _ => binding(&whole, kind == "RoleBinding", &mut causes),
    }
    causes
}

/// The role of a binding must not change.
pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    match (old.get("roleRef"), new.get("roleRef")) {
        (before, after) if before == after => Causes::default(),
        (_, after) => {
            let shown = shown::as_go(after.unwrap_or(&Value::Null), &ROLE_REF);
            let why = "cannot change roleRef";
            Causes::from(Cause::invalid_shown("roleRef", &shown, why))
        }
    }
}

fn rule(rule: &FieldValue, namespaced: bool, causes: &mut Causes) {
    let none = |key: &str| rule.items(key).is_empty();
    let mut need = |key: &str, why: &str| {
        if none(key) {
            causes.push(Cause::required(&rule.path_of(key), why));
        }
    };
    need("verbs", "verbs must contain at least one value");
    let paths = "nonResourceURLs";
    if none(paths) {
        need(
            "apiGroups",
            "resource rules must supply at least one api group",
        );
        return need(
            "resources",
            "resource rules must supply at least one resource",
        );
    }
    if namespaced {
        let why = "namespaced rules cannot apply to non-resource URLs";
        causes.wrong(rule, paths, why);
    }
    let of_resources = ["apiGroups", "resources", "resourceNames"];
    if !of_resources.into_iter().all(none) {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        causes.wrong(rule, paths, why);
    }
}

fn aggregation(causes: &mut Causes, rule: &FieldValue) {
    const KEY: &str = "clusterRoleSelectors";
    if rule.items(KEY).is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        causes.push(Cause::required(&rule.path_of(KEY), why));
    }
    causes.each(rule, KEY, |causes, selector| {
        causes.labels(selector, "matchLabels");
        causes.each(selector, "matchExpressions", |causes, one| {
            causes.requirement(one, &["In", "NotIn"], &["Exists", "DoesNotExist"], &[]);
            causes.label_values(one);
        });
        if LabelSelector::from_object(selector.value).is_err() {
            let why = "invalid label selector.";
            causes.push(Cause::invalid(&selector.path, &Value::Null, why));
        }
    });
}

fn binding(whole: &FieldValue, namespaced: bool, causes: &mut Causes) {
    let role = FieldValue::new("roleRef", whole.get("roleRef").unwrap_or(&Value::Null));
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    for (key, known) in [("apiGroup", &[GROUP][..]), ("kind", kinds)] {
        if !known.contains(&role.text(key)) {
            causes.unknown(&role, key, known);
        }
    }
    causes.must_be_named(&role, "name", name::path_segment);
    causes.each(whole, "subjects", |causes, subject| {
        self::subject(subject, namespaced, causes);
    });
}

fn subject(subject: &FieldValue, namespaced: bool, causes: &mut Causes) {
    causes.required(subject, "name");
    let group = subject.text("apiGroup");
    match object::kind(subject.value) {
        "ServiceAccount" => {
            causes.named_unless_empty(subject, "name", name::dns1123_subdomain);
            if !group.is_empty() {
                causes.unknown(subject, "apiGroup", &[""]);
            }
            if !namespaced {
                causes.required(subject, "namespace");
            }
        }
        "User" | "Group" if group == GROUP => {}
        "User" | "Group" => causes.unknown(subject, "apiGroup", &[GROUP]),
        _ => causes.unknown(subject, "kind", &SUBJECTS),
    }
}
