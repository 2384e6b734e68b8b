//! Parses the text of the table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::{
    Declared, Field, Kind, ListType, Message, MessageId, Names, Patch, Scope, Subresource, Table,
    Type,
};

/// Lists in which Kubernetes looks for the difference between an empty one and a missing one. Elsewhere
/// nobody sees it.
const KEEP_EMPTY: [(&str, &str); 3] = [
    ("autoscaling/v2.HPAScalingRules", "policies"),
    ("core/v1.ResourceQuotaSpec", "scopes"),
    ("networking/v1.ServiceCIDRSpec", "cidrs"),
];

/// What [`super::OPEN`] would be in the text.
const OPEN_TEXT: &str =
    "unstructured.Unstructured typed open\nF metadata 0 meta/v1.ObjectMeta omitempty";

/// Parses all but the messages; panics on a line that does not parse, which is a bug of the generator.
pub(super) fn table(text: &'static str) -> Table {
    let mut parts = text.split("\nT ");
    let kinds = parts.next().unwrap_or_default();
    let mut table = Table {
        kinds: Vec::new(),
        messages: Vec::new(),
        by_gvk: HashMap::new(),
        by_gvr: HashMap::new(),
        by_name: HashMap::new(),
        bodies: HashMap::new(),
    };
    for text in parts.chain([OPEN_TEXT]) {
        let id = MessageId(u32::try_from(table.messages.len()).unwrap_or(u32::MAX));
        let name = text.split([' ', '\n']).next().unwrap_or_default();
        table.by_name.insert(name, id);
        table.messages.push(Declared {
            text,
            parsed: OnceLock::new(),
        });
    }
    let mut version = ("", "", 0);
    for line in kinds.lines() {
        let Some((letter, rest)) = line.split_once(' ') else {
            continue;
        };
        let words: Vec<&'static str> = rest.split(' ').collect();
        match letter {
            "V" => version = (word(words[0]), words[1], words[2].parse().unwrap_or(0)),
            "R" => table.kind(version, &words),
            "S" => table.subresource(&words),
            "K" => {
                let id = table.by_name[words[3]];
                table
                    .bodies
                    .insert((word(words[0]), words[1], words[2]), id);
            }
            _ => {}
        }
    }
    table
}

/// Parses the lines of a message.
pub(super) fn message(names: &HashMap<&'static str, MessageId>, text: &'static str) -> Message {
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let name = words.next().unwrap_or_default();
    let flags: Vec<&str> = words.collect();
    let lines = lines.filter_map(|line| line.strip_prefix("F "));
    let mut fields: Vec<Field> = lines.map(|line| field(names, line)).collect();
    for field in &mut fields {
        field.keeps_empty = KEEP_EMPTY.contains(&(name, field.name));
    }
    let mut by_json = HashMap::new();
    spread(&fields, &mut Vec::new(), &mut by_json);
    let numbered = || (0..fields.len()).filter(|at| fields[*at].number != 0);
    let mut wire_order: Vec<u16> = numbered().map(place).collect();
    wire_order.sort_by_key(|at| fields[usize::from(*at)].number);
    Message {
        name,
        atomic: flags.contains(&"atomic"),
        typed: flags.contains(&"typed"),
        list: flags.contains(&"list"),
        open: flags.contains(&"open"),
        by_json,
        by_number: numbered()
            .map(|at| (fields[at].number, place(at)))
            .collect(),
        wire_order,
        fields,
    }
}

/// Indexes fields by JSON name, including those of embedded messages.
fn spread(fields: &[Field], path: &mut Vec<u16>, into: &mut HashMap<&'static str, Vec<u16>>) {
    for (at, field) in fields.iter().enumerate() {
        path.push(place(at));
        match (&field.kind, field.inline) {
            (Type::Message(id), true) => spread(&id.get().fields, path, into),
            _ => {
                into.insert(field.name, path.clone());
            }
        }
        path.pop();
    }
}

