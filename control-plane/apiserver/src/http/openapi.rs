//! OpenAPI v3, from the schema table: what kubectl needs to explain, validate and patch.

pub(crate) mod custom;
pub(crate) mod v2;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::Bytes;
use machinery::schema::{self, Field, Kind, ListType, Message, Subresource, Type};
use serde_json::{Map, Value, json};

use crate::http::question::patch;
use crate::storage::entry::to_json;

/// Which kind a schema or an operation is about.
const TYPE: &str = "x-kubernetes-group-version-kind";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const SCHEMA_OR_ARRAY: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
const SCHEMA_OR_BOOL: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
const SCHEMA_OR_STRINGS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";

/// Documents by path such as `apis/apps/v1`, each with its hash.
pub(crate) type Documents = BTreeMap<String, (String, Bytes)>;

static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let mut documents = BTreeMap::new();
    for kind in schema::kinds() {
        documents
            .entry(path_of(kind.group(), kind.version()))
            .or_insert_with(|| {
                let document = to_json(&build(kind.group(), kind.version()));
                (hash(&document), document)
            });
    }
    documents
});

/// What the paths of a kind take and give.
struct Shape<'a> {
    /// The name of its schema.
    schema: String,
    /// What bodies are written in.
    media_types: &'a [&'a str],
    /// What patches are written in.
    patches: &'a [&'a str],
}

/// Where the documents are: those of the table, and these.
pub(crate) fn index(custom: &Documents) -> Value {
    let one = |(path, (hash, _)): (&String, &(String, Bytes))| {
        let url = format!("/openapi/v3/{path}?hash={hash}");
        (path.clone(), json!({"serverRelativeURL": url}))
    };
    // Of two with one path the later one is taken.
    let paths: Map<String, Value> = custom.iter().chain(&*DOCUMENTS).map(one).collect();
    json!({ "paths": paths })
}

/// The hash and the text of a document.
pub(crate) fn document<'a>(custom: &'a Documents, path: &str) -> Option<&'a (String, Bytes)> {
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

fn build(group: &str, version: &str) -> Value {
    let of_version =
        |kind: &&std::sync::Arc<Kind>| kind.group() == group && kind.version() == version;
    let kinds: Vec<_> = schema::kinds().iter().filter(of_version).collect();
    let mut paths = Map::new();
    let mut schemas = Schemas::default();
    for kind in &kinds {
        let shape = Shape {
            schema: name_of(kind.message()),
            media_types: &["application/json", "application/vnd.kubernetes.protobuf"],
            patches: &patch::MEDIA_TYPES,
        };
        add_paths(&mut paths, kind, &shape);
        schemas.add_kind(kind);
    }
    schemas.add_common();
    document_of(paths, schemas.into_map())
}

fn document_of(paths: Map<String, Value>, schemas: Map<String, Value>) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.3"})
}

/// The schemas of a document by name.
#[derive(Default)]
struct Schemas {
    /// The messages whose schemas are there.
    seen: BTreeSet<String>,
    all: Map<String, Value>,
}

impl Schemas {
    /// Adds the schemas of a kind, of its subresources and its lists.
    fn add_kind(&mut self, kind: &Kind) {
        // What is asked for in a query, such as `PodExecOptions`, has no schema.
        let is_body = |sub: &&Subresource| !sub.kind().ends_with("Options");
        for sub in kind.subresources().iter().filter(is_body) {
            self.add(sub.message(), (sub.group(), sub.version(), sub.kind()));
        }
        let (group, version) = (kind.group(), kind.version());
        self.add(kind.message(), (group, version, kind.kind()));
        let list = format!("{}List", kind.kind());
        let listed = kind.has_verb("list");
        if let Some(message) = schema::body(group, version, &list).filter(|_| listed) {
            self.add(message, (group, version, &list));
        }
    }

    /// Adds what requests of all kinds take and give.
    fn add_common(&mut self) {
        for kind in ["DeleteOptions", "Status"] {
            if let Some(message) = schema::body("", "v1", kind) {
                self.add(message, ("", "v1", kind));
            }
        }
    }

    /// Adds a message and those in it.
    fn collect(&mut self, message: &'static Message) {
        collect(message, &mut self.seen, &mut self.all);
    }

    fn put(&mut self, name: String, schema: Value) {
        self.all.insert(name, schema);
    }

