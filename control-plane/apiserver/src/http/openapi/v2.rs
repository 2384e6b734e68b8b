//! OpenAPI v2, for clients that do not read v3: one document with all kinds. It is made when it is
//! first asked for after the catalogue changed, and kept in the encodings that were asked for.

pub(crate) mod foreign;
mod gnostic;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use machinery::status::Status;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::schemas::{INT_OR_STRING, QUANTITY, Schemas};
use super::texts::Texts;
use super::{OF_V2, OF_V3, Zipped, custom, groups, hash, library, operations, written};
use crate::http::answer::reply;
use crate::http::media::{self, JSON};
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The same as older clients write it.
const PROTOBUF_OF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The document of one state of the catalogue and of other servers, if it was asked for. Whoever
/// makes another one, or another encoding, holds the lock until it is made, and who wants it waits
/// for it without a thread.
#[derive(Default)]
pub(crate) struct Latest(Arc<Mutex<Option<Made>>>);

/// A document and what it is made of.
type Made = (Sources, Arc<Document>);

/// What a document is made of.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) catalogue: Arc<Catalogue>,
    /// What other servers say about their versions, the most important first.
    pub(crate) foreign: Vec<Arc<[u8]>>,
}

struct Document {
    /// The same for all encodings, as in Kubernetes.
    tag: String,
    json: Zipped,
    protobuf: OnceLock<Zipped>,
}

impl Latest {
    /// Answers a request for the document.
    pub(crate) async fn answer(
        &self,
        headers: HeaderMap,
        sources: Sources,
    ) -> Result<Response<Body>, Status> {
        let Some(media_type) = wanted(&headers) else {
            return Ok(reply::text(StatusCode::NOT_ACCEPTABLE, ""));
        };
        let document = self.of(sources, media_type).await?;
        // A client may want it unpacked.
        in_background(move || document.answer(&headers, media_type)).await
    }

    /// The document of these sources, encoded like this.
    async fn of(
        &self,
        sources: Sources,
        media_type: &'static str,
    ) -> Result<Arc<Document>, Status> {
        let mut made = Arc::clone(&self.0).lock_owned().await;
        let known = made.as_ref().filter(|(of, _)| of.is_same(&sources));
        let known = known.map(|(_, document)| Arc::clone(document));
        if let Some(document) = &known
            && document.is_encoded(media_type)
        {
            return Ok(Arc::clone(document));
        }
        // It is kept even if this request is given up.
        in_background(move || {
            let document = known.unwrap_or_else(|| Arc::new(Document::of(&sources)));
            document.encoded(media_type);
            *made = Some((sources, Arc::clone(&document)));
            document
        })
        .await
    }
}

impl Sources {
    fn is_same(&self, other: &Sources) -> bool {
        let mut pairs = self.foreign.iter().zip(&other.foreign);
        Arc::ptr_eq(&self.catalogue, &other.catalogue)
            && self.foreign.len() == other.foreign.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Document {
    fn of(sources: &Sources) -> Document {
        let json = build(sources);
        Document {
            tag: hash(&json),
            json: Zipped::new(&json),
            protobuf: OnceLock::new(),
        }
    }

    fn answer(&self, asked: &HeaderMap, media_type: &'static str) -> Response<Body> {
        let tag = format!("\"{}\"", self.tag);
        let mut response = if knows(asked, &tag) {
            reply::verbatim(StatusCode::NOT_MODIFIED, media_type, Bytes::new())
        } else {
            self.encoded(media_type).answer(asked, media_type)
        };
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        response
    }

    fn is_encoded(&self, media_type: &str) -> bool {
        media_type == JSON || self.protobuf.get().is_some()
    }

    fn encoded(&self, media_type: &str) -> &Zipped {
        if media_type == JSON {
            return &self.json;
        }
        self.protobuf.get_or_init(|| {
            // What was written as JSON a moment ago can be read.
            let document = serde_json::from_slice(&self.json.text()).unwrap_or_default();
            Zipped::new(&gnostic::encode(&document))
        })
    }
}

/// Runs what takes long: no other request waits for it.
async fn in_background<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(run).await;
    done.map_err(|error| Status::internal(&error.to_string()))
}

/// The media type of the answer; `None` if the client accepts none that there is.
fn wanted(headers: &HeaderMap) -> Option<&'static str> {
    let accepted = media::accepted_names(headers);
    if accepted.is_empty() {
        return Some(JSON);
    }
    accepted.into_iter().find_map(|name| match name {
        JSON | "*/*" | "application/*" => Some(JSON),
        PROTOBUF | PROTOBUF_OF_OLD => Some(PROTOBUF),
        _ => None,
    })
}

