//! Deployments, sets and controllers: their counts, selectors and templates.

use std::collections::BTreeSet;

use machinery::object;
use machinery::selector::LabelSelector;
use machinery::status::Cause;
use serde_json::{Value, json};

use super::pod::{self, Exceptions};
use super::{claim, rolling};
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, unchanged, words::selector};

/// Where the template of the pods is.
const TEMPLATE: &str = "spec.template";
const MISMATCH: &str = "`selector` does not match template `labels`";

/// A deployment, set or controller, given the old one if it is updated.
pub(crate) fn check(kind: &str, old: Option<&Value>, object: &Value) -> Causes {
    let exceptions = Exceptions::of(old.and_then(|old| pod::template_of(old, TEMPLATE)));
    let mut causes = Causes::default();
    match kind {
        "Deployment" => deployment(object, exceptions, &mut causes),
        "ReplicaSet" => replica_set(object, exceptions, &mut causes),
        "ReplicationController" => controller(object, exceptions, &mut causes),
        "StatefulSet" => stateful_set(old, object, exceptions, &mut causes),
        "DaemonSet" => daemon_set(object, with_own_selector(exceptions, old), &mut causes),
        _ => {}
    }
    causes
}

/// A template that is an object, given the old one if it is updated.
pub(crate) fn pod_template(old: Option<&Value>, object: &Value) -> Causes {
    const PATH: &str = "template";
    let exceptions = Exceptions::of(old.and_then(|old| pod::template_of(old, PATH)));
    pod::template(object, PATH, exceptions)
}

/// The exceptions of a template whose owner has a selector that is checked like those of pods.
pub(super) fn with_own_selector(mut exceptions: Exceptions, old: Option<&Value>) -> Exceptions {
    exceptions.selector_values |= selector::had_wrong_values(old, &["spec", "selector"]);
    exceptions
}

/// Further checks of a new set of pods with a state: what an update cannot change.
pub(crate) fn new_stateful_set(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = spec(object);
    causes.each(&spec, "volumeClaimTemplates", |causes, claim| {
        causes.below(claim, "spec", claim::spec);
    });
    causes.named_unless_empty(&spec, "serviceName", machinery::name::dns1123_label);
    causes
}

/// A revision of a set.
pub(crate) fn revision(object: &Value) -> Causes {
    let mut causes = Causes::default();
    causes.not_negative(&FieldValue::new("", object), "revision");
    causes
}

/// Further checks of a new revision.
pub(crate) fn new_revision(object: &Value) -> Causes {
    let why = match object.get("data") {
        None | Some(Value::Null) => "data is mandatory",
        Some(Value::Object(_)) => return Causes::default(),
        Some(_) => "data must be a valid JSON object",
    };
    Causes::from(Cause::required("data", why))
}

/// Fields that must not change.
pub(crate) fn update(kind: &str, old: &Value, new: &Value) -> Causes {
    match kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" => {
            selector::unchanged(old, new).into_iter().collect()
        }
        "StatefulSet" => stateful_set_update(old, new),
        "ControllerRevision" => unchanged(old, new, &["data"]),
        _ => Causes::default(),
    }
}

fn deployment(object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    let spec = spec(object);
    causes.not_negative(&spec, "replicas");
    if selects(object, "deployment", "invalid label selector", causes) {
        template(object, "ReplicaSet", exceptions, causes);
    }
    rolling::deployment(&spec, causes);
    for key in [
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        causes.not_negative(&spec, key);
    }
    let deadline = spec.integer("progressDeadlineSeconds");
    if deadline.is_some_and(|deadline| deadline <= spec.number("minReadySeconds")) {
        let why = "must be greater than minReadySeconds";
        causes.wrong(&spec, "progressDeadlineSeconds", why);
    }
}

fn replica_set(object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    for key in ["replicas", "minReadySeconds"] {
        causes.not_negative(&spec(object), key);
    }
    if selects(object, "deployment", "invalid label selector", causes) {
        template(object, "ReplicaSet", exceptions, causes);
    }
}

fn controller(object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    let spec = spec(object);
    causes.not_negative(&spec, "minReadySeconds");
    let labels = spec.map("selector").filter(|labels| !labels.is_empty());
    if labels.is_none() {
        causes.push(Cause::required("spec.selector", ""));
    }
    causes.not_negative(&spec, "replicas");
    if !spec.has("template") {
        return causes.push(Cause::required("spec.template", ""));
    }
    if let Some(labels) = labels {
        fits_template(object, &LabelSelector::from_map(labels), causes);
    }
    template(object, "ReplicationController", exceptions, causes);
}

fn stateful_set(old: Option<&Value>, object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    let spec = spec(object);
    if !["OrderedReady", "Parallel"].contains(&spec.text("podManagementPolicy")) {
        let why = "must be 'OrderedReady' or 'Parallel'";
        causes.wrong_text(&spec, "podManagementPolicy", why);
    }
    rolling::stateful_set(&spec, causes);
    causes.below(
        &spec,
        "persistentVolumeClaimRetentionPolicy",
        |causes, policy| {
            for when in ["whenDeleted", "whenScaled"] {
                causes.word(policy, when, &["Retain", "Delete"]);
            }
        },
    );
    for key in ["replicas", "minReadySeconds"] {
        causes.not_negative(&spec, key);
    }
    causes.below(&spec, "ordinals", |causes, ordinals| {
        causes.not_negative(ordinals, "start");
    });
    if selects(object, "statefulset", "", causes) {
        let made = with_claims(object);
        let wrong = pod::template(&made, TEMPLATE, exceptions);
        if wrong.is_empty() || !old.is_some_and(|old| is_wrong_set(old, exceptions)) {
            causes.extend(wrong);
        } else {
            causes.extend(pod::template_metadata(&made, TEMPLATE, exceptions));
        }
    }
    restarts_always(object, "StatefulSet", causes);
}

