//! The documents of custom resources. They are made when they are first asked for after the
//! catalogue changed, for clients ask for the index again and again.

use std::collections::BTreeSet;
use std::sync::Arc;

use machinery::schema::{self, Kind};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{Documents, Shape, add_paths, add_type, collect, hash, path_of, reference_to};
use crate::http::question::patch;
use crate::resources::catalogue::{Catalogue, Resource};
use crate::storage::entry::to_json;

const METADATA: &str = "meta/v1.ObjectMeta";
const LIST_METADATA: &str = "meta/v1.ListMeta";

/// The documents of one state of the catalogue.
#[derive(Default)]
pub(crate) struct CustomDocuments(Mutex<Option<(Arc<Catalogue>, Arc<Documents>)>>);

impl CustomDocuments {
    /// Those of this state.
    pub(crate) fn of(&self, catalogue: &Arc<Catalogue>) -> Arc<Documents> {
        let mut made = self.0.lock();
        match &*made {
            Some((of, documents)) if Arc::ptr_eq(of, catalogue) => Arc::clone(documents),
            _ => {
                let documents = Arc::new(make(catalogue));
                *made = Some((Arc::clone(catalogue), Arc::clone(&documents)));
                documents
            }
        }
    }
}

fn make(catalogue: &Catalogue) -> Documents {
    let mut documents = Documents::new();
    for resource in catalogue.custom() {
        let (group, version) = (resource.kind.group(), resource.kind.version());
        let place = documents.entry(path_of(group, version));
        place.or_insert_with(|| {
            let document = to_json(&build(catalogue, group, version));
            (hash(&document), document)
        });
    }
    documents
}

fn build(catalogue: &Catalogue, group: &str, version: &str) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    let mut seen = BTreeSet::new();
    let is_of = |one: &&Arc<Resource>| (one.kind.group(), one.kind.version()) == (group, version);
    for resource in catalogue.custom().filter(is_of) {
        let kind = &resource.kind;
        let shape = Shape {
            schema: name_of(kind, kind.kind()),
            media_types: &["application/json", "application/yaml"],
            patches: &patch::OF_CUSTOM,
        };
        add_paths(&mut paths, kind, &shape);
        schemas.insert(shape.schema.clone(), of_object(resource));
        let list = name_of(kind, kind.list_kind());
        schemas.insert(list, of_list(kind, &shape.schema));
    }
    for name in [METADATA, LIST_METADATA] {
        if let Some(message) = schema::message(name) {
            collect(message, &mut seen, &mut schemas);
        }
    }
    for kind in ["DeleteOptions", "Status"] {
        if let Some(message) = schema::body("", "v1", kind) {
            collect(message, &mut seen, &mut schemas);
            add_type(&mut schemas, message, "", "v1", kind);
        }
    }
    super::document_of(paths, schemas)
}

/// `shop.example.com`, `v1` and `Widget` as OpenAPI calls them: `com.example.shop.v1.Widget`.
fn name_of(kind: &Kind, name: &str) -> String {
    let mut words: Vec<&str> = kind.group().split('.').collect();
    words.reverse();
    format!("{}.{}.{name}", words.join("."), kind.version())
}

/// What the definition says, and what every object has.
fn of_object(resource: &Resource) -> Value {
    let mut schema = match resource.schema() {
        Some(schema) => schema.openapi(),
        None => {
            let mut properties = json!({});
            add_common(&mut properties, METADATA);
            json!({"type": "object", "properties": properties})
        }
    };
    schema["x-kubernetes-group-version-kind"] =
        json!([of_kind(&resource.kind, resource.kind.kind())]);
    schema
}

fn of_list(kind: &Kind, item: &str) -> Value {
    let mut properties = json!({"items": {"type": "array", "items": reference_to(item)}});
    add_common(&mut properties, LIST_METADATA);
    json!({
        "type": "object", "required": ["items"], "properties": properties,
        "x-kubernetes-group-version-kind": [of_kind(kind, kind.list_kind())],
    })
}

fn add_common(properties: &mut Value, metadata: &str) {
    for key in ["apiVersion", "kind"] {
        properties[key] = json!({"type": "string"});
    }
    let metadata = schema::message(metadata).map(super::name_of);
    let metadata = metadata.as_deref().map(reference_to);
    properties["metadata"] = json!({"allOf": [metadata]});
}

fn of_kind(kind: &Kind, name: &str) -> Value {
    json!({"group": kind.group(), "version": kind.version(), "kind": name})
}