    /// Adds a message and those in it, and the group, version and kind of its schema.
    fn add(&mut self, message: &'static Message, (group, version, kind): (&str, &str, &str)) {
        collect(message, &mut self.seen, &mut self.all);
        if let Some(schema) = self.all.get_mut(&name_of(message)) {
            let this = json!({"group": group, "version": version, "kind": kind});
            let known = schema[TYPE].as_array();
            let mut known = known.cloned().unwrap_or_default();
            if !known.contains(&this) {
                known.push(this);
            }
            schema[TYPE] = known.into();
        }
    }

    fn into_map(self) -> Map<String, Value> {
        self.all
    }
}

/// `core/v1.Pod` as OpenAPI names it: `io.k8s.api.core.v1.Pod`.
fn name_of(message: &Message) -> String {
    let (package, name) = message.name.rsplit_once('.').unwrap_or(("", message.name));
    let package = package.replace('/', ".");
    let (first, _) = package.split_once('.').unwrap_or((&package, ""));
    match first {
        "meta" => format!("io.k8s.apimachinery.pkg.apis.{package}.{name}"),
        "apiextensions" => {
            format!("io.k8s.apiextensions-apiserver.pkg.apis.{package}.{name}")
        }
        "apiregistration" => {
            format!("io.k8s.kube-aggregator.pkg.apis.{package}.{name}")
        }
        _ => format!("io.k8s.api.{package}.{name}"),
    }
}

