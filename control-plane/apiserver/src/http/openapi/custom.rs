//! The documents of custom resources. They are made when they are first asked for after the
//! catalogue changed, for clients ask for the index again and again. Those of versions that did not
//! change stay as they are: thousands of definitions that come one by one would take hours else.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use machinery::schema::{self, Kind};
use machinery::status::Status;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::library;
use super::operations::{self, STATUS, Shape};
use super::schemas::{Schemas, described, name_of as name_of_message};
use super::texts::{POD, Texts};
use super::{DOCUMENTS, Document, Documents, TYPE, fields, path_of, reference_to, written};
use crate::http::question::patch;
use crate::resources::catalogue::{Catalogue, Resource};

const METADATA: &str = "meta/v1.ObjectMeta";
const LIST_METADATA: &str = "meta/v1.ListMeta";
/// What custom resources are written in.
const MEDIA_TYPES: &[&str] = &["application/json", "application/yaml"];

/// The documents of one state of the catalogue. Whoever makes others holds the lock until they are
/// made, and who wants them waits for it without a thread.
#[derive(Default)]
pub(crate) struct CustomDocuments(Arc<Mutex<Option<Made>>>);

/// A state of the catalogue and its documents.
type Made = (Arc<Catalogue>, Arc<Documents>);

impl CustomDocuments {
    /// Those of this state, once there are those of built-in kinds, too.
    pub(crate) async fn made(&self, catalogue: &Arc<Catalogue>) -> Result<Arc<Documents>, Status> {
        let mut made = Arc::clone(&self.0).lock_owned().await;
        if let Some((of, documents)) = &*made
            && Arc::ptr_eq(of, catalogue)
        {
            return Ok(Arc::clone(documents));
        }
        let catalogue = Arc::clone(catalogue);
        // Documents take long to make: no other request waits for that, and they are kept even if
        // this one is given up.
        let task = tokio::task::spawn_blocking(move || {
            LazyLock::force(&DOCUMENTS);
            let documents = Arc::new(make(&catalogue, made.as_ref()));
            *made = Some((catalogue, Arc::clone(&documents)));
            documents
        });
        task.await
            .map_err(|error| Status::internal(&error.to_string()))
    }
}

/// The documents of a catalogue, with those of an earlier one for versions that are the same in
/// both.
fn make(catalogue: &Catalogue, before: Option<&Made>) -> Documents {
    let before = before.map(|(catalogue, documents)| (by_path(catalogue), documents));
    let mut texts = None;
    let documents = by_path(catalogue).into_iter().map(|(path, resources)| {
        let known = before.as_ref().and_then(|(before, documents)| {
            let same = is_same(before.get(&path)?, &resources);
            documents.get(&path).filter(|_| same).cloned()
        });
        let document = known.unwrap_or_else(|| {
            let texts = texts.get_or_insert_with(Texts::unpack);
            Document::new(&build(&resources, texts))
        });
        (path, document)
    });
    documents.collect()
}

/// The custom resources of each version of a group, by the path of its document.
fn by_path(catalogue: &Catalogue) -> BTreeMap<String, Vec<&Arc<Resource>>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for resource in catalogue.custom() {
        let path = path_of(resource.kind.group(), resource.kind.version());
        all.entry(path).or_default().push(resource);
    }
    all
}

/// True if these are the same resources, made of the same definitions.
fn is_same(some: &[&Arc<Resource>], others: &[&Arc<Resource>]) -> bool {
    let mut pairs = some.iter().zip(others);
    some.len() == others.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
}

