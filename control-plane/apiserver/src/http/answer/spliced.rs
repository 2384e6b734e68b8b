//! Responses made of stored bytes, without decoding objects whose form is already there.
//!
//! Every function here returns `None` for what it cannot make: YAML, tables with whole objects,
//! kinds whose served version is not the stored one, and objects without a canonical form in
//! protobuf. The slower path over decoded objects gives the same bytes, with one exception: here
//! the items of plain lists in JSON begin with their kind, as single objects do.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use machinery::protobuf::splice;
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::basics::clock;
use crate::http::answer::pieces::{Around, Pieces};
use crate::http::answer::shown::{Include, ListMeta, Shown};
use crate::http::answer::table::{self, Room};
use crate::http::media::{Encoding, Form};
use crate::registry::strategy;
use crate::resources::convert;
use crate::storage::stored::{Stored, Text};

const META: &str = "meta.k8s.io/v1";
const META_BETA: &str = "meta.k8s.io/v1beta1";
const ONLY_METADATA: &str = "PartialObjectMetadata";

/// The end of a list or a table in JSON. A response ends with a newline, as in Go.
const JSON_END: &[u8] = b"]}\n";

type Made = Option<Result<Bytes, Status>>;

/// A stored object.
pub(crate) fn object(shown: &Shown, stored: &Stored) -> Made {
    watched(shown, stored, true)
}

/// A stored object in a watch. If `columns`, a table includes its column definitions.
pub(crate) fn watched(shown: &Shown, stored: &Stored, columns: bool) -> Made {
    if !is_possible(shown) {
        return None;
    }
    match (shown.accept.encoding, shown.accept.form) {
        (Encoding::Json, Form::Object) => Some(stored.text().map(|text| text.bytes)),
        (Encoding::Protobuf, Form::Object) => Some(Ok(stored.protobuf()?.clone())),
        (Encoding::Json, Form::Metadata) => Some(stored.text().map(|text| {
            let mut out = head(ONLY_METADATA, meta_version(shown));
            out.extend_from_slice(text.metadata());
            out.push(b'}');
            out.into()
        })),
        (Encoding::Protobuf, Form::Metadata) => Some(stored.canonical()?.and_then(|canonical| {
            let raw = canonical.raw_metadata().map_err(internal)?;
            Ok(splice::envelope(meta_version(shown), ONLY_METADATA, raw).into())
        })),
        (Encoding::Json, Form::Table) => {
            let metadata = json!({"resourceVersion": stored.revision.to_string()});
            table(shown, stored, metadata, columns)
        }
        _ => None,
    }
}

/// A list of stored objects, as the whole body of a response.
pub(crate) fn list(
    shown: &Shown,
    all: &[Arc<Stored>],
    meta: &ListMeta,
) -> Option<Result<Pieces, Status>> {
    if !is_possible(shown) {
        return None;
    }
    let metadata = meta.to_value();
    match (shown.accept.encoding, shown.accept.form) {
        (Encoding::Json, Form::Object) => {
            let kind = &shown.resource.kind;
            let begin = head(kind.list_kind(), &kind.api_version());
            let metadata = meta.of_list(&shown.resource);
            let around = Around::Json {
                before: String::new(),
                after: "",
            };
            Some(texts(begin, &metadata, all, around, |text| text.bytes))
        }
        (Encoding::Json, Form::Metadata) => {
            let version = meta_version(shown);
            let begin = head("PartialObjectMetadataList", version);
            let around = Around::Json {
                before: partial(version),
                after: "}",
            };
            Some(texts(begin, &metadata, all, around, |text| {
                text.bytes.slice_ref(text.metadata())
            }))
        }
        (Encoding::Json, Form::Table) => {
            let table = rows(shown, all, metadata, true)?;
            Some(table.map(|table| Pieces::whole(table, JSON_END)))
        }
        (Encoding::Protobuf, form) => raws(shown, form, all, &metadata),
        _ => None,
    }
}

/// True if the kind is served as it is stored, in an encodable form. The older version of metadata
/// has no protobuf form; the slower path reports that.
///
/// Some annotations are those of whole objects alone, and the bytes have them.
fn is_possible(shown: &Shown) -> bool {
    let accept = shown.accept;
    let of_whole = strategy::of(&shown.resource).annotations_of_whole;
    if accept.form != Form::Object && !of_whole.is_empty() {
        return false;
    }
    convert::is_same(&shown.resource) && !(accept.beta && accept.encoding == Encoding::Protobuf)
}

