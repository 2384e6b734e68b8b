//! Annotations of pods: what it costs to delete one, and tolerations and profiles of containers,
//! which are older than the fields for them.

use std::collections::BTreeSet;

use machinery::object::{self, APP_ARMOR, MIRROR_POD};
use machinery::status::Cause;
use serde_json::{Map, Value, json};

use super::exceptions::Exceptions;
use super::{LISTS_AS_VISITED, deletion_cost, paths, scheduling};
use crate::validate::Causes;
use crate::validate::words::embedded::{self, Fields};
use crate::validate::words::field::FieldValue;

const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const TOLERATION: &Fields = &[
    ("key", "string"),
    ("operator", "core.TolerationOperator"),
    ("value", "string"),
    ("effect", "core.TaintEffect"),
    ("tolerationSeconds", "int64"),
];
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const LOCAL: &str = "localhost/";
const DEFAULT: &str = "runtime/default";
const OLD_DEFAULT: &str = "docker/default";
const UNCONFINED: &str = "unconfined";

/// The annotations of a pod or a template, with their path and the spec.
pub(super) struct Annotations<'a> {
    path: String,
    map: &'a Map<String, Value>,
    spec: FieldValue<'a>,
}

impl<'a> Annotations<'a> {
    /// Those of a pod, if it has any.
    pub(super) fn of_pod(pod: &'a Value) -> Option<Annotations<'a>> {
        Annotations::new("metadata.annotations", "spec", pod)
    }

    /// Those of the template at a path.
    pub(super) fn of_template(path: &str, template: &'a Value) -> Option<Annotations<'a>> {
        Annotations::new(
            &format!("{path}.annotations"),
            &format!("{path}.spec"),
            template,
        )
    }

    fn new(path: &str, spec: &str, object: &'a Value) -> Option<Annotations<'a>> {
        Some(Annotations {
            path: path.to_owned(),
            map: object::annotations(object)?,
            spec: FieldValue::new(spec, object.get("spec").unwrap_or(&Value::Null)),
        })
    }

    /// Checks what each says.
    pub(super) fn check(&self, exceptions: Exceptions, causes: &mut Causes) {
        if let Some(mirror) = self.text(MIRROR_POD)
            && self.spec.text("nodeName").is_empty()
        {
            let why = "must set spec.nodeName if mirror pod annotation is set";
            causes.push(Cause::invalid(&self.at(MIRROR_POD), &mirror.into(), why));
        }
        self.tolerations(exceptions.comparisons, causes);
        if let Some(cost) = self.text(deletion_cost::ANNOTATION)
            && !exceptions.deletion_cost
            && !deletion_cost::is_number(cost)
        {
            let field = self.at(deletion_cost::ANNOTATION);
            causes.push(Cause::invalid(
                &field,
                &cost.into(),
                "must be a 32bit integer",
            ));
        }
        for (key, value) in self.map {
            if causes.is_full() {
                return;
            }
            if key == SECCOMP_OF_POD || key.starts_with(SECCOMP) {
                let field = format!("{}.{key}", self.path);
                seccomp(&field, value.as_str().unwrap_or_default(), causes);
            }
        }
        self.app_armor(causes);
    }

    /// Profiles in annotations must be those in the fields.
    pub(super) fn contradictions(&self, causes: &mut Causes) {
        let profile = |of: &FieldValue<'a>, key: &str| of.child("securityContext")?.child(key);
        let whole = profile(&self.spec, "seccompProfile");
        if let (Some(text), Some(profile)) = (self.text(SECCOMP_OF_POD), whole) {
            contradicts("seccomp", text, &profile, causes);
        }
        self.containers(causes, |causes, container| {
            let key = format!("{SECCOMP}{}", container.text("name"));
            let own = profile(container, "seccompProfile");
            if let (Some(text), Some(profile)) = (self.text(&key), own) {
                contradicts("seccomp", text, &profile, causes);
            }
        });
        if object::text(self.spec.value, &["os", "name"]) == "windows" {
            return;
        }
        let whole = profile(&self.spec, "appArmorProfile");
        self.containers(causes, |causes, container| {
            let key = format!("{APP_ARMOR}{}", container.text("name"));
            let own = profile(container, "appArmorProfile").or_else(|| whole.clone());
            if let (Some(text), Some(mut profile)) = (self.text(&key), own) {
                profile.path = container.path_of("securityContext.appArmorProfile");
                contradicts("apparmor", text, &profile, causes);
            }
        });
    }

    fn tolerations(&self, compares: bool, causes: &mut Causes) {
        let Some(text) = self.text(TOLERATIONS).filter(|text| !text.is_empty()) else {
            return;
        };
        match embedded::structs(text, "Toleration", TOLERATION) {
            Ok(tolerations) => {
                let list = json!({"tolerations": tolerations});
                let list = FieldValue::new("", &list);
                let field = format!("{}.{TOLERATIONS}", self.path);
                scheduling::tolerations_at(&field, &list, compares, causes);
            }
            Err(why) => causes.push(Cause::invalid(&self.path, &TOLERATIONS.into(), &why)),
        }
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.map.get(key)?.as_str()
    }

    fn at(&self, key: &str) -> String {
        format!("{}[{key}]", self.path)
    }

    fn containers(&self, causes: &mut Causes, mut act: impl FnMut(&mut Causes, &FieldValue<'a>)) {
        for list in LISTS_AS_VISITED {
            causes.each(&self.spec, list, &mut act);
        }
    }

    /// The profiles of AppArmor, each for a container of the pod.
    fn app_armor(&self, causes: &mut Causes) {
        let names = LISTS_AS_VISITED.iter();
        let names = names.flat_map(|list| self.spec.items(list));
        let names: BTreeSet<&str> = names.map(|one| object::text(one, &["name"])).collect();
        for (key, value) in self.map {
            let Some(container) = key.strip_prefix(APP_ARMOR) else {
                continue;
            };
            if causes.is_full() {
                return;
            }
            if !names.contains(container) {
                let why = "container not found";
                causes.push(Cause::invalid(&self.at(key), &container.into(), why));
            }
            let profile = value.as_str().unwrap_or_default();
            if !["", DEFAULT, UNCONFINED].contains(&profile) && !profile.starts_with(LOCAL) {
                let why = format!("invalid AppArmor profile name: {profile:?}");
                causes.push(Cause::invalid(&self.at(key), value, &why));
            }
        }
    }
}

fn seccomp(field: &str, profile: &str, causes: &mut Causes) {
    if [DEFAULT, OLD_DEFAULT, UNCONFINED].contains(&profile) {
        return;
    }
    let Some(file) = profile.strip_prefix(LOCAL) else {
        let why = "must be a valid seccomp profile";
        return causes.push(Cause::invalid(field, &profile.into(), why));
    };
    if file.starts_with('/') {
        causes.push(Cause::invalid(
            field,
            &file.into(),
            "must be a relative path",
        ));
    }
    if paths::leads_up(file) {
        causes.push(Cause::invalid(field, &file.into(), "must not contain '..'"));
    }
}

/// An annotation and a field that name different profiles. `what` confines with them.
fn contradicts(what: &str, annotation: &str, profile: &FieldValue, causes: &mut Causes) {
    const FILE: &str = "localhostProfile";
    let mut differs = |key: &str, part: &str| {
        let why = format!("{what} {part} in annotation and field must match");
        causes.push(Cause::forbidden(&profile.path_of(key), &why));
    };
    let file = annotation.strip_prefix(LOCAL);
    let same = match profile.text("type") {
        "Unconfined" => annotation == UNCONFINED,
        "RuntimeDefault" => {
            annotation == DEFAULT || (what == "seccomp" && annotation == OLD_DEFAULT)
        }
        "Localhost" => file.is_some(),
        _ => return,
    };
    if !same {
        differs("type", "type");
    } else if profile.text("type") == "Localhost"
        && (!profile.has(FILE) || file != Some(profile.text(FILE)))
    {
        differs(FILE, "profile");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pod: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        let annotations = Annotations::of_pod(pod).unwrap();
        annotations.check(Exceptions::default(), &mut causes);
        annotations.contradictions(&mut causes);
        let causes = Vec::from(causes).into_iter();
        causes
            .map(|one| format!("{}: {}", one.field, one.message))
            .collect()
    }

    fn pod(key: &str, value: &str, context: Value) -> Value {
        let container = json!({"name": "c", "securityContext": context});
        json!({"metadata": {"annotations": {key: value}}, "spec": {"containers": [container]}})
    }

    #[test]
    fn a_cost_is_a_number_as_go_writes_it() {
        for (cost, good) in [
            ("0", true),
            ("-10", true),
            ("2147483647", true),
            ("2147483648", false),
            ("+1", false),
            ("08", false),
            ("", false),
            ("much", false),
        ] {
            let told = told(&pod(deletion_cost::ANNOTATION, cost, json!({})));
            assert_eq!(told.is_empty(), good, "{cost}: {told:?}");
        }
    }

    #[test]
    fn tolerations_in_an_annotation_are_checked_like_those_in_the_field() {
        let of = |text: &str| told(&pod(TOLERATIONS, text, json!({})));
        let none: Vec<String> = Vec::new();
        for good in ["", "[]", "[{\"key\":\"a\",\"Operator\":\"Exists\"}]"] {
            assert_eq!(of(good), none, "{good}");
        }
        assert_eq!(
            of("[{\"key\":\"a\",\"operator\":\"Gt\",\"value\":\"1\"}]"),
            [format!(
                "metadata.annotations.{TOLERATIONS}[0].operator: Unsupported value: \"Gt\": supported \
                 values: \"Equal\", \"Exists\", \"Lt\", \"Gt\""
            )]
        );
        assert_eq!(
            of("{}"),
            [format!(
                "metadata.annotations: Invalid value: \"{TOLERATIONS}\": json: cannot unmarshal object \
                 into Go value of type []core.Toleration"
            )]
        );
    }

    #[test]
    fn a_profile_is_one_of_a_container_of_the_pod() {
        let of = |key: &str, value: &str| told(&pod(key, value, json!({})));
        let armor = |name: &str| format!("{APP_ARMOR}{name}");
        let none: Vec<String> = Vec::new();
        for good in [DEFAULT, UNCONFINED, "localhost/p", ""] {
            assert_eq!(of(&armor("c"), good), none, "{good}");
        }
        assert_eq!(
            of(&armor("d"), "loose"),
            [
                format!(
                    "metadata.annotations[{}]: Invalid value: \"d\": container not found",
                    armor("d")
                ),
                format!(
                    "metadata.annotations[{}]: Invalid value: \"loose\": invalid AppArmor profile \
                     name: \"loose\"",
                    armor("d")
                ),
            ]
        );
        assert_eq!(of(SECCOMP_OF_POD, OLD_DEFAULT), none);
        assert_eq!(
            of(SECCOMP_OF_POD, "localhost/../p"),
            [format!(
                "metadata.annotations.{SECCOMP_OF_POD}: Invalid value: \"../p\": must not contain '..'"
            )]
        );
        assert_eq!(
            of(&format!("{SECCOMP}c"), "loose"),
            [format!(
                "metadata.annotations.{SECCOMP}c: Invalid value: \"loose\": must be a valid seccomp \
                 profile"
            )]
        );
    }

    #[test]
    fn an_annotation_and_a_field_name_the_same_profile() {
        let key = format!("{APP_ARMOR}c");
        let of = |value: &str, profile: Value| {
            told(&pod(&key, value, json!({"appArmorProfile": profile})))
        };
        let none: Vec<String> = Vec::new();
        let local = json!({"type": "Localhost", "localhostProfile": "p"});
        assert_eq!(of("localhost/p", local.clone()), none);
        assert_eq!(of(DEFAULT, json!({"type": "RuntimeDefault"})), none);
        let place = "spec.containers[0].securityContext.appArmorProfile";
        assert_eq!(
            of("localhost/q", local.clone()),
            [format!(
                "{place}.localhostProfile: Forbidden: apparmor profile in annotation and field must \
                 match"
            )]
        );
        assert_eq!(
            of(UNCONFINED, local),
            [format!(
                "{place}.type: Forbidden: apparmor type in annotation and field must match"
            )]
        );
    }
}
