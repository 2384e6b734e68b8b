//! What classes of storage and ingress decide about the objects that name them, or name none.

use std::sync::Arc;

use machinery::amounts::{self, Part};
use machinery::object::{self, storage_class};
use machinery::quantity::Quantity;
use machinery::schema::{self, Kind};
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, Plugin, UPDATE};
use crate::auth::Answer;
use crate::storage::reader::Reader;

const DEFAULT_STORAGE: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const DEFAULT_INGRESS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];
/// The annotation that named the class of an ingress before the field did.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Sets the class of a volume claim that names none.
pub(crate) struct DefaultStorageClass;

/// Sets the class of an ingress that names none.
pub(crate) struct DefaultIngressClass;

/// Lets volume claims grow only if their class can make volumes larger.
pub(crate) struct PersistentVolumeClaimResize;

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == CREATE && attributes.is_about("", "persistentvolumeclaims", "")
    }

    fn mutate<'a>(
        &'a self,
        context: &'a Context,
        _: &'a Attributes<'a>,
        claim: &'a mut Value,
    ) -> Answer<'a, ()> {
        let field = ["spec", "storageClassName"];
        if object::annotation(claim, object::STORAGE_CLASS).is_none()
            && object::at(claim, &field).is_none()
            && let Some(name) = default_of(&context.reader, storage_classes(), &DEFAULT_STORAGE)
        {
            object::set(claim, &field, name.into());
        }
        Box::pin(async { Ok(()) })
    }
}

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == CREATE && attributes.is_about("networking.k8s.io", "ingresses", "")
    }

    fn mutate<'a>(
        &'a self,
        context: &'a Context,
        _: &'a Attributes<'a>,
        ingress: &'a mut Value,
    ) -> Answer<'a, ()> {
        let classes = schema::resource("networking.k8s.io", "v1", "ingressclasses");
        let field = ["spec", "ingressClassName"];
        if object::annotation(ingress, INGRESS_CLASS).is_none()
            && object::at(ingress, &field).is_none()
            && let Some(name) =
                default_of(&context.reader, classes.map(Arc::as_ref), &DEFAULT_INGRESS)
        {
            object::set(ingress, &field, name.into());
        }
        Box::pin(async { Ok(()) })
    }
}

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == UPDATE && attributes.is_about("", "persistentvolumeclaims", "")
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        claim: &'a Value,
    ) -> Answer<'a, ()> {
        let old = attributes.old.unwrap_or(&Value::Null);
        let refusal = if size(claim) <= size(old) {
            None
        } else if object::text(old, &["status", "phase"]) != "Bound" {
            Some("Only bound persistent volume claims can be expanded")
        } else if !grows(&context.reader, storage_class(old), storage_class(claim)) {
            Some(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
            )
        } else {
            None
        };
        let refusal = refusal.map(|why| attributes.forbidden(why));
        Box::pin(async move { refusal.map_or(Ok(()), Err) })
    }
}

fn storage_classes() -> Option<&'static Kind> {
    schema::resource("storage.k8s.io", "v1", "storageclasses").map(Arc::as_ref)
}

/// The name of the default class: of several the newest, and of those the first by name.
fn default_of(reader: &Reader, classes: Option<&Kind>, marks: &[&str]) -> Option<String> {
    let is_default = |class: &Value| {
        let is_set = |mark: &&str| object::annotation(class, mark) == Some("true");
        marks.iter().any(is_set)
    };
    let mut newest: Option<(String, String)> = None;
    // They come in the order of their names.
    for class in reader.cached_readable(classes?, "") {
        let made = object::creation_timestamp(&class);
        if is_default(&class) && newest.as_ref().is_none_or(|(at, _)| made > at.as_str()) {
            newest = Some((made.to_owned(), object::name(&class).to_owned()));
        }
    }
    newest.map(|(_, name)| name)
}

fn grows(reader: &Reader, old: &str, new: &str) -> bool {
    let class = storage_classes().and_then(|kind| reader.cached(kind, "", new));
    !new.is_empty()
        && old == new
        && class.is_some_and(|class| class["allowVolumeExpansion"] == true)
}

fn size(claim: &Value) -> Quantity {
    let asked = amounts::read(object::at(
        claim,
        &["spec", "resources", Part::Requests.key()],
    ));
    asked.get("storage").copied().unwrap_or(Quantity::ZERO)
}
