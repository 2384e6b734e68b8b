//! What a claim, or the template of one, asks of a volume.

use machinery::name;
use machinery::object;
use machinery::status::Cause;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::words::quantity;

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
pub(crate) const MODES: [&str; 2] = ["Block", "Filesystem"];
pub(crate) const STORAGE: &str = "storage";
/// Where the content of a claim's volume comes from: in an older and in a newer field.
pub(crate) const SOURCE_FIELDS: [&str; 2] = ["dataSource", "dataSourceRef"];

/// What a claim may have because it had such before.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kept {
    /// Any values in its selector.
    pub(crate) values: bool,
    /// Sources of any group.
    pub(crate) groups: bool,
}

/// The spec of a new claim.
pub(crate) fn spec(causes: &mut Causes, spec: &FieldValue) {
    spec_with(causes, spec, Kept::default());
}

/// The spec of a claim.
pub(crate) fn spec_with(causes: &mut Causes, spec: &FieldValue, kept: Kept) {
    if spec.items("accessModes").is_empty() {
        let why = "at least 1 access mode is required";
        causes.push(Cause::required(&spec.path_of("accessModes"), why));
    }
    causes.label_selector_with(spec, "selector", kept.values);
    access_modes(spec, causes);
    let field = format!("{}[{STORAGE}]", spec.path_of("resources"));
    match object::at(spec.value, &["resources", "requests", STORAGE]) {
        None => causes.push(Cause::required(&field, "")),
        Some(amount) => causes.extend(quantity::positive(&field, amount)),
    }
    causes.named_unless_empty(spec, "storageClassName", name::dns1123_subdomain);
    causes.word(spec, "volumeMode", &MODES);
    for source in SOURCE_FIELDS {
        causes.below(spec, source, |causes, source| {
            causes.required(source, "name");
            causes.required(source, "kind");
            let (group, kind) = (source.text("apiGroup"), source.text("kind"));
            if group.is_empty() && kind != "PersistentVolumeClaim" {
                let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                causes.push(Cause::invalid(&source.path, &kind.into(), why));
            }
            if !kept.groups {
                causes.named_unless_empty(source, "apiGroup", name::dns1123_subdomain);
            }
            causes.named_unless_empty(source, "namespace", name::dns1123_label);
        });
    }
    let [source, reference] = SOURCE_FIELDS.map(|key| spec.get(key));
    if let (Some(source), Some(reference)) = (source, reference) {
        let text = |of, key| object::text(of, &[key]);
        let same = ["apiGroup", "kind", "name"]
            .iter()
            .all(|key| text(source, key) == text(reference, key));
        let elsewhere = !text(reference, "namespace").is_empty();
        if elsewhere || !same {
            let why = if elsewhere {
                "may not be specified when dataSourceRef.namespace is specified"
            } else {
                "must match dataSourceRef"
            };
            // Kubernetes shows the path instead of the value, and nothing of that.
            causes.push(Cause::invalid_shown(&spec.path, "{}", why));
        }
    }
    causes.named_unless_empty(spec, "volumeAttributesClassName", name::dns1123_subdomain);
}

/// How nodes may use a volume, or a claim its volume.
pub(crate) fn access_modes(spec: &FieldValue, causes: &mut Causes) {
    let (mut alone, mut others) = (false, false);
    for mode in spec.items("accessModes") {
        if causes.is_full() {
            break;
        }
        let known = ACCESS_MODES.iter().any(|one| mode == one);
        if !known {
            let field = spec.path_of("accessModes");
            causes.push(Cause::not_supported(&field, mode, &ACCESS_MODES));
        }
        let single = mode == "ReadWriteOncePod";
        alone |= single;
        others |= known && !single;
    }
    if alone && others {
        let why = "may not use ReadWriteOncePod with other access modes";
        causes.forbidden(spec, "accessModes", why);
    }
}
