//! The documents of custom resources. They are made when they are first asked for after the
//! catalogue changed, for clients ask for the index again and again.

use std::sync::Arc;

use machinery::schema::{self, Kind};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{Documents, Schemas, Shape, TYPE, add_paths, hash, path_of, reference_to};
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
    let mut paths = Map::new();
    let mut schemas = Schemas::default();
    let is_of = |one: &&Arc<Resource>| (one.kind.group(), one.kind.version()) == (group, version);
    for resource in catalogue.custom().filter(is_of) {
        let kind = &resource.kind;
        let shape = Shape {
            schema: name_of(kind, kind.kind()),
            media_types: &["application/json", "application/yaml"],
            patches: &patch::OF_CUSTOM,
        };
        add_paths(&mut paths, kind, &shape);
        let list = of_list(kind, &shape.schema);
        schemas.put(name_of(kind, kind.list_kind()), list);
        schemas.put(shape.schema, of_object(resource));
    }
    for name in [METADATA, LIST_METADATA] {
        if let Some(message) = schema::message(name) {
            schemas.collect(message);
        }
    }
    schemas.add_common();
    super::document_of(paths, schemas.into_map())
}

/// `shop.example.com`, `v1` and `Widget` as OpenAPI calls them: `com.example.shop.v1.Widget`.
pub(super) fn name_of(kind: &Kind, name: &str) -> String {
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
    schema[TYPE] = json!([of_kind(&resource.kind, resource.kind.kind())]);
    schema
}

/// The same for an OpenAPI v2 document, with references as in v3.
pub(super) fn of_object_v2(resource: &Resource) -> Value {
    let schema = resource.schema();
    let mut schema = schema.map_or(json!({"type": "object"}), |schema| schema.openapi_v2());
    schema[TYPE] = json!([of_kind(&resource.kind, resource.kind.kind())]);
    schema
}

pub(super) fn of_list(kind: &Kind, item: &str) -> Value {
    let mut properties = json!({"items": {"type": "array", "items": reference_to(item)}});
    add_common(&mut properties, LIST_METADATA);
    json!({
        "type": "object", "required": ["items"], "properties": properties,
        TYPE: [of_kind(kind, kind.list_kind())],
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
