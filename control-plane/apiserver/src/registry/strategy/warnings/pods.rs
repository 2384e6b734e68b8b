//! What is odd about pods, and about the templates that pods are made of.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object::{self, APP_ARMOR};
use serde_json::Value;

use super::{addresses, ports, volumes};
use crate::registry::strategy::pod::app_armor;
use crate::validate::words::field::FieldValue;
use crate::validate::words::old_labels;

const NO_SELECTOR: &str = "labelSelector: a null labelSelector results in matching no pod";
const NEEDED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const WISHED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// Annotations that became fields, since when they do nothing, and these fields.
const OLD_ANNOTATIONS: [(&str, &str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "v1.16+",
        "priorityClassName",
    ),
    ("security.alpha.kubernetes.io/sysctls", "v1.11+", "sysctls"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "v1.11+",
        "sysctls",
    ),
];
/// The annotations of profiles; those of a container end with its name.
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// What to say of an annotation with a profile of AppArmor.
const OLD_PROFILE: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
/// Resources that are counted in bytes.
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];

/// Pods are warned of when they are created: their changes come from programs, and often.
pub(in super::super) fn of_pod(old: Option<&Value>, pod: &Value) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings: Vec<String> = host_name(pod, "the Pod's hostname").into_iter().collect();
    warnings.extend(of(&FieldValue::new("", pod)));
    warnings
}

/// A new pod whose profiles of AppArmor are about to be moved to the fields, or cannot be.
pub(in super::super) fn of_profiles(pod: &Value) -> Vec<String> {
    let spec = FieldValue::new("spec", pod.get("spec").unwrap_or(&Value::Null));
    if object::text(spec.value, &["os", "name"]) == "windows" {
        return Vec::new();
    }
    let pod = FieldValue::new("", pod);
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = lists.into_iter().flat_map(|list| spec.each(list));
    containers
        .filter_map(|one| app_armor_of(&pod, &one))
        .collect()
}

/// A name that is not a DNS label is a bad host name, or a bad part of some.
pub(super) fn host_name(object: &Value, used: &str) -> Option<String> {
    let wrong = name::dns1123_label(object::name(object));
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        )
    })
}

/// What a pod or a template is warned of, which is what has a path.
pub(super) fn of(pod: &FieldValue) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let spec = FieldValue::new(pod.path_of("spec"), spec);
    nodes(&spec, &mut warnings);
    spread(&spec, &mut warnings);
    for (key, since, field) in OLD_ANNOTATIONS {
        let why = format!("non-functional in {since}; use the {field:?} field instead");
        warnings.extend(annotated(pod, key, &why));
    }
    volumes::of_spec(&spec, &mut warnings);
    twice(&spec, "hostAliases", "ip", &mut warnings);
    twice(&spec, "imagePullSecrets", "name", &mut warnings);
    for secret in spec.each("imagePullSecrets") {
        if secret.text("name").is_empty() {
            let field = secret.path_of("name");
            warnings.push(format!("{field}: invalid empty name \"\""));
        }
    }
    volumes::whole_bytes(&spec, "overhead", &BYTES, &mut warnings);
    if !has_profile(&spec, "seccompProfile") {
        warnings.extend(without_seccomp(pod, SECCOMP_OF_POD));
    }
    let containers: Vec<FieldValue> = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|key| spec.each(key))
        .collect();
    for one in &containers {
        profiles(pod, one, &mut warnings);
        container(one, &mut warnings);
    }
    ports::check(&containers, &mut warnings);
    if spec.number("terminationGracePeriodSeconds") < 0 {
        let field = spec.path_of("terminationGracePeriodSeconds");
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{field}: {why}"));
    }
    affinity(&spec, &mut warnings);
    warnings.extend(of_addresses(&spec));
    warnings
}

/// Addresses in a form that not everybody reads alike.
fn of_addresses(spec: &FieldValue) -> Vec<String> {
    let servers = spec.child("dnsConfig");
    let servers = servers.into_iter().flat_map(|dns| dns.each("nameservers"));
    let servers = servers.map(|one| (one.path, one.value.as_str().unwrap_or_default()));
    let hosts = spec.each("hostAliases");
    let hosts = hosts.map(|one| (one.path_of("ip"), one.text("ip")));
    let all = servers.chain(hosts);
    all.filter_map(|(field, text)| addresses::of_address(&field, text))
        .collect()
}

/// What to say of a label of nodes that has another name now.
fn old_label(key: &str) -> Option<String> {
    let (since, now) = old_labels::renamed(key)?;
    Some(format!("deprecated since {since}; use {now:?} instead"))
}