/// Adds the schema of a message and of all messages in it.
fn collect(
    message: &'static Message,
    seen: &mut BTreeSet<String>,
    schemas: &mut Map<String, Value>,
) {
    if !seen.insert(name_of(message)) {
        return;
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    if message.typed {
        properties.insert("apiVersion".into(), json!({"type": "string"}));
        properties.insert("kind".into(), json!({"type": "string"}));
    }
    add_fields(message, &mut properties, &mut required);
    for (name, schema) in scalars() {
        schemas.entry(name).or_insert(schema);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if message.list {
        // A named list has the schema of the list itself.
        if let Some(field) = message.fields.first() {
            schema = type_of(&field.kind);
        }
    } else if !required.is_empty() {
        schema["required"] = required.into();
    }
    if message.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schemas.insert(name_of(message), schema);
    let mut inner = Vec::new();
    inner_messages(message, &mut inner);
    for message in inner {
        collect(message, seen, schemas);
    }
}

fn add_fields(
    message: &'static Message,
    properties: &mut Map<String, Value>,
    required: &mut Vec<Value>,
) {
    for field in &message.fields {
        if field.inline {
            if let Some(inner) = field.message() {
                add_fields(inner, properties, required);
            }
            continue;
        }
        properties.insert(field.name.to_owned(), property(field));
        if field.required {
            required.push(field.name.into());
        }
    }
}

fn inner_messages(message: &'static Message, inner: &mut Vec<&'static Message>) {
    for field in &message.fields {
        match field.message() {
            Some(one) if field.inline => inner_messages(one, inner),
            Some(one) => inner.push(one),
            None => {}
        }
    }
}

fn property(field: &Field) -> Value {
    let mut schema = type_of(&field.kind);
    let wrapped = |schema: Value| json!({"allOf": [schema]});
    let mut extensions = Map::new();
    let mut strategies = Vec::new();
    if field.patch.merge {
        strategies.push("merge");
    }
    if field.patch.replace {
        strategies.push("replace");
    }
    if field.patch.retain_keys {
        strategies.push("retainKeys");
    }
    if !strategies.is_empty() {
        let strategy = strategies.join(",");
        extensions.insert("x-kubernetes-patch-strategy".into(), strategy.into());
    }
    if !field.patch.merge_key.is_empty() {
        extensions.insert(
            "x-kubernetes-patch-merge-key".into(),
            field.patch.merge_key.into(),
        );
    }
    let list = match field.list {
        ListType::Unset => None,
        ListType::Atomic => Some("atomic"),
        ListType::Set => Some("set"),
        ListType::Map => Some("map"),
    };
    if let Some(list) = list.filter(|_| matches!(field.kind, Type::List(_))) {
        extensions.insert("x-kubernetes-list-type".into(), list.into());
    }
    if !field.list_keys.is_empty() {
        extensions.insert("x-kubernetes-list-map-keys".into(), json!(field.list_keys));
    }
    if let Some(default) = &field.default {
        extensions.insert("default".into(), default.clone());
    }
    if !extensions.is_empty() && schema.get("$ref").is_some() {
        schema = wrapped(schema);
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.extend(extensions);
    }
    schema
}

fn type_of(kind: &Type) -> Value {
    match kind {
        Type::String(_) | Type::Duration => json!({"type": "string"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Float64 => json!({"type": "number", "format": "double"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Message(id) => reference(id.get()),
        Type::List(item) => json!({"type": "array", "items": type_of(item)}),
        Type::Map(item) => json!({"type": "object", "additionalProperties": type_of(item)}),
        Type::Time => reference_to(TIME),
        Type::MicroTime => reference_to(MICRO_TIME),
        Type::Quantity => reference_to(QUANTITY),
        Type::IntOrString => reference_to(INT_OR_STRING),
        Type::Raw => reference_to(RAW),
        Type::Fields => reference_to(FIELDS),
        Type::Json => reference_to(JSON),
        Type::SchemaOrArray => reference_to(SCHEMA_OR_ARRAY),
        Type::SchemaOrBool => reference_to(SCHEMA_OR_BOOL),
        Type::SchemaOrStrings => reference_to(SCHEMA_OR_STRINGS),
    }
}

fn reference(message: &Message) -> Value {
    reference_to(&name_of(message))
}

fn reference_to(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Values with a name that are no messages: scalars, which `kubectl explain` shows as their type, and
/// what may have any fields or any type.
fn scalars() -> [(String, Value); 10] {
    let time = json!({"type": "string", "format": "date-time"});
    let number = json!({"type": "number"});
    let (text, integer) = (json!({"type": "string"}), json!({"type": "integer"}));
    let either = json!({"format": "int-or-string", "oneOf": [integer, text]});
    [
        (TIME.to_owned(), time.clone()),
        (MICRO_TIME.to_owned(), time),
        (QUANTITY.to_owned(), json!({"oneOf": [text, number]})),
        (INT_OR_STRING.to_owned(), either),
        (RAW.to_owned(), json!({"type": "object"})),
        (FIELDS.to_owned(), json!({"type": "object"})),
        (JSON.to_owned(), json!({})),
        (SCHEMA_OR_ARRAY.to_owned(), json!({})),
        (SCHEMA_OR_BOOL.to_owned(), json!({})),
        (SCHEMA_OR_STRINGS.to_owned(), json!({})),
    ]
}

/// The paths of a kind. kubectl looks here for the parameters and the patches that are taken.
fn add_paths(paths: &mut Map<String, Value>, kind: &Kind, shape: &Shape<'_>) {
    let base = format!("/{}", path_of(kind.group(), kind.version()));
    let collection = if kind.namespaced() {
        format!("{base}/namespaces/{{namespace}}/{}", kind.plural())
    } else {
        format!("{base}/{}", kind.plural())
    };
    let mut operations = Map::new();
    for (verb, method, action) in [
        ("list", "get", "list"),
        ("create", "post", "post"),
        ("deletecollection", "delete", "deletecollection"),
    ] {
        if kind.has_verb(verb) {
            operations.insert(method.into(), operation(kind, action, method, shape));
        }
    }
    paths.insert(collection.clone(), operations.into());
    let mut operations = Map::new();
    for (verb, method) in [
        ("get", "get"),
        ("update", "put"),
        ("patch", "patch"),
        ("delete", "delete"),
    ] {
        if kind.has_verb(verb) {
            operations.insert(method.into(), operation(kind, method, method, shape));
        }
    }
    if !operations.is_empty() {
        paths.insert(format!("{collection}/{{name}}"), operations.into());
    }
}

fn operation(kind: &Kind, action: &str, method: &str, shape: &Shape<'_>) -> Value {
    let query = |name: &str, kind: &str| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}});
    let schema = reference_to(&shape.schema);
    let mut operation = json!({
        "x-kubernetes-action": action,
        TYPE:
            {"group": kind.group(), "version": kind.version(), "kind": kind.kind()},
        "responses": {"200": {"description": "OK",
            "content": {"application/json": {"schema": schema}}}},
    });
    if ["post", "put", "patch"].contains(&method) {
        let mut parameters = vec![
            query("dryRun", "string"),
            query("fieldManager", "string"),
            query("fieldValidation", "string"),
        ];
        let (media_types, schema) = if method == "patch" {
            parameters.push(query("force", "boolean"));
            (shape.patches, json!({"type": "object"}))
        } else {
            (shape.media_types, reference_to(&shape.schema))
        };
        let content: Map<String, Value> = media_types
            .iter()
            .map(|media_type| ((*media_type).to_owned(), json!({"schema": schema})))
            .collect();
        operation["parameters"] = parameters.into();
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation
}
