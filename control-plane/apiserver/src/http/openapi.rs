//! OpenAPI: what kubectl needs to explain, validate and patch. The documents are made when they are
//! first asked for, and kept compressed: all together they have 7 MB of text.

pub(crate) mod converted;
pub(crate) mod custom;
mod groups;
mod library;
mod operations;
mod schemas;
mod texts;
pub(crate) mod v2;
mod written;
mod zipped;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use self::operations::{Path, Shape};
use self::schemas::Schemas;
use self::texts::Texts;
pub(crate) use self::zipped::Zipped;
use crate::http::question::patch;
use crate::registry::strategy;
use crate::resources::catalogue::Resource;

/// Where references point in v2.
const OF_V2: &str = "#/definitions/";
/// Where references point in v3.
const OF_V3: &str = "#/components/schemas/";
/// Which kind a schema or an operation is about.
const TYPE: &str = "x-kubernetes-group-version-kind";
/// What built-in kinds and discovery are answered in.
const MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// Documents by path such as `apis/apps/v1`.
pub(crate) type Documents = BTreeMap<String, Document>;

/// A document of OpenAPI v3.
#[derive(Clone)]
pub(crate) struct Document {
    /// It changes with the document.
    pub(crate) hash: String,
    pub(crate) text: Arc<Zipped>,
}

static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let texts = Texts::unpack();
    let builtin = strategy::builtin();
    let versions = builtin
        .iter()
        .map(|one| (one.kind.group(), one.kind.version()));
    let versions: BTreeSet<(&str, &str)> = versions.collect();
    let of_kinds = versions.iter().map(|(group, version)| {
        let document = build(group, version, &texts);
        (path_of(group, version), Document::new(&document))
    });
    let others = groups::others().into_iter();
    let others = others.map(|other| {
        let mut schemas = Schemas::new(&texts);
        add_other(&mut schemas, &other);
        let document = document_of(&[other.path], schemas, &texts);
        (other.place, Document::new(&document))
    });
    of_kinds.chain(others).collect()
});

impl Document {
    fn new(text: &[u8]) -> Document {
        Document {
            hash: hash(text),
            text: Arc::new(Zipped::new(text)),
        }
    }
}

/// Where the documents are: those of the table, and these.
pub(crate) fn index(custom: &Documents) -> Value {
    let one = |(path, document): (&String, &Document)| {
        (
            path.clone(),
            json!({"serverRelativeURL": url(path, document)}),
        )
    };
    // Of two with one path the later one is taken.
    let paths: Map<String, Value> = custom.iter().chain(&*DOCUMENTS).map(one).collect();
    json!({ "paths": paths })
}

/// Where clients ask for a document. What they get there they may keep.
pub(crate) fn url(path: &str, document: &Document) -> String {
    format!("/openapi/v3/{path}?hash={}", document.hash)
}

/// The document with this path.
pub(crate) fn document<'a>(custom: &'a Documents, path: &str) -> Option<&'a Document> {
    DOCUMENTS.get(path).or_else(|| custom.get(path))
}

fn path_of(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

/// FNV-1a, twice with different offsets: it identifies a document and is not cryptographic.
fn hash(bytes: &[u8]) -> String {
    let run = |start: u64| {
        bytes.iter().fold(start, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    format!(
        "{:016X}{:016X}",
        run(0xcbf2_9ce4_8422_2325),
        run(0x9e37_79b9_7f4a_7c15)
    )
}

fn build(group: &str, version: &str, texts: &Texts) -> Vec<u8> {
    let is_of = |one: &&Arc<Resource>| (one.kind.group(), one.kind.version()) == (group, version);
    let mut paths = vec![groups::of_version(group, version)];
    let mut schemas = Schemas::new(texts);
    schemas.add_body("", "v1", "APIResourceList");
    for resource in strategy::builtin().iter().filter(is_of) {
        paths.extend(shape_of(resource).paths());
        schemas.add_kind(&resource.kind);
    }
    document_of(&paths, schemas, texts)
}

/// How the paths of a built-in kind are written.
fn shape_of(resource: &Arc<Resource>) -> Shape<'_> {
    let schema = schemas::name_of(resource.kind.message().name);
    Shape {
        kind: &resource.kind,
        list: format!("{schema}List"),
        schema,
        returns_deleted_object: strategy::of(resource).returns_deleted_object,
        produces: MEDIA_TYPES,
        consumes: &["*/*"],
        patches: &patch::MEDIA_TYPES,
        custom: false,
    }
}

fn add_other(schemas: &mut Schemas<'_>, other: &groups::Other) {
    if let Some(kind) = other.kind {
        schemas.add_body("", "v1", kind);
    }
    if other.place == "version" {
        schemas.add_version();
    }
}

fn document_of(paths: &[Path], schemas: Schemas<'_>, texts: &Texts) -> Vec<u8> {
    let mut out = written::begin(&json!({"openapi": "3.0.0", "info": info()}));
    let paths = operations::paths(paths, texts, operations::v3::FORM);
    written::put_fields(&mut out, "paths", paths);
    let mut components = json!({"securitySchemes": security()});
    let schemas = schemas.into_map();
    if !schemas.is_empty() {
        components["schemas"] = schemas.into();
    }
    written::put_fields(&mut out, "components", fields(components));
    written::end(out)
}

/// The fields of a value; none if it is no object.
fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.3"})
}

/// How clients say who they are.
fn security() -> Value {
    let token = json!({
        "type": "apiKey", "description": "Bearer Token authentication",
        "name": "authorization", "in": "header",
    });
    json!({ "BearerToken": token })
}

fn reference_to(name: &str) -> Value {
    json!({"$ref": format!("{OF_V3}{name}")})
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