impl Table {
    fn kind(&mut self, version: (&'static str, &'static str, u32), words: &[&'static str]) {
        let (group, version, priority) = version;
        let (plural, name) = (words[0], words[2]);
        let owned = |words| list(words).into_iter().map(Cow::Borrowed).collect();
        let kind = Kind {
            group: group.into(),
            version: version.into(),
            names: Names {
                kind: name.into(),
                list_kind: format!("{name}List").into(),
                plural: plural.into(),
                singular: words[1].into(),
                short_names: owned(words[5]),
                categories: owned(words[6]),
            },
            scope: match words[3] {
                "Namespaced" => Scope::Namespaced,
                _ => Scope::Cluster,
            },
            verbs: list(words[4]),
            subresources: Vec::new(),
            priority,
            message: self.by_name[words[7]],
        };
        let at = self.kinds.len();
        self.by_gvk.insert((group, version, name), at);
        self.by_gvr.insert((group, version, plural), at);
        self.kinds.push(Arc::new(kind));
    }

    fn subresource(&mut self, words: &[&'static str]) {
        let mut of = words[1].split('/');
        let mut next = || of.next().unwrap_or_default();
        let sub = Subresource {
            name: words[0],
            group: next().into(),
            version: next().into(),
            kind: next().into(),
            verbs: list(words[2]),
            message: self.by_name[words[3]],
        };
        let owner = self.kinds.last_mut().and_then(Arc::get_mut);
        owner
            .expect("a subresource follows its kind, which nobody shares yet")
            .subresources
            .push(sub);
    }
}

fn field(names: &HashMap<&'static str, MessageId>, line: &'static str) -> Field {
    let (line, default) = match line.split_once(" default=") {
        Some((line, default)) => (line, serde_json::from_str(default).ok()),
        None => (line, None),
    };
    let words: Vec<&'static str> = line.split(' ').collect();
    let mut field = Field {
        name: words[0],
        number: words[1].parse().unwrap_or(0),
        kind: type_of(names, words[2]),
        pointer: false,
        omit_empty: false,
        omit_zero: false,
        keeps_empty: false,
        inline: false,
        required: false,
        patch: Patch::default(),
        list: ListType::Unset,
        list_keys: Vec::new(),
        default,
    };
    for flag in &words[3..] {
        match flag.split_once('=').unwrap_or((flag, "")) {
            ("ptr", _) => field.pointer = true,
            ("omitempty", _) => field.omit_empty = true,
            ("omitzero", _) => field.omit_zero = true,
            ("inline", _) => field.inline = true,
            ("required", _) => field.required = true,
            ("key", key) => field.patch.merge_key = key,
            ("keys", keys) => field.list_keys = list(keys),
            ("list" | "map", "atomic") => field.list = ListType::Atomic,
            ("list", "set") => field.list = ListType::Set,
            ("list", "map") => field.list = ListType::Map,
            ("patch", strategy) => {
                field.patch.merge = strategy.contains("merge");
                field.patch.replace = strategy.contains("replace");
                field.patch.retain_keys = strategy.contains("retainKeys");
            }
            _ => {}
        }
    }
    field
}

fn type_of(names: &HashMap<&'static str, MessageId>, text: &'static str) -> Type {
    if let Some(item) = text.strip_prefix("[]") {
        return Type::List(Box::new(type_of(names, item)));
    }
    if let Some(item) = text.strip_prefix("map:") {
        return Type::Map(Box::new(type_of(names, item)));
    }
    if let Some(name) = text.strip_prefix("string:") {
        return Type::String(Some(name));
    }
    match text {
        "string" => Type::String(None),
        "bool" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "float64" => Type::Float64,
        "bytes" => Type::Bytes,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "duration" => Type::Duration,
        "quantity" => Type::Quantity,
        "intorstring" => Type::IntOrString,
        "raw" => Type::Raw,
        "fieldsv1" => Type::Fields,
        "json" => Type::Json,
        "schema-or-array" => Type::SchemaOrArray,
        "schema-or-bool" => Type::SchemaOrBool,
        "schema-or-strings" => Type::SchemaOrStrings,
        name => Type::Message(names[name]),
    }
}

fn list(words: &'static str) -> Vec<&'static str> {
    match words {
        "-" => Vec::new(),
        words => words.split(',').collect(),
    }
}

fn word(word: &'static str) -> &'static str {
    if word == "-" { "" } else { word }
}

/// No type has more than a few dozen fields.
fn place(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}
