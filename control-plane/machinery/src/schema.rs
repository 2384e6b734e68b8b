//! The table of kinds and fields of Kubernetes v1.36's built-in types.
//!
//! `generate/` makes `schema/schema.txt` from Kubernetes' Go modules. The kinds are parsed together,
//! a message when it is first asked for: few programs need them all. Everything here borrows from the
//! text forever. The table is trusted: a line that does not parse is a bug of the generator and stops
//! the process.

mod kind;
mod parse;
#[cfg(test)]
mod tests;
pub(crate) mod zero;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::Value;

pub use kind::{Kind, Names, Scope, Subresource};

/// A reference to a message: its index in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId(u32);

/// A type with fields.
#[derive(Debug)]
pub struct Message {
    /// The package and the Go type, such as `core/v1.PodSpec`.
    pub name: &'static str,
    /// Server-side apply owns it as a whole.
    pub atomic: bool,
    /// JSON has `apiVersion` and `kind` beside the fields.
    pub typed: bool,
    /// A named list: one field that JSON shows as a plain array.
    pub list: bool,
    /// JSON may have any fields beside these, and they are kept as they are.
    pub open: bool,
    /// The fields as declared; embedded messages are not flattened.
    pub fields: Vec<Field>,
    /// JSON name → path: the embedding fields to walk through, then the field.
    by_json: HashMap<&'static str, Vec<u16>>,
    /// Protobuf number → field.
    by_number: HashMap<u32, u16>,
    /// The fields that protobuf carries, by rising number.
    wire_order: Vec<u16>,
}

/// One field of a message.
#[derive(Debug)]
pub struct Field {
    /// The name in JSON; `-` for an embedded message, whose fields JSON shows in its place.
    pub name: &'static str,
    /// The number in protobuf; 0 if protobuf does not carry it.
    pub number: u32,
    /// Its type.
    pub kind: Type,
    /// A Go pointer: unset differs from zero.
    pub pointer: bool,
    /// An empty value is left out of JSON.
    pub omit_empty: bool,
    /// A zero struct is left out of JSON.
    pub omit_zero: bool,
    /// An empty list differs from a missing one until it is stored: it gets no default, and errors
    /// show it.
    pub keeps_empty: bool,
    /// An embedded message.
    pub inline: bool,
    /// Required in OpenAPI.
    pub required: bool,
    /// How a strategic merge patch treats it.
    pub patch: Patch,
    /// How server-side apply treats a list or map.
    pub list: ListType,
    /// The keys of a `map` list.
    pub list_keys: Vec<&'static str>,
    /// The value that the API documents as the default.
    pub default: Option<Value>,
}

/// The strategic merge patch tags of a field.
#[derive(Debug, Default)]
pub struct Patch {
    /// Lists are merged, not replaced.
    pub merge: bool,
    /// A map is replaced, not merged.
    pub replace: bool,
    /// `$retainKeys` is allowed.
    pub retain_keys: bool,
    /// The field that identifies an item of a merged list; empty for lists of plain values.
    pub merge_key: &'static str,
}

/// How server-side apply treats a list, map or struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// Not specified: lists are atomic, maps granular.
    Unset,
    /// Owned as a whole.
    Atomic,
    /// A set of plain values.
    Set,
    /// Items identified by keys.
    Map,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Text; with the name of its Go type if that is not `string`, such as `core/v1.DNSPolicy`.
    String(Option<&'static str>),
    /// True or false.
    Bool,
    /// A signed integer of 32 bits.
    Int32,
    /// A signed integer of 64 bits.
    Int64,
    /// A number.
    Float64,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A message.
    Message(MessageId),
    /// A list.
    List(Box<Type>),
    /// A map from text.
    Map(Box<Type>),
    /// An RFC 3339 time in whole seconds.
    Time,
    /// An RFC 3339 time with microseconds.
    MicroTime,
    /// A Go duration, such as `1h0m0s`.
    Duration,
    /// A quantity, such as `100m`.
    Quantity,
    /// A number or text, such as `25%`.
    IntOrString,
    /// An object of any kind.
    Raw,
    /// A field set of server-side apply (`FieldsV1`).
    Fields,
    /// Any JSON.
    Json,
    /// A JSON schema or a list of them.
    SchemaOrArray,
    /// A JSON schema or a boolean.
    SchemaOrBool,
    /// A JSON schema or a list of names.
    SchemaOrStrings,
}

