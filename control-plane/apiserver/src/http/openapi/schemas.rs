//! The schemas of built-in kinds, from the table of their fields.

mod values;

use std::sync::Arc;

use machinery::schema::{self, Field, Kind, Message, Subresource, Type};
use serde_json::{Map, Value, json};

pub(super) use self::values::{INT_OR_STRING, QUANTITY, wrapped};
use self::values::{extensions, name_of_scalar, scalar, zero_of};
use super::texts::{POD, Texts};
use super::{TYPE, reference_to};

/// The schema of patches.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// The schema of the server's version, which is no kind, and its fields.
pub(super) const VERSION: &str = "io.k8s.apimachinery.pkg.version.Info";
const VERSION_FIELDS: [&str; 9] = [
    "major",
    "minor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
];
const VERSION_FIELDS_OPTIONAL: [&str; 4] = [
    "emulationMajor",
    "emulationMinor",
    "minCompatibilityMajor",
    "minCompatibilityMinor",
];

/// Types of which one field says which of the others is set, or of which one alone may be set: the
/// type, the field that says it, and the others, which are values of it with a capital letter.
const UNIONS: [(&str, &str, &[&str]); 6] = [
    ("core/v1.AppArmorProfile", "type", &["localhostProfile"]),
    ("core/v1.PodSchedulingGroup", "", &["podGroupName"]),
    ("core/v1.SeccompProfile", "type", &["localhostProfile"]),
    ("flowcontrol/v1.LimitResponse", "type", &["queuing"]),
    (
        "flowcontrol/v1.PriorityLevelConfigurationSpec",
        "type",
        &["exempt", "limited"],
    ),
    (
        "flowcontrol/v1.Subject",
        "kind",
        &["group", "serviceAccount", "user"],
    ),
];

/// The lists of a rule of admission. The table has no facts about them, because they are embedded.
const RULE: [&str; 3] = ["apiGroups", "apiVersions", "resources"];
/// Optional fields whose default is said to be what they have anyway.
const ZERO: [(&str, &str); 6] = [
    ("autoscaling/v1.ScaleSpec", "replicas"),
    ("core/v1.AzureDiskVolumeSource", "readOnly"),
    ("core/v1.FileKeySelector", "optional"),
    ("core/v1.GRPCAction", "service"),
    ("core/v1.LocalObjectReference", "name"),
    ("core/v1.ReplicationControllerSpec", "minReadySeconds"),
];