/// True if a stored set breaks a rule. The spec of its template is not checked any more: such sets
/// are older than the check.
fn is_wrong_set(set: &Value, exceptions: Exceptions) -> bool {
    let mut causes = Causes::default();
    stateful_set(None, set, exceptions, &mut causes);
    // Whether this is wrong is not for this rule to say.
    for why in [pod::PRIVILEGED, pod::HOST_PROCESS] {
        causes.allow(why);
    }
    !causes.is_empty()
}

/// The set with the volumes of its claims in the template, and without the fields that differ for
/// each pod.
fn with_claims(object: &Value) -> Value {
    let mut template = object.pointer("/spec/template").cloned();
    let claims = object::items(object, &["spec", "volumeClaimTemplates"]);
    let claims: BTreeSet<&str> = claims.iter().map(object::name).collect();
    if let Some(spec) = template.as_mut().and_then(|made| made.get_mut("spec")) {
        for key in ["subdomain", "hostname"] {
            object::remove(spec, &[key]);
        }
        let own = object::items(spec, &["volumes"]).iter();
        let own = own.filter(|one| !claims.contains(object::text(one, &["name"])));
        let volumes: Vec<Value> = claims
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .chain(own.cloned())
            .collect();
        if !claims.is_empty() {
            object::set(spec, &["volumes"], volumes.into());
        }
    }
    json!({"spec": {"template": template}})
}

fn daemon_set(object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    let spec = spec(object);
    let given = spec.get("selector");
    causes.label_selector_with(&spec, "selector", exceptions.selector_values);
    match given.map(LabelSelector::from_object) {
        None => causes.push(mismatch(object)),
        Some(Ok(parsed)) => fits_template(object, &parsed, causes),
        Some(Err(_)) => {}
    }
    if given.is_some_and(selector::is_empty) {
        let why = "empty selector is invalid for daemonset";
        let shown = selector::shown(given);
        causes.push(Cause::invalid_shown("spec.selector", &shown, why));
    }
    template(object, "DaemonSet", exceptions, causes);
    causes.not_negative(&spec, "minReadySeconds");
    rolling::daemon_set(&spec, causes);
    causes.not_negative(&spec, "revisionHistoryLimit");
}

fn spec(object: &Value) -> FieldValue<'_> {
    FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null))
}

/// Checks the selector, and that it matches the template's labels. False if it cannot be parsed.
fn selects(object: &Value, of: &str, malformed: &str, causes: &mut Causes) -> bool {
    const FIELD: &str = "spec.selector";
    let Some(given) = object::at(object, &["spec", "selector"]) else {
        // A missing selector matches nothing.
        causes.push(Cause::required(FIELD, ""));
        causes.push(mismatch(object));
        return true;
    };
    causes.label_selector(&spec(object), "selector");
    let shown = || selector::shown(Some(given));
    if selector::is_empty(given) {
        let why = format!("empty selector is invalid for {of}");
        causes.push(Cause::invalid_shown(FIELD, &shown(), &why));
    }
    match LabelSelector::from_object(given) {
        Ok(parsed) => {
            fits_template(object, &parsed, causes);
            true
        }
        Err(_) => {
            causes.push(Cause::invalid_shown(FIELD, &shown(), malformed));
            false
        }
    }
}

fn fits_template(object: &Value, selector: &LabelSelector, causes: &mut Causes) {
    let template = object::at(object, &["spec", "template"]).unwrap_or(&Value::Null);
    if !selector.matches(object::labels(template)) {
        causes.push(mismatch(object));
    }
}

/// The error that the selector does not match the template's labels.
pub(crate) fn mismatch(object: &Value) -> Cause {
    let labels = object.pointer("/spec/template/metadata/labels");
    let field = "spec.template.metadata.labels";
    Cause::invalid(field, labels.unwrap_or(&Value::Null), MISMATCH)
}

/// A template of pods that always run. `owner` is Go's name of its kind.
fn template(object: &Value, owner: &str, exceptions: Exceptions, causes: &mut Causes) {
    causes.extend(pod::template(object, TEMPLATE, exceptions));
    restarts_always(object, owner, causes);
}

fn restarts_always(object: &Value, owner: &str, causes: &mut Causes) {
    let spec = object.pointer("/spec/template/spec");
    let spec = FieldValue::new("spec.template.spec", spec.unwrap_or(&Value::Null));
    if spec.text("restartPolicy") != "Always" {
        causes.unknown(&spec, "restartPolicy", &["Always"]);
    }
    let why = format!("activeDeadlineSeconds in {owner} is not Supported");
    causes.forbidden(&spec, "activeDeadlineSeconds", &why);
}

fn stateful_set_update(old: &Value, new: &Value) -> Causes {
    let free = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|key, _| !free.contains(&key.as_str()));
        }
        spec
    };
    if fixed(old) == fixed(new) {
        Causes::default()
    } else {
        Causes::from(Cause::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ))
    }
}
