//! What a client is shown of objects: the form that it accepts, and the parts that all ways to write
//! an answer share.

use std::sync::Arc;

use machinery::object;
use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::http::media::{Accept, Form};
use crate::registry::strategy;
use crate::resources::catalogue::Resource;

/// How much of its object each row of a table includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// Parses `includeObject`.
    pub(crate) fn parse(text: &str) -> Result<Include, Status> {
        match text {
            "" | "Metadata" => Ok(Include::Metadata),
            "None" => Ok(Include::None),
            "Object" => Ok(Include::Object),
            other => {
                let value = Value::from(other);
                Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {value}: must be 'Metadata', 'Object', 'None', or empty"
                )))
            }
        }
    }
}

/// The form in which a client gets objects of a resource.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) resource: Arc<Resource>,
    pub(crate) accept: Accept,
    pub(crate) include: Include,
}

/// The metadata of a list.
#[derive(Debug, Default)]
pub(crate) struct ListMeta {
    pub(crate) revision: i64,
    pub(crate) token: String,
    pub(crate) remaining: Option<i64>,
}

impl ListMeta {
    /// The metadata of a whole list. Kubernetes has no type for the lists of custom resources, so
    /// they show an empty token, too.
    pub(crate) fn of_list(&self, resource: &Resource) -> Value {
        let mut meta = self.to_value();
        if resource.custom.is_some() {
            meta["continue"] = self.token.as_str().into();
        }
        meta
    }

    /// The metadata of tables and of lists of metadata.
    pub(crate) fn to_value(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.revision.to_string()});
        if !self.token.is_empty() {
            meta["continue"] = self.token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        meta
    }
}

impl Shown {
    /// False if the client sees only metadata of objects that are converted. It is the same in all
    /// versions except for labels and annotations, and no reason to call a webhook.
    pub(crate) fn needs_version(&self) -> bool {
        self.accept.form != Form::Metadata || self.resource.converted().is_none()
    }

    /// Refuses the metadata of a list where there is one object, and the reverse. Like Kubernetes, it
    /// names the Go type of what there is.
    pub(crate) fn check(&self, is_list: bool) -> Result<(), Status> {
        if self.accept.form != Form::Metadata || self.accept.of_list == is_list {
            return Ok(());
        }
        let kind = &self.resource.kind;
        let custom = self.resource.custom.is_some();
        let why = match (is_list, custom) {
            (false, true) => return Err(Status::new(500, "", "content is not a list")),
            (true, true) => wants_one("unstructured.UnstructuredList"),
            (true, false) => wants_one(&format!("{}List", go_type(kind))),
            (false, false) => format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                go_type(kind)
            ),
        };
        Err(Status::new(406, "NotAcceptable", why))
    }
}

fn wants_one(list: &str) -> String {
    format!("you requested PartialObjectMetadata, but the requested object is a list (*{list})")
}

/// Kubernetes' name for the type that a server holds objects of a built-in kind in, whatever their
/// version: the package has the first word of the group.
fn go_type(kind: &Kind) -> String {
    let package = match kind.group().split('.').next() {
        // Events of both groups are of one type.
        None | Some("" | "events") => "core",
        Some(word) => word,
    };
    format!("{package}.{}", kind.kind())
}

/// An object's metadata alone, without the annotations that only whole objects have.
pub(crate) fn only_metadata(resource: &Resource, object: &Value) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_default();
    for key in strategy::of(resource).annotations_of_whole {
        object::remove(&mut metadata, &["annotations", key]);
    }
    if metadata["annotations"] == json!({}) {
        object::remove(&mut metadata, &["annotations"]);
    }
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
    })
}