/// The schemas of a document by name.
pub(super) struct Schemas<'a> {
    texts: &'a Texts,
    all: Map<String, Value>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(texts: &'a Texts) -> Schemas<'a> {
        Schemas {
            texts,
            all: Map::new(),
        }
    }

    /// Adds the schemas of a kind, of its lists, and of what is around them.
    pub(super) fn add_kind(&mut self, kind: &Kind) {
        let (group, version) = (kind.group(), kind.version());
        self.add(kind.message(), (group, version, kind.kind()));
        if kind.has_verb("list") {
            self.add_body(group, version, &format!("{}List", kind.kind()));
        }
        if kind.has_verb("watch") {
            self.add_body("", "v1", "WatchEvent");
            self.also_of("meta/v1.WatchEvent", (group, version, "WatchEvent"));
        }
        self.add_around(kind);
    }

    /// Adds what subresources of a kind take, and requests of all kinds.
    pub(super) fn add_around(&mut self, kind: &Kind) {
        // What is asked for in a query, such as `PodExecOptions`, has no schema.
        let is_body =
            |sub: &&Subresource| !sub.kind().ends_with("Options") && sub.kind() != kind.kind();
        for sub in kind.subresources().iter().filter(is_body) {
            self.add(sub.message(), (sub.group(), sub.version(), sub.kind()));
        }
        if kind.has_verb("delete") {
            let (group, version) = (kind.group(), kind.version());
            self.add_body("", "v1", "DeleteOptions");
            self.also_of("meta/v1.DeleteOptions", (group, version, "DeleteOptions"));
            self.add_body("", "v1", "Status");
        }
        if kind.has_verb("patch") {
            self.add_patch();
        }
    }

    /// Makes requests and events that are common to all kinds those of these groups and versions alone.
    pub(super) fn common_of<'v>(&mut self, versions: impl IntoIterator<Item = (&'v str, &'v str)>) {
        let versions: Vec<_> = versions.into_iter().collect();
        for kind in ["DeleteOptions", "WatchEvent"] {
            let message = format!("meta/v1.{kind}");
            if let Some(schema) = self.all.get_mut(&name_of(&message)) {
                schema[TYPE] = json!([]);
            }
            for (group, version) in &versions {
                self.also_of(&message, (group, version, kind));
            }
        }
    }

    /// Adds what is sent or answered as this kind.
    pub(super) fn add_body(&mut self, group: &str, version: &str, kind: &str) {
        if let Some(message) = schema::body(group, version, kind) {
            self.add(message, (group, version, kind));
        }
    }

    pub(super) fn add_patch(&mut self) {
        let mut patch = json!({"type": "object"});
        self.describe(PATCH, &mut patch);
        self.all.insert(PATCH.into(), patch);
    }

    /// Adds what is answered about the version of the server.
    pub(super) fn add_version(&mut self) {
        let property = |field: &str, schema: Value| {
            let text = self.texts.plain(VERSION, field);
            (field.to_owned(), described(schema, text))
        };
        let required = VERSION_FIELDS.iter();
        let required = required.map(|one| property(one, json!({"type": "string", "default": ""})));
        let others = VERSION_FIELDS_OPTIONAL.iter();
        let others = others.map(|one| property(one, json!({"type": "string"})));
        let properties: Map<String, Value> = required.chain(others).collect();
        let mut schema =
            json!({"type": "object", "required": VERSION_FIELDS, "properties": properties});
        self.describe(VERSION, &mut schema);
        self.all.insert(VERSION.into(), schema);
    }

    pub(super) fn put(&mut self, name: String, schema: Value) {
        self.all.insert(name, schema);
    }

    /// Adds a message and those in it, and the group, version and kind of its schema.
    fn add(&mut self, message: &'static Message, of: (&str, &str, &str)) {
        self.collect(message);
        self.also_of(message.name, of);
    }

    /// Adds a group, version and kind to those of a schema.
    fn also_of(&mut self, message: &str, (group, version, kind): (&str, &str, &str)) {
        let Some(schema) = self.all.get_mut(&name_of(message)) else {
            return;
        };
        let this = json!({"group": group, "version": version, "kind": kind});
        let known = schema[TYPE].as_array();
        let mut known = known.cloned().unwrap_or_default();
        if !known.contains(&this) {
            known.push(this);
        }
        schema[TYPE] = known.into();
    }

    /// Adds a message and those in it.
    pub(super) fn collect(&mut self, message: &'static Message) {
        let name = name_of(message.name);
        if self.all.contains_key(&name) {
            return;
        }
        let mut schema = if message.list {
            // A named list has the schema of the list itself.
            let field = message.fields.first();
            field.map_or(json!({}), |field| self.type_of(&field.kind))
        } else {
            self.object(&name, message)
        };
        self.describe(&name, &mut schema);
        if message.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        if let Some(union) = union_of(message.name) {
            schema["x-kubernetes-unions"] = json!([union]);
        }
        self.all.insert(name, schema);
        self.add_own_kind(message);
        self.collect_inner(message);
    }

    /// Adds the kind of a message that is inside others, too.
    fn add_own_kind(&mut self, message: &'static Message) {
        let is_it = |kind: &&Arc<Kind>| kind.message().name == message.name;
        if let Some(kind) = schema::kinds().iter().find(is_it) {
            self.also_of(message.name, (kind.group(), kind.version(), kind.kind()));
        } else if let Some(kind) = message.name.strip_prefix("meta/v1.")
            && message.typed
            && schema::body("", "v1", kind).is_some()
        {
            self.also_of(message.name, ("", "v1", kind));
        }
    }

    fn collect_inner(&mut self, message: &'static Message) {
        for field in &message.fields {
            match field.message() {
                Some(one) if field.inline => self.collect_inner(one),
                Some(one) if one.list => {}
                Some(one) => self.collect(one),
                None => self.collect_scalar(&field.kind),
            }
        }
    }

    fn collect_scalar(&mut self, kind: &Type) {
        match kind {
            Type::List(item) | Type::Map(item) => self.collect_scalar(item),
            Type::Message(id) => self.collect(id.get()),
            _ => {}
        }
        let Some((name, mut schema)) = scalar(kind) else {
            return;
        };
        self.describe(name, &mut schema);
        self.all.insert(name.to_owned(), schema);
    }

    fn object(&self, name: &str, message: &'static Message) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        if message.typed {
            for key in ["apiVersion", "kind"] {
                // Lists have no texts of their own; those of these fields are the same everywhere.
                let text = self.texts.plain(name, key);
                let text = text.or_else(|| self.texts.plain(POD, key));
                properties.insert(key.into(), described(json!({"type": "string"}), text));
            }
        }
        self.add_fields(name, message, &mut properties, &mut required);
        let mut schema = json!({"type": "object"});
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }

    fn add_fields(
        &self,
        name: &str,
        message: &'static Message,
        properties: &mut Map<String, Value>,
        required: &mut Vec<Value>,
    ) {
        for field in &message.fields {
            if field.inline {
                if let Some(inner) = field.message() {
                    self.add_fields(name, stands_for(inner), properties, required);
                }
                continue;
            }
            let text = self.texts.of_field(name, field.name, &field.kind);
            let mut property = described(self.property(message, field), text.as_deref());
            if RULE.contains(&field.name) && message.name == "admissionregistration/v1.Rule" {
                property["x-kubernetes-list-type"] = "atomic".into();
            }
            let property = wrapped(property);
            properties.insert(field.name.to_owned(), property);
            if field.required {
                required.push(field.name.into());
            }
        }
    }

    fn property(&self, message: &Message, field: &Field) -> Value {
        let mut schema = self.type_of(&field.kind);
        if let Some(schema) = schema.as_object_mut() {
            schema.extend(extensions(field));
        }
        if ZERO.contains(&(message.name, field.name)) {
            schema["default"] = zero_of(&field.kind).unwrap_or_default();
        }
        schema
    }

    fn type_of(&self, kind: &Type) -> Value {
        match kind {
            Type::String(_) => match self.texts.values(kind) {
                Some(values) => json!({"type": "string", "enum": values}),
                None => json!({"type": "string"}),
            },
            Type::Duration => json!({"type": "string"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::Int32 => json!({"type": "integer", "format": "int32"}),
            Type::Int64 => json!({"type": "integer", "format": "int64"}),
            Type::Float64 => json!({"type": "number", "format": "double"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Message(id) if id.get().list => {
                let field = id.get().fields.first();
                field.map_or(json!({}), |field| self.type_of(&field.kind))
            }
            Type::Message(id) => reference_to(&name_of(id.get().name)),
            Type::List(item) => json!({"type": "array", "items": self.item(item)}),
            Type::Map(item) => json!({"type": "object", "additionalProperties": self.item(item)}),
            scalar => reference_to(name_of_scalar(scalar).unwrap_or_default()),
        }
    }

    /// The schema of the items of a list or map, with the zero value of their type.
    fn item(&self, kind: &Type) -> Value {
        let mut schema = self.type_of(kind);
        if let Some(zero) = zero_of(kind) {
            schema["default"] = zero;
        }
        wrapped(schema)
    }

    fn describe(&self, name: &str, schema: &mut Value) {
        if let Some(text) = self.texts.of_type(name) {
            schema["description"] = text.into();
        }
    }

    pub(super) fn into_map(self) -> Map<String, Value> {
        self.all
    }
}

/// A schema with a text, if there is one.
pub(super) fn described(mut schema: Value, text: Option<&str>) -> Value {
    if let Some(text) = text {
        schema["description"] = text.into();
    }
    schema
}

fn union_of(message: &str) -> Option<Value> {
    let (_, discriminator, fields) = UNIONS.iter().find(|(name, ..)| *name == message)?;
    let fields: Map<String, Value> = fields
        .iter()
        .map(|field| ((*field).to_owned(), super::capital(field).into()))
        .collect();
    let mut union = json!({"fields-to-discriminateBy": fields});
    if !discriminator.is_empty() {
        union["discriminator"] = (*discriminator).into();
    }
    Some(union)
}

/// `core/v1.Pod` as OpenAPI names it: `io.k8s.api.core.v1.Pod`.
pub(super) fn name_of(message: &str) -> String {
    let (package, name) = message.rsplit_once('.').unwrap_or(("", message));
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

/// The message whose facts hold for the fields of an embedded one, of which the table has fewer.
fn stands_for(message: &'static Message) -> &'static Message {
    let other = match message.name {
        "core/v1.EphemeralContainerCommon" => schema::message("core/v1.Container"),
        _ => None,
    };
    other.unwrap_or(message)
}
