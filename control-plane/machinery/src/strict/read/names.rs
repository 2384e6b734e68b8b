//! The names of types in Go, which its errors show.

use std::fmt::Write as _;

use crate::schema::Type;

/// The type that an error names.
pub(super) enum Name {
    /// The type itself.
    Plain(String),
    /// What a type is read as that has a decoder of its own.
    ReadAs(&'static str),
}

/// The name of a type in errors about its values.
pub(super) fn expected(kind: &Type) -> Name {
    match kind {
        Type::Time | Type::MicroTime | Type::Duration => Name::ReadAs("string"),
        // Anything but a string is a number to it.
        Type::IntOrString => Name::ReadAs("int32"),
        kind => Name::Plain(go_type(kind)),
    }
}

/// The name of a type in Go.
fn go_type(kind: &Type) -> String {
    let name = match kind {
        Type::String(None) => "string",
        Type::String(Some(name)) => go_name(name),
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Float64 => "float64",
        Type::Bytes => "[]uint8",
        Type::Message(id) => go_name(id.get().name),
        Type::Time => "v1.Time",
        Type::MicroTime => "v1.MicroTime",
        Type::Duration => "v1.Duration",
        Type::Quantity => "resource.Quantity",
        Type::IntOrString => "intstr.IntOrString",
        Type::List(item) => return format!("[]{}", go_type(item)),
        Type::Map(item) => {
            let mut text = String::from("map[string]");
            let _ = write!(text, "{}", go_type(item));
            return text;
        }
        _ => "runtime.RawExtension",
    };
    name.to_owned()
}

/// The Go name of a message: `core/v1.PodSpec` is `v1.PodSpec`.
pub(super) fn go_name(name: &'static str) -> &'static str {
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}