/// The whole table.
struct Table {
    kinds: Vec<Arc<Kind>>,
    messages: Vec<Declared>,
    by_gvk: HashMap<(&'static str, &'static str, &'static str), usize>,
    by_gvr: HashMap<(&'static str, &'static str, &'static str), usize>,
    by_name: HashMap<&'static str, MessageId>,
    bodies: HashMap<(&'static str, &'static str, &'static str), MessageId>,
}

/// A message of the table.
struct Declared {
    /// Its lines, without the letter of the first.
    text: &'static str,
    parsed: OnceLock<Message>,
}

/// The message of objects of which only the metadata has types, by the name of its Go type.
const OPEN: &str = "unstructured.Unstructured";

static TABLE: LazyLock<Table> = LazyLock::new(|| parse::table(include_str!("schema/schema.txt")));

/// Every kind with a collection, group by group in the order of discovery.
pub fn kinds() -> &'static [Arc<Kind>] {
    &TABLE.kinds
}

/// The kind served under a group, version and kind.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<&'static Arc<Kind>> {
    let at = TABLE.by_gvk.get(&(group, version, kind))?;
    Some(&TABLE.kinds[*at])
}

/// The kind served under a group, version and plural name.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Arc<Kind>> {
    let at = TABLE.by_gvr.get(&(group, version, plural))?;
    Some(&TABLE.kinds[*at])
}

/// The fields of any kind that a body may carry: objects, lists, options, reviews.
pub fn body(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    let known = |group| TABLE.bodies.get(&(group, version, kind));
    // Options of calls may name any group; they are the same in every group.
    let shared = || {
        let options = kind.ends_with("Options") || kind == "Status" || kind == "WatchEvent";
        let options = options || kind.starts_with("PartialObjectMetadata");
        options
            .then(|| known("meta.k8s.io").or_else(|| known("")))
            .flatten()
    };
    known(group).or_else(shared).map(|id| id.get())
}

/// The message with this name, such as `core/v1.PodSpec`.
pub fn message(name: &str) -> Option<&'static Message> {
    TABLE.by_name.get(name).map(|id| id.get())
}

/// The message with this name, which the table has.
fn named(name: &str) -> MessageId {
    TABLE.by_name[name]
}

/// Splits `apps/v1` into group and version; the core group's name is empty.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl MessageId {
    /// The message itself.
    pub fn get(self) -> &'static Message {
        let declared = &TABLE.messages[self.0 as usize];
        let parse = || parse::message(&TABLE.by_name, declared.text);
        declared.parsed.get_or_init(parse)
    }
}

impl Message {
    /// The field with this JSON name, in this message or one embedded in it.
    pub fn field(&self, json: &str) -> Option<&Field> {
        let (first, rest) = self.by_json.get(json)?.split_first()?;
        let mut field = &self.fields[usize::from(*first)];
        for at in rest {
            field = &field.message()?.fields[usize::from(*at)];
        }
        Some(field)
    }

    /// The field with this JSON name that belongs to the message itself, not to an embedded one.
    pub(crate) fn own(&self, json: &str) -> Option<&Field> {
        let named = |field: &&Field| field.name == json && field.number != 0;
        self.fields.iter().find(named)
    }

    /// The field with this protobuf number; embedded messages are not searched.
    pub fn numbered(&self, number: u32) -> Option<&Field> {
        let at = self.by_number.get(&number)?;
        Some(&self.fields[usize::from(*at)])
    }

    /// The fields that protobuf carries, by rising number.
    pub fn wire_fields(&self) -> impl Iterator<Item = &Field> {
        let order = self.wire_order.iter();
        order.map(|at| &self.fields[usize::from(*at)])
    }

    /// The type's name without its package, as in Go's messages.
    pub fn short_name(&self) -> &'static str {
        self.name
            .rsplit_once('.')
            .map_or(self.name, |(_, name)| name)
    }
}

impl Field {
    /// The message this field holds, directly or as the items of a list or map.
    pub fn message(&self) -> Option<&'static Message> {
        self.kind.message()
    }

    /// True if Go shows a missing value of this field as null.
    pub(crate) fn reads_null(&self) -> bool {
        let is_time = matches!(self.kind, Type::Time | Type::MicroTime);
        if is_time && !self.pointer {
            // A struct is never empty.
            return !self.omit_zero;
        }
        let nil = self.pointer
            || match &self.kind {
                Type::List(_) | Type::Map(_) | Type::Bytes => true,
                Type::Message(id) => id.get().list,
                _ => false,
            };
        nil && !self.omit_empty && !self.omit_zero
    }
}

impl Type {
    /// The message this type is, directly or as the items of a list or map.
    pub fn message(&self) -> Option<&'static Message> {
        match self {
            Type::Message(id) => Some(id.get()),
            Type::List(item) | Type::Map(item) => item.message(),
            _ => None,
        }
    }
}