/// The document of the resources of one version of a group.
fn build(resources: &[&Arc<Resource>], texts: &Texts) -> Vec<u8> {
    let mut paths = Vec::new();
    let mut schemas = Schemas::new(texts);
    for resource in resources {
        let kind = &resource.kind;
        let shape = shape_of(kind);
        paths.extend(shape.paths());
        schemas.add_around(kind);
        let list = of_list(resource, &shape.schema, texts);
        schemas.put(shape.list, list);
        schemas.put(shape.schema, of_object(resource, texts));
    }
    for name in [METADATA, LIST_METADATA] {
        if let Some(message) = schema::message(name) {
            schemas.collect(message);
        }
    }
    schemas.common_of(library::of_clients());
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    let mut out = written::begin(&json!({"openapi": "3.0.0", "info": info}));
    let paths = operations::paths(&paths, texts, operations::v3::FORM);
    written::put_fields(&mut out, "paths", paths);
    let components = json!({"schemas": schemas.into_map()});
    written::put_fields(&mut out, "components", fields(components));
    written::end(out)
}

/// How the paths of a custom resource are written.
pub(super) fn shape_of(kind: &Kind) -> Shape<'_> {
    Shape {
        kind,
        schema: name_of(kind, kind.kind()),
        list: name_of(kind, kind.list_kind()),
        returns_deleted_object: false,
        produces: MEDIA_TYPES,
        consumes: MEDIA_TYPES,
        patches: &patch::OF_CUSTOM,
        custom: true,
    }
}

/// `shop.example.com`, `v1` and `Widget` as OpenAPI calls them: `com.example.shop.v1.Widget`.
pub(super) fn name_of(kind: &Kind, name: &str) -> String {
    let mut words: Vec<&str> = kind.group().split('.').collect();
    words.reverse();
    format!("{}.{}.{name}", words.join("."), kind.version())
}

/// What the definition says, and what every object has.
fn of_object(resource: &Resource, texts: &Texts) -> Value {
    let mut schema = match resource.schema() {
        Some(schema) => schema.openapi(texts.common()),
        None => {
            let mut properties = json!({});
            add_common(&mut properties, METADATA, POD, texts);
            json!({"type": "object", "properties": properties})
        }
    };
    schema[TYPE] = json!([of_kind(&resource.kind, resource.kind.kind())]);
    add_selectable(&mut schema, resource);
    schema
}

/// The same for an OpenAPI v2 document, with references as in v3.
pub(super) fn of_object_v2(resource: &Resource, texts: &Texts) -> Value {
    let schema = resource.schema();
    let schema = schema.map(|schema| schema.openapi_v2(texts.common()));
    let mut schema = schema.unwrap_or_else(|| json!({"type": "object"}));
    schema[TYPE] = json!([of_kind(&resource.kind, resource.kind.kind())]);
    add_selectable(&mut schema, resource);
    schema
}

pub(super) fn of_list(resource: &Resource, item: &str, texts: &Texts) -> Value {
    let kind = &resource.kind;
    let plural = kind.plural();
    let items = format!(
        "List of {plural}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
    );
    let mut properties =
        json!({"items": {"type": "array", "items": reference_to(item), "description": items}});
    add_common(&mut properties, LIST_METADATA, STATUS, texts);
    let mut list = json!({
        "type": "object", "required": ["items"], "properties": properties,
        "description": format!("{} is a list of {}", kind.list_kind(), kind.kind()),
        TYPE: [of_kind(kind, kind.list_kind())],
    });
    add_selectable(&mut list, resource);
    list
}

/// Says which fields selectors may name.
fn add_selectable(schema: &mut Value, resource: &Resource) {
    let fields = resource.selectable.iter();
    let fields: Vec<Value> = fields
        .map(|field| json!({"fieldPath": field.label}))
        .collect();
    if !fields.is_empty() {
        schema["x-kubernetes-selectable-fields"] = fields.into();
    }
}

/// Adds what every object has, with the texts of a built-in kind.
fn add_common(properties: &mut Value, metadata: &str, texts_of: &str, texts: &Texts) {
    for key in ["apiVersion", "kind"] {
        properties[key] = described(json!({"type": "string"}), texts.plain(texts_of, key));
    }
    let metadata = json!({"allOf": [reference_to(&name_of_message(metadata))]});
    properties["metadata"] = described(metadata, texts.plain(texts_of, "metadata"));
}

fn of_kind(kind: &Kind, name: &str) -> Value {
    json!({"group": kind.group(), "version": kind.version(), "kind": name})
}