/// A list in protobuf.
fn raws(
    shown: &Shown,
    form: Form,
    all: &[Arc<Stored>],
    metadata: &Value,
) -> Option<Result<Pieces, Status>> {
    let mut items = Vec::with_capacity(all.len());
    for stored in all {
        let raw = match stored.canonical()? {
            Ok(canonical) => match form {
                Form::Object => Ok(canonical.raw()),
                Form::Metadata => canonical.raw_metadata().map_err(internal),
                Form::Table => return None,
            },
            Err(error) => Err(error),
        };
        match raw {
            Ok(raw) => items.push(stored.protobuf()?.slice_ref(raw)),
            Err(error) => return Some(Err(error)),
        }
    }
    let kind = &shown.resource.kind;
    let (version, kind) = match form {
        Form::Object => (kind.api_version(), kind.list_kind().to_owned()),
        _ => (
            meta_version(shown).to_owned(),
            format!("{ONLY_METADATA}List"),
        ),
    };
    let lengths = items.iter().map(Bytes::len);
    let list = splice::list((&version, &kind), metadata, lengths);
    let pieces = list.map(|(begin, end)| Pieces::of(begin, items, Around::Protobuf, end));
    Some(pieces.map_err(internal))
}

/// A table without whole objects.
fn table(shown: &Shown, stored: &Stored, metadata: Value, columns: bool) -> Made {
    let made = rows(shown, std::slice::from_ref(stored), metadata, columns)?;
    Some(made.map(|mut table| {
        table.extend_from_slice(b"]}");
        table.into()
    }))
}

/// A table without whole objects, up to its last row.
fn rows<S: AsRef<Stored>>(
    shown: &Shown,
    all: &[S],
    metadata: Value,
    columns: bool,
) -> Option<Result<Vec<u8>, Status>> {
    let begin = match shown.include {
        Include::None => None,
        Include::Metadata => Some(partial(meta_version(shown))),
        Include::Object => return None,
    };
    let columns = if columns {
        table::columns(&shown.resource).into()
    } else {
        Value::Null
    };
    let (now, mut room) = (clock::now(), Room::default());
    let mut out = head("Table", meta_version(shown));
    out.extend_from_slice(
        format!("{metadata},\"columnDefinitions\":{columns},\"rows\":[").as_bytes(),
    );
    for (at, stored) in all.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let (stored, begin) = (stored.as_ref(), begin.as_deref());
        if let Err(error) = row(shown, stored, begin, now, &mut room, &mut out) {
            return Some(Err(error));
        }
    }
    Some(Ok(out))
}

/// A row; with metadata if `begin` has its first bytes.
fn row(
    shown: &Shown,
    stored: &Stored,
    begin: Option<&str>,
    now: Timestamp,
    room: &mut Room,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    out.extend_from_slice(b"{\"cells\":");
    let mut make = |object: &Value| table::cells(&shown.resource, object, room);
    if shown.resource.custom.is_some() {
        // A definition changes its columns while its objects stay.
        make(&stored.decode()?).write(out, now);
    } else {
        stored.with_cells(make, |cells| cells.write(out, now))?;
    }
    out.extend_from_slice(b",\"object\":");
    match begin {
        Some(begin) => {
            out.extend_from_slice(begin.as_bytes());
            out.extend_from_slice(stored.text()?.metadata());
            out.push(b'}');
        }
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
    Ok(())
}

/// A list as text, from a part of the text of each item.
fn texts(
    mut begin: Vec<u8>,
    metadata: &Value,
    all: &[Arc<Stored>],
    around: Around,
    part: impl Fn(Text) -> Bytes,
) -> Result<Pieces, Status> {
    begin.extend_from_slice(format!("{metadata},\"items\":[").as_bytes());
    let items = all.iter().map(|stored| Ok(part(stored.text()?)));
    let items = items.collect::<Result<Vec<_>, Status>>()?;
    Ok(Pieces::of(begin, items, around, JSON_END))
}

/// The first bytes of an object, up to its metadata.
fn head(kind: &str, api_version: &str) -> Vec<u8> {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":").into_bytes()
}

/// The first bytes of metadata inside another value, with keys in alphabetical order.
fn partial(api_version: &str) -> String {
    format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{ONLY_METADATA}\",\"metadata\":")
}

fn meta_version(shown: &Shown) -> &'static str {
    if shown.accept.beta { META_BETA } else { META }
}

fn internal(error: machinery::protobuf::Error) -> Status {
    Status::internal(&error.to_string())
}

impl AsRef<Stored> for Stored {
    fn as_ref(&self) -> &Stored {
        self
    }
}
