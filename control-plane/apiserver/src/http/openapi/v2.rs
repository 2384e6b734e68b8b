//! OpenAPI v2, for clients that do not read v3: one document with all kinds. It is made when it is
//! first asked for after the catalogue changed, and kept in the encodings that were asked for.

mod gnostic;
mod paths;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use machinery::schema;
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{INT_OR_STRING, QUANTITY, Schemas, custom, hash};
use crate::http::answer::media::{self, JSON};
use crate::http::answer::reply;
use crate::resources::catalogue::Catalogue;
use crate::storage::entry::to_json;

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The same as older clients write it.
const PROTOBUF_OF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// Where references point in v3 and in v2.
const OF_V3: &str = "#/components/schemas/";
const OF_V2: &str = "#/definitions/";

/// The document of one state of the catalogue, if it was asked for.
#[derive(Default)]
pub(crate) struct Latest(Mutex<Option<(Arc<Catalogue>, Arc<Document>)>>);

struct Document {
    /// The same for all encodings, as in Kubernetes.
    tag: String,
    json: Encoded,
    protobuf: OnceLock<Encoded>,
}

/// A document in one encoding.
struct Encoded {
    plain: Bytes,
    zipped: OnceLock<Bytes>,
}

impl Latest {
    /// Answers a request for the document.
    pub(crate) async fn answer(
        self: Arc<Self>,
        headers: HeaderMap,
        catalogue: Arc<Catalogue>,
    ) -> Result<Response<Body>, Status> {
        // A document of all kinds takes long to make: no other request waits for that.
        let made = tokio::task::spawn_blocking(move || self.respond(&headers, &catalogue));
        made.await
            .map_err(|error| Status::internal(&error.to_string()))
    }

    fn respond(&self, asked: &HeaderMap, catalogue: &Arc<Catalogue>) -> Response<Body> {
        let Some(media_type) = wanted(asked) else {
            return reply::text(StatusCode::NOT_ACCEPTABLE, "");
        };
        let document = self.of(catalogue);
        let tag = format!("\"{}\"", document.tag);
        let mut response = if knows(asked, &tag) {
            reply::verbatim(StatusCode::NOT_MODIFIED, media_type, Bytes::new())
        } else {
            let encoded = document.encoded(media_type);
            if takes_gzip(asked) {
                let zipped = encoded.zipped().clone();
                let mut response = reply::verbatim(StatusCode::OK, media_type, zipped);
                let gzip = HeaderValue::from_static("gzip");
                response.headers_mut().insert(CONTENT_ENCODING, gzip);
                response
            } else {
                reply::verbatim(StatusCode::OK, media_type, encoded.plain.clone())
            }
        };
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        response
    }

    fn of(&self, catalogue: &Arc<Catalogue>) -> Arc<Document> {
        let mut made = self.0.lock();
        match &*made {
            Some((of, document)) if Arc::ptr_eq(of, catalogue) => Arc::clone(document),
            _ => {
                let json = to_json(&build(catalogue));
                let document = Arc::new(Document {
                    tag: hash(&json),
                    json: Encoded::new(json),
                    protobuf: OnceLock::new(),
                });
                *made = Some((Arc::clone(catalogue), Arc::clone(&document)));
                document
            }
        }
    }
}

impl Document {
    fn encoded(&self, media_type: &str) -> &Encoded {
        if media_type == JSON {
            return &self.json;
        }
        self.protobuf.get_or_init(|| {
            // What was written as JSON a moment ago can be read.
            let document = serde_json::from_slice(&self.json.plain).unwrap_or_default();
            Encoded::new(gnostic::encode(&document).into())
        })
    }
}

impl Encoded {
    fn new(plain: Bytes) -> Encoded {
        Encoded {
            plain,
            zipped: OnceLock::new(),
        }
    }

    fn zipped(&self) -> &Bytes {
        self.zipped.get_or_init(|| {
            let mut zip = GzEncoder::new(Vec::new(), Compression::default());
            // Writing into memory does not fail.
            let _ = zip.write_all(&self.plain);
            zip.finish().unwrap_or_default().into()
        })
    }
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

fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut codings = texts.flat_map(|text| text.split(','));
    codings.any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = quality.trim().strip_prefix("q=").unwrap_or("1");
        name.trim() == "gzip" && quality.parse() != Ok(0.0)
    })
}

/// The whole document.
fn build(catalogue: &Catalogue) -> Value {
    let mut paths = Map::new();
    let mut schemas = Schemas::default();
    for kind in schema::kinds() {
        schemas.add_kind(kind);
        paths::add_builtin(&mut paths, kind);
    }
    schemas.add_common();
    let mut definitions = schemas.into_map();
    definitions.values_mut().for_each(leave_out);
    // Numbers and texts at once cannot be said in v2.
    definitions.insert(QUANTITY.into(), json!({"type": "string"}));
    let either = json!({"type": "string", "format": "int-or-string"});
    definitions.insert(INT_OR_STRING.into(), either);
    definitions.insert(paths::PATCH.into(), json!({"type": "object"}));
    for resource in catalogue.custom() {
        let kind = &resource.kind;
        let name = custom::name_of(kind, kind.kind());
        let list = custom::of_list(kind, &name);
        paths::add_custom(&mut paths, kind);
        definitions.insert(name, custom::of_object_v2(resource));
        definitions.insert(custom::name_of(kind, kind.list_kind()), list);
    }
    // A list with a name has none here: its schema is where it is used.
    let is_list = |schema: &Value| schema["type"] == "array";
    let (lists, mut definitions): (Map<_, _>, Map<_, _>) = definitions
        .into_iter()
        .partition(|(_, schema)| is_list(schema));
    for schema in definitions.values_mut() {
        point_to_definitions(schema, &lists);
    }
    json!({
        "swagger": "2.0",
        "info": super::info(),
        "paths": paths,
        "definitions": definitions,
    })
}

/// Leaves out what only v3 has of built-in kinds, as Kubernetes does: defaults, and properties where
/// there are none.
fn leave_out(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        if let Some(property) = property.as_object_mut() {
            property.remove("default");
        }
    }
    if fields.get("properties") == Some(&json!({})) {
        fields.remove("properties");
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
