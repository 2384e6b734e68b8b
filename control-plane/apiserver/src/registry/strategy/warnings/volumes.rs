//! Volumes that nobody serves any more, or whose content is not what it seems to be.

use machinery::object;
use machinery::quantity::Quantity;
use serde_json::Value;

use super::{COMPARED_MAX, WARNINGS_MAX};
use crate::validate::words::field::FieldValue;

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
/// The deprecated annotations of volumes and claims: since when, and the field instead.
const CLASS: (&str, &str, &str) = ("storage-class", "v1.8", "storageClassName");
const OPTIONS: (&str, &str, &str) = ("mount-options", "v1.31", "mountOptions");

/// Go's name of a source.
fn called_in_go(source: &str) -> &str {
    match source {
        "storageos" => "storageOS",
        source => source,
    }
}

/// A volume whose source nobody serves any more, or whose content is wiped.
pub(in super::super) fn of_volume(_old: Option<&Value>, volume: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for old in [CLASS, OPTIONS] {
        warnings.extend(old_annotation(volume, old));
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

/// An annotation from before there was a field for it.
fn old_annotation(object: &Value, (name, since, field): (&str, &str, &str)) -> Option<String> {
    let key = format!("volume.beta.kubernetes.io/{name}");
    object::annotation(object, &key)?;
    let why = format!("deprecated since {since}; use {field:?} attribute instead");
    Some(format!("metadata.annotations[{key}]: {why}"))
}

/// A claim: its class, and how much it asks for.
pub(in super::super) fn of_claim(_old: Option<&Value>, claim: &Value) -> Vec<String> {
    let mut warnings: Vec<String> = old_annotation(claim, CLASS).into_iter().collect();
    let spec = claim.get("spec").unwrap_or(&Value::Null);
    claim_spec(&FieldValue::new("spec", spec), &mut warnings);
    warnings
}

/// The spec of a claim, which may be in a template.
pub(super) fn claim_spec(spec: &FieldValue, warnings: &mut Vec<String>) {
    for which in ["requests", "limits"] {
        if let Some(resources) = spec.child("resources") {
            whole_bytes(&resources, which, &["storage"], warnings);
        }
    }
}

/// Amounts of bytes that are no integers.
pub(super) fn whole_bytes(
    at: &FieldValue,
    key: &str,
    resources: &[&str],
    warnings: &mut Vec<String>,
) {
    for resource in resources {
        let amount = object::text(at.value, &[key, resource]);
        if Quantity::parse(amount).is_ok_and(|amount| amount.milli_value() % 1000 != 0) {
            warnings.push(format!(
                "{}[{resource}]: fractional byte value {amount:?} is invalid, must be an integer",
                at.path_of(key)
            ));
        }
    }
}

/// The volumes of a pod.
pub(super) fn of_spec(spec: &FieldValue, warnings: &mut Vec<String>) {
    for volume in spec.each("volumes") {
        for (source, since) in GONE.iter().filter(|(source, _)| volume.has(source)) {
            let shown = volume.path_of(called_in_go(source));
            warnings.push(format!("{shown}: {since}"));
        }
        let template = volume.child("ephemeral");
        let template = template.and_then(|one| one.child("volumeClaimTemplate"));
        if let Some(spec) = template.and_then(|template| template.child("spec")) {
            claim_spec(&spec, warnings);
        }
    }
    for volume in object::items(spec.value, &["volumes"]) {
        overlaps(volume, warnings);
    }
}

/// A path inside a volume, and what of several sources it comes from.
struct Placed {
    path: String,
    source: String,
}

impl Placed {
    fn new(path: &str, source: &str) -> Placed {
        Placed {
            path: path.trim_end_matches('/').to_owned(),
            source: source.to_owned(),
        }
    }

    /// True if both cannot be there: they are the same, or one is a folder of the other.
    fn collides(&self, other: &Placed) -> bool {
        let within = |one: &str, folder: &str| {
            let rest = one.strip_prefix(folder);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (one, other) = (self.path.as_str(), other.path.as_str());
        !one.is_empty() && !other.is_empty() && (within(one, other) || within(other, one))
    }

    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => format!("{:?}", self.path),
            source => format!("{:?} ({source})", self.path),
        }
    }
}

/// Files of a volume that hide each other.
fn overlaps(volume: &Value, warnings: &mut Vec<String>) {
    let name = object::text(volume, &["name"]);
    for (key, called, named) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        let Some(source) = volume.get(key) else {
            continue;
        };
        let shown = named_source(called, source, named);
        collisions(name, &shown, &items(source, ""), warnings);
    }
    let mut all = Vec::new();
    for source in object::items(volume, &["projected", "sources"]) {
        match projected(source) {
            Some(placed) => all.extend(placed),
            None => {
                let why = "has no sources provided";
                warnings.push(format!("volume {name:?} (Projected) {why}"));
            }
        }
    }
    collisions(name, "Projected", &all, warnings);
}

fn collisions(volume: &str, kind: &str, all: &[Placed], warnings: &mut Vec<String>) {
    for (at, one) in all.iter().enumerate().take(COMPARED_MAX) {
        for other in all[..at].iter().filter(|other| one.collides(other)) {
            if warnings.len() >= WARNINGS_MAX {
                return;
            }
            warnings.push(format!(
                "volume {volume:?} ({kind}): overlapping paths: {} with {}",
                one.shown(),
                other.shown()
            ));
        }
    }
}

fn named_source(called: &str, source: &Value, key: &str) -> String {
    match key {
        "" => called.to_owned(),
        key => format!("{called} {:?}", object::text(source, &[key])),
    }
}

fn items(source: &Value, called: &str) -> Vec<Placed> {
    let items = object::items(source, &["items"]).iter();
    items
        .map(|item| Placed::new(object::text(item, &["path"]), called))
        .collect()
}

/// Where one source of a projection is; `None` if it is no source. The bundles of certificates that
/// a signer has written are none, for Kubernetes.
fn projected(source: &Value) -> Option<Vec<Placed>> {
    for (key, called, named) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "name"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        if let Some(source) = source.get(key) {
            return Some(items(source, &named_source(called, source, named)));
        }
    }
    let token = source.get("serviceAccountToken")?;
    let path = object::text(token, &["path"]);
    Some(vec![Placed::new(path, "ServiceAccountToken")])
}
