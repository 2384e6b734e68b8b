//! What Kubernetes warns of though it accepts it: fields without effect, and objects that do other
//! than they seem to.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::quantity::Quantity;
use machinery::structural::Schema;
use serde_json::Value;

/// Sources of volumes that nobody serves any more, and since when.
const GONE: [(&str, &str); 9] = [
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const NO_SELECTOR: &str = "labelSelector: a null labelSelector results in matching no pod";

/// Pods are warned of when they are created: their changes come from programs, and often.
pub(super) fn of_pod(old: Option<&Value>, pod: &Value) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings: Vec<String> = host_name(pod).into_iter().collect();
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    for (at, constraint) in list(spec, "topologySpreadConstraints") {
        if constraint.get("labelSelector").is_none() {
            warnings.push(format!(
                "spec.topologySpreadConstraints[{at}].{NO_SELECTOR}"
            ));
        }
    }
    for (at, volume) in list(spec, "volumes") {
        for (source, since) in GONE {
            if volume.get(source).is_some() {
                let shown = called_in_go(source);
                warnings.push(format!("spec.volumes[{at}].{shown}: {since}"));
            }
        }
    }
    for volume in object::items(spec, &["volumes"]) {
        empty_projection(volume, &mut warnings);
    }
    secrets(spec, &mut warnings);
    memory(spec, &mut warnings);
    ports(spec, &mut warnings);
    let grace = object::integer(spec, &["terminationGracePeriodSeconds"]);
    if grace.is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("spec.terminationGracePeriodSeconds: {why}"));
    }
    affinity(spec, &mut warnings);
    warnings
}

/// A name that is not a DNS label is a bad host name.
fn host_name(pod: &Value) -> Option<String> {
    let wrong = name::dns1123_label(object::name(pod));
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        )
    })
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    object::items(value, &[key]).iter().enumerate()
}

/// Go's name of a source.
fn called_in_go(source: &str) -> &str {
    match source {
        "storageos" => "storageOS",
        source => source,
    }
}

/// The bundles of certificates that a signer has written are no source that has a path.
fn empty_projection(volume: &Value, warnings: &mut Vec<String>) {
    let known = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
    for source in object::items(volume, &["projected", "sources"]) {
        if !known.iter().any(|key| source.get(key).is_some()) {
            let name = object::text(volume, &["name"]);
            warnings.push(format!(
                "volume {name:?} (Projected) has no sources provided"
            ));
        }
    }
}

fn secrets(spec: &Value, warnings: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    for (at, secret) in list(spec, "imagePullSecrets") {
        let name = object::text(secret, &["name"]);
        if !names.insert(name) {
            warnings.push(format!(
                "spec.imagePullSecrets[{at}].name: duplicate name {name:?}"
            ));
        }
    }
    for (at, secret) in list(spec, "imagePullSecrets") {
        if object::text(secret, &["name"]).is_empty() {
            let why = "invalid empty name \"\"";
            warnings.push(format!("spec.imagePullSecrets[{at}].name: {why}"));
        }
    }
}

/// The containers and their paths.
fn containers(spec: &Value) -> impl Iterator<Item = (String, &Value)> {
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(move |key| {
            list(spec, key).map(move |(at, container)| (format!("spec.{key}[{at}]"), container))
        })
}

fn memory(spec: &Value, warnings: &mut Vec<String>) {
    for (path, container) in containers(spec) {
        for resource in ["memory", "ephemeral-storage"] {
            for amounts in ["limits", "requests"] {
                let amount = object::text(container, &["resources", amounts, resource]);
                if Quantity::parse(amount).is_ok_and(|amount| amount.milli_value() % 1000 != 0) {
                    warnings.push(format!(
                        "{path}.resources.{amounts}[{resource}]: fractional byte value {amount:?} is invalid, must be an integer"
                    ));
                }
            }
        }
        let mut names = BTreeSet::new();
        for (at, variable) in list(container, "env") {
            let name = object::text(variable, &["name"]);
            let itself = format!("$({name})");
            let value = object::text(variable, &["value"]);
            let extends = value != itself && value.contains(&itself);
            let extends = extends && variable.get("valueFrom").is_none();
            if !names.insert(name) && !extends {
                warnings.push(format!(
                    "{path}.env[{at}]: hides previous definition of {name:?}, which may be dropped when using apply"
                ));
            }
        }
    }
}

fn ports(spec: &Value, warnings: &mut Vec<String>) {
    struct Port<'a> {
        path: String,
        key: (i64, &'a str),
        host: (&'a str, i64),
        name: &'a str,
    }
    let mut seen: Vec<Port> = Vec::new();
    for (path, container) in containers(spec) {
        for (at, port) in list(container, "ports") {
            let text = |key| object::text(port, &[key]);
            let number = |key| object::integer(port, &[key]).unwrap_or(0);
            let one = Port {
                path: format!("{path}.ports[{at}]"),
                key: (number("containerPort"), text("protocol")),
                host: (text("hostIP"), number("hostPort")),
                name: text("name"),
            };
            let (ip, host_port) = one.host;
            if !ip.is_empty() && host_port == 0 {
                let (number, protocol) = one.key;
                warnings.push(format!(
                    "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}",
                    one.path, one.name
                ));
            }
            for other in seen.iter().filter(|other| other.key == one.key) {
                let what = if other.host == one.host {
                    "duplicate"
                } else if host_port == 0 || other.host.1 == 0 {
                    "overlapping"
                } else if host_port == other.host.1 && ip.is_empty() != other.host.0.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                let (path, other) = (&one.path, &other.path);
                warnings.push(format!("{path}: {what} port definition with {other}"));
            }
            seen.push(one);
        }
    }
    let named = |name: &str| seen.iter().position(|port| port.name == name);
    for (at, port) in seen
        .iter()
        .enumerate()
        .filter(|(_, port)| !port.name.is_empty())
    {
        if let Some(first) = named(port.name).filter(|first| *first < at) {
            let (path, name, other) = (&port.path, port.name, &seen[first].path);
            warnings.push(format!(
                "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
            ));
        }
    }
}

fn affinity(spec: &Value, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = spec.pointer(&format!("/affinity/{kind}"));
        let terms = terms.unwrap_or(&Value::Null);
        let (needed, wished) = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        );
        for (at, term) in list(terms, needed) {
            if term.get("labelSelector").is_none() {
                warnings.push(format!("spec.affinity.{kind}.{needed}[{at}].{NO_SELECTOR}"));
            }
        }
        for (at, term) in list(terms, wished) {
            if object::at(term, &["podAffinityTerm", "labelSelector"]).is_none() {
                warnings.push(format!(
                    "spec.affinity.{kind}.{wished}[{at}].podAffinityTerm.{NO_SELECTOR}"
                ));
            }
        }
    }
}