/// The nodes that a pod asks for.
fn nodes(spec: &FieldValue, warnings: &mut Vec<String>) {
    for (key, _) in spec.map("nodeSelector").into_iter().flatten() {
        let field = spec.path_of("nodeSelector");
        warnings.extend(old_label(key).map(|why| format!("{field}[{key}]: {why}")));
    }
    let affinity = spec.child("affinity");
    let Some(affinity) = affinity.and_then(|affinity| affinity.child("nodeAffinity")) else {
        return;
    };
    if let Some(needed) = affinity.child(NEEDED) {
        for term in needed.each("nodeSelectorTerms") {
            conditions(&term, false, warnings);
        }
    }
    for wish in affinity.each(WISHED) {
        if let Some(term) = wish.child("preference") {
            conditions(&term, true, warnings);
        }
    }
}

/// The conditions on nodes. The values of mere wishes are not validated.
fn conditions(term: &FieldValue, values: bool, warnings: &mut Vec<String>) {
    for one in term.each("matchExpressions") {
        let key = one.text("key");
        let field = one.path_of("key");
        warnings.extend(old_label(key).map(|why| format!("{field}: {key} is {why}")));
        for value in one.each("values").filter(|_| values) {
            let text = value.value.as_str().unwrap_or_default();
            for why in name::label_value(text) {
                warnings.push(format!("{}: {text} is invalid, {why}", value.path));
            }
        }
    }
}

/// How pods spread.
fn spread(spec: &FieldValue, warnings: &mut Vec<String>) {
    for one in spec.each("topologySpreadConstraints") {
        let key = one.text("topologyKey");
        let field = one.path_of("topologyKey");
        warnings.extend(old_label(key).map(|why| format!("{field}: {key} is {why}")));
        if !one.has("labelSelector") {
            warnings.push(one.path_of(NO_SELECTOR));
        }
    }
}

/// An annotation that a pod should not have.
fn annotated(pod: &FieldValue, key: &str, why: &str) -> Option<String> {
    object::annotation(pod.value, key)?;
    let field = pod.path_of("metadata.annotations");
    Some(format!("{field}[{key}]: {why}"))
}

fn without_seccomp(pod: &FieldValue, key: &str) -> Option<String> {
    let why = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    annotated(pod, key, why)
}

/// Items of a list that say the same.
fn twice(spec: &FieldValue, list: &str, key: &str, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for item in spec.each(list) {
        let text = item.text(key);
        if !seen.insert(text) {
            let field = item.path_of(key);
            warnings.push(format!("{field}: duplicate {key} {text:?}"));
        }
    }
}

/// Whether a pod or a container has a profile in a field.
fn has_profile(of: &FieldValue, key: &str) -> bool {
    let context = of.child("securityContext");
    context.is_some_and(|context| context.has(key))
}

/// A profile of a container in an annotation, where there is a field for it. A pod's own annotation
/// of AppArmor becomes the field, and it is warned of then.
fn profiles(pod: &FieldValue, one: &FieldValue, warnings: &mut Vec<String>) {
    if !has_profile(one, "seccompProfile") {
        let key = format!("{SECCOMP}{}", one.text("name"));
        warnings.extend(without_seccomp(pod, &key));
    }
    let is_template = !pod.path.is_empty();
    if is_template {
        warnings.extend(app_armor_of(pod, one));
    }
}

/// The annotation with a profile of AppArmor for a container, unless the container has a field, or
/// that of the whole pod says the same.
fn app_armor_of(pod: &FieldValue, container: &FieldValue) -> Option<String> {
    if has_profile(container, "appArmorProfile") {
        return None;
    }
    let key = format!("{APP_ARMOR}{}", container.text("name"));
    let told = app_armor(object::annotation(pod.value, &key)?);
    let of_pod = object::at(pod.value, &["spec", "securityContext", "appArmorProfile"]);
    if told.is_some() && told.as_ref() == of_pod {
        return None;
    }
    annotated(pod, &key, OLD_PROFILE)
}

/// The memory of a container, and its variables.
fn container(one: &FieldValue, warnings: &mut Vec<String>) {
    if let Some(resources) = one.child("resources") {
        for resource in BYTES {
            for amounts in ["limits", "requests"] {
                volumes::whole_bytes(&resources, amounts, &[resource], warnings);
            }
        }
    }
    let mut names = BTreeSet::new();
    for variable in one.each("env") {
        let name = variable.text("name");
        let itself = format!("$({name})");
        let value = variable.text("value");
        let extends = value != itself && value.contains(&itself) && !variable.has("valueFrom");
        if !names.insert(name) && !extends {
            warnings.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                variable.path
            ));
        }
    }
}

/// The pods that a pod asks to be near to, or far from.
fn affinity(spec: &FieldValue, warnings: &mut Vec<String>) {
    let Some(affinity) = spec.child("affinity") else {
        return;
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.child(kind) else {
            continue;
        };
        for term in terms.each(NEEDED) {
            if !term.has("labelSelector") {
                warnings.push(term.path_of(NO_SELECTOR));
            }
        }
        for wish in terms.each(WISHED) {
            if object::at(wish.value, &["podAffinityTerm", "labelSelector"]).is_none() {
                warnings.push(wish.path_of(&format!("podAffinityTerm.{NO_SELECTOR}")));
            }
        }
    }
}
