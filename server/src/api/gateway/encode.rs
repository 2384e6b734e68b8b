//! Converts a message's encoding to JSON as etcd prints it: field names as in the .proto files,
//! unset fields omitted, 64-bit integers as strings, bytes in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Buf as _;
use etcd_api::descriptor::{Field, Kind, Message};
use prost::encoding::{WireType, decode_key, decode_varint};

/// Deepest nesting of messages. An answer is no deeper than its request.
const DEPTH_MAX: usize = 200;

/// Bytes that are not a valid encoding of the expected message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<prost::DecodeError> for Malformed {
    fn from(_: prost::DecodeError) -> Malformed {
        Malformed
    }
}

/// How strings are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Escapes required by JSON.
    Json,
    /// Also escapes for HTML: Go does this where it prints more than the message alone.
    Html,
}

/// Appends the JSON of an encoded message.
pub(crate) fn encode(
    wire: &[u8],
    message: &Message,
    escape: Escape,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    nested(wire, message, escape, DEPTH_MAX, out)
}

/// Appends a string, quoted.
pub(crate) fn put_text(text: &str, escape: Escape, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for c in text.chars() {
        let html = escape == Escape::Html && matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
        match c {
            '"' | '\\' => out.extend([b'\\', c as u8]),
            '\x08' => out.extend(b"\\b"),
            '\x0c' => out.extend(b"\\f"),
            '\n' => out.extend(b"\\n"),
            '\r' => out.extend(b"\\r"),
            '\t' => out.extend(b"\\t"),
            _ if html || c < ' ' => {
                out.extend(b"\\u");
                for shift in [12, 8, 4, 0] {
                    out.push(DIGITS[(u32::from(c) >> shift) as usize & 15]);
                }
            }
            _ => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

/// A value on the wire.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

fn nested(
    wire: &[u8],
    message: &Message,
    escape: Escape,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let mut values = values(wire, message)?;
    // Go prints fields in the order of the .proto file. Repeated ones keep the order of the wire.
    values.sort_by_key(|(index, _)| *index);
    out.push(b'{');
    let mut first = true;
    for group in values.chunk_by(|(one, _), (other, _)| one == other) {
        let (index, last) = group[group.len() - 1];
        let field = &message.fields[index];
        if !field.repeated && field.oneof.is_none() && is_default(field, last) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        put_text(field.name, escape, out);
        out.push(b':');
        if !field.repeated {
            put(field, last, escape, depth, out)?;
            continue;
        }
        out.push(b'[');
        let mut first = true;
        for (_, value) in group {
            for value in unpacked(field, *value)? {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                put(field, value, escape, depth, out)?;
            }
        }
        out.push(b']');
    }
    out.push(b'}');
    Ok(())
}

/// All values of a message, each with its field's position in the .proto file. Unknown fields are
/// omitted.
fn values<'a>(mut wire: &'a [u8], message: &Message) -> Result<Vec<(usize, Value<'a>)>, Malformed> {
    let mut values = Vec::new();
    while !wire.is_empty() {
        let (number, wire_type) = decode_key(&mut wire)?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(decode_varint(&mut wire)?),
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut wire)?).map_err(|_| Malformed)?;
                let (bytes, rest) = wire.split_at_checked(length).ok_or(Malformed)?;
                wire = rest;
                Value::Bytes(bytes)
            }
            WireType::SixtyFourBit | WireType::ThirtyTwoBit => {
                // No known field has this wire type.
                let length = if wire_type == WireType::SixtyFourBit {
                    8
                } else {
                    4
                };
                if wire.len() < length {
                    return Err(Malformed);
                }
                wire.advance(length);
                continue;
            }
            WireType::StartGroup | WireType::EndGroup => return Err(Malformed),
        };
        if let Some((index, _)) = message.numbered(number) {
            values.push((index, value));
        }
    }
    Ok(values)
}

fn is_default(field: &Field, value: Value<'_>) -> bool {
    match value {
        Value::Varint(value) => value == 0,
        Value::Bytes(bytes) => bytes.is_empty() && !matches!(field.kind, Kind::Message(_)),
    }
}

/// The elements in one value of a repeated field: numbers may be packed.
fn unpacked<'a>(field: &Field, value: Value<'a>) -> Result<Vec<Value<'a>>, Malformed> {
    let scalar = !matches!(field.kind, Kind::Message(_) | Kind::String | Kind::Bytes);
    let mut packed = match value {
        Value::Bytes(bytes) if scalar => bytes,
        _ => return Ok(vec![value]),
    };
    let mut values = Vec::new();
    while !packed.is_empty() {
        values.push(Value::Varint(decode_varint(&mut packed)?));
    }
    Ok(values)
}

fn put(
    field: &Field,
    value: Value<'_>,
    escape: Escape,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    match (field.kind, value) {
        (Kind::Bool, Value::Varint(value)) => {
            out.extend(if value != 0 { &b"true"[..] } else { b"false" });
        }
        (Kind::Int32, Value::Varint(value)) => out.extend((value as i32).to_string().bytes()),
        (Kind::Uint32, Value::Varint(value)) => out.extend((value as u32).to_string().bytes()),
        (Kind::Int64, Value::Varint(value)) => {
            out.extend(format!("\"{}\"", value as i64).bytes());
        }
        (Kind::Uint64, Value::Varint(value)) => out.extend(format!("\"{value}\"").bytes()),
        (Kind::Enum(described), Value::Varint(value)) => match described.name(value as i32) {
            Some(name) => put_text(name, escape, out),
            None => out.extend((value as i32).to_string().bytes()),
        },
        (Kind::String, Value::Bytes(bytes)) => {
            let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
            put_text(text, escape, out);
        }
        (Kind::Bytes, Value::Bytes(bytes)) => put_base64(bytes, out),
        (Kind::Message(message), Value::Bytes(bytes)) => {
            nested(bytes, message, escape, depth, out)?;
        }
        _ => return Err(Malformed),
    }
    Ok(())
}

fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    // Four bytes for every three, rounded up.
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    out.truncate(start + written.unwrap_or_default());
    out.push(b'"');
}