pub(super) fn of_service(_old: Option<&Value>, service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let text = |key| object::text(service, &["spec", key]);
    if !object::items(service, &["spec", "externalIPs"]).is_empty() {
        let why = "is deprecated and may no longer be implemented in some clusters";
        warnings.push(format!("spec.externalIPs {why}"));
    }
    if text("type") != "ExternalName" && !text("externalName").is_empty() {
        let why = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        warnings.push(why.to_owned());
    }
    if text("type") != "ExternalName" && text("clusterIP") == "None" {
        if !text("loadBalancerIP").is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services".into());
        }
        if !object::items(service, &["spec", "externalIPs"]).is_empty() {
            warnings.push("spec.externalIPs is ignored for headless services".into());
        }
    }
    warnings
}

pub(super) fn of_slice(_old: Option<&Value>, slice: &Value) -> Vec<String> {
    let named = object::text(slice, &["addressType"]) == "FQDN";
    let why = "spec.addressType: FQDN endpoints are deprecated";
    named.then(|| why.to_owned()).into_iter().collect()
}

/// The warning is about new requests for tokens.
pub(super) fn of_driver(old: Option<&Value>, driver: &Value) -> Vec<String> {
    let requests = |driver| object::items(driver, &["spec", "tokenRequests"]);
    let asks = !requests(driver).is_empty();
    let asks = asks && old.is_none_or(|old| requests(old) != requests(driver));
    let says = object::at(driver, &["spec", "serviceAccountTokenInSecrets"]).is_some();
    let why = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
    (asks && !says)
        .then(|| why.to_owned())
        .into_iter()
        .collect()
}

pub(super) fn of_node(_old: Option<&Value>, node: &Value) -> Vec<String> {
    let named = !object::text(node, &["spec", "externalID"]).is_empty();
    let why = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
    named.then(|| why.to_owned()).into_iter().collect()
}

/// A volume whose source nobody serves any more, or whose content is wiped.
pub(super) fn of_volume(_old: Option<&Value>, volume: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (annotation, since, field) in [
        ("storage-class", "v1.8", "storageClassName"),
        ("mount-options", "v1.31", "mountOptions"),
    ] {
        let key = format!("volume.beta.kubernetes.io/{annotation}");
        if object::annotation(volume, &key).is_some() {
            let why = format!("deprecated since {since}; use {field:?} attribute instead");
            warnings.push(format!("metadata.annotations[{key}]: {why}"));
        }
    }
    let path = ["spec", "persistentVolumeReclaimPolicy"];
    if object::text(volume, &path) == "Recycle" {
        warnings.push(format!(
            "{}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            path.join(".")
        ));
    }
    let spec = volume.get("spec").unwrap_or(&Value::Null);
    let quiet = ["gitRepo", "flocker", "quobyte"];
    let gone = GONE.iter().filter(|(source, _)| !quiet.contains(source));
    for (source, since) in gone.filter(|(source, _)| spec.get(source).is_some()) {
        warnings.push(format!("spec.{}: {since}", called_in_go(source)));
    }
    warnings
}

pub(super) fn of_stateful_set(_old: Option<&Value>, set: &Value) -> Vec<String> {
    let limit = object::integer(set, &["spec", "revisionHistoryLimit"]);
    let why = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
    let endless = limit.is_some_and(|limit| limit < 0);
    endless.then(|| why.to_owned()).into_iter().collect()
}

/// An account that restricts its secrets in a way that is given up.
pub(super) fn of_account(old: Option<&Value>, account: &Value) -> Vec<String> {
    const RESTRICTS: &str = "kubernetes.io/enforce-mountable-secrets";
    let restricts = |account| object::annotation(account, RESTRICTS).is_some();
    let newly = restricts(account) && !old.is_some_and(restricts);
    let why =
        "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    newly
        .then(|| format!("metadata.annotations[{RESTRICTS}]: {why}"))
        .into_iter()
        .collect()
}

/// Formats that are new and that nobody knows.
pub(super) fn of_definition(old: Option<&Value>, definition: &Value) -> Vec<String> {
    let formats = |definition: &Value| -> BTreeSet<String> {
        let versions = object::items(definition, &["spec", "versions"]).iter();
        let schemas = versions.filter_map(|one| object::at(one, &["schema", "openAPIV3Schema"]));
        schemas.flat_map(Schema::unrecognized_formats).collect()
    };
    let had = old.map(formats).unwrap_or_default();
    let new = formats(definition);
    let new = new.difference(&had);
    new.map(|format| format!("unrecognized format {format:?}"))
        .collect()
}