/// True if the client has the document with this tag.
fn knows(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter();
    let known = known.filter_map(|value| value.to_str().ok());
    let mut tags = known.flat_map(|text| text.split(',')).map(str::trim);
    tags.any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

/// The whole document.
fn build(sources: &Sources) -> Vec<u8> {
    let texts = Texts::unpack();
    let mut schemas = Schemas::new(&texts);
    let mut all = Vec::new();
    for resource in strategy::builtin() {
        schemas.add_kind(&resource.kind);
        all.extend(super::shape_of(resource).paths());
    }
    schemas.add_body("", "v1", "APIResourceList");
    let kinds = strategy::builtin().iter().map(|one| &one.kind);
    let versions: BTreeSet<_> = kinds.map(|kind| (kind.group(), kind.version())).collect();
    all.extend(
        versions
            .iter()
            .map(|(group, version)| groups::of_version(group, version)),
    );
    for other in groups::others() {
        super::add_other(&mut schemas, &other);
        all.push(other.path);
    }
    schemas.common_of(library::of_all());
    let mut definitions = schemas.into_map();
    // Numbers and texts at once cannot be said in v2.
    for (name, plain) in [
        (QUANTITY, json!({"type": "string"})),
        (
            INT_OR_STRING,
            json!({"type": "string", "format": "int-or-string"}),
        ),
    ] {
        if let Some(schema) = definitions.get_mut(name).and_then(Value::as_object_mut) {
            schema.remove("oneOf");
            schema.extend(plain.as_object().cloned().unwrap_or_default());
        }
    }
    for resource in sources.catalogue.custom() {
        let kind = &resource.kind;
        let shape = custom::shape_of(kind);
        all.extend(shape.paths());
        let list = custom::of_list(resource, &shape.schema, &texts);
        definitions.insert(shape.list, list);
        definitions.insert(shape.schema, custom::of_object_v2(resource, &texts));
    }
    definitions.values_mut().for_each(leave_out);
    // The form in protobuf keeps the order of the text, and is made of what is read from it in order.
    all.sort_by(|one, other| one.path.cmp(&other.path));
    // A list with a name has none here: its schema is where it is used.
    let is_list = |schema: &Value| schema["type"] == "array";
    let (lists, mut definitions): (Map<_, _>, Map<_, _>) = definitions
        .into_iter()
        .partition(|(_, schema)| is_list(schema));
    for schema in definitions.values_mut() {
        point_to_definitions(schema, &lists);
    }
    let mut theirs = foreign::Paths::new();
    for document in &sources.foreign {
        foreign::merge(document, &mut definitions, &mut theirs);
    }
    let mut out = written::begin(&json!({
        "swagger": "2.0",
        "info": super::info(),
        "securityDefinitions": super::security(),
        "security": [{"BearerToken": []}],
    }));
    let ours = operations::paths(&all, &texts, operations::v2::FORM);
    written::put_fields(&mut out, "paths", foreign::in_order(ours, theirs));
    written::put_fields(&mut out, "definitions", definitions);
    written::end(out)
}

/// Leaves out what Kubernetes shows in v3 only: defaults.
fn leave_out(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.remove("default");
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(leave_out);
    }
    for key in ["items", "additionalProperties"] {
        fields.get_mut(key).into_iter().for_each(leave_out);
    }
}

/// Writes references in a schema as v2 does: beside other keywords, and to other places. References to
/// one of the lists become that list.
fn point_to_definitions(schema: &mut Value, lists: &Map<String, Value>) {
    let name = schema.get("$ref").and_then(Value::as_str);
    let name = name.and_then(|text| text.strip_prefix(OF_V3));
    if let Some(list) = name.and_then(|name| lists.get(name)) {
        *schema = list.clone();
    }
    let Value::Object(fields) = schema else {
        return;
    };
    let wrapped = fields.get("allOf").and_then(|all| all.get(0)?.get("$ref"));
    if let Some(wrapped) = wrapped.cloned() {
        fields.remove("allOf");
        fields.insert("$ref".into(), wrapped);
    }
    if let Some(Value::String(reference)) = fields.get_mut("$ref") {
        *reference = reference.replace(OF_V3, OF_V2);
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for property in properties.values_mut() {
            point_to_definitions(property, lists);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(key) {
            point_to_definitions(inner, lists);
        }
    }
}
