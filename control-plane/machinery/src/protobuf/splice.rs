//! Canonical bytes read and changed in place: what a cache needs of an object without decoding it.

use serde_json::Value;

use super::decode::Decoder;
use super::wire::{Envelope, Fields, HEAD_BYTES_MAX, Raw, bytes_field_len, put_bytes};
use super::{Error, canonical, wire};
use crate::schema::{self, Message, Type};

/// `metadata`, which is the first field of every object.
const METADATA: u32 = 1;
/// `metadata.resourceVersion`.
const RESOURCE_VERSION: u32 = 6;
/// `metadata.labels`.
const LABELS: u32 = 11;
/// `items` of every list; its `metadata` is its first field.
const ITEMS: u32 = 2;

/// The bytes of an object, with its envelope, that decode to an object which encodes to them.
///
/// Made by [`Canonical::with_version`] alone, which checks it.
#[derive(Debug, Clone, Copy)]
pub struct Canonical<'a> {
    envelope: Envelope<'a>,
    metadata: &'a [u8],
}

impl<'a> Canonical<'a> {
    /// Writes the resource version into a body of this kind, if the body is canonical: then the
    /// answer is what [`super::encode`] writes for the decoded object with that resource version.
    pub fn with_version(
        body: &[u8],
        (api_version, kind): (&str, &str),
        message: &'static Message,
        version: &str,
    ) -> Option<Vec<u8>> {
        let envelope = Envelope::read(body).ok()?;
        let named = (envelope.api_version, envelope.kind) == (api_version, kind);
        let exact = envelope.write() == body;
        if !named || !exact || !canonical::is_canonical(message, envelope.raw) {
            return None;
        }
        Canonical::trusted(body).ok()?.at(version).ok()
    }

    /// Reads a body that `with_version` or `at` made.
    pub fn trusted(body: &'a [u8]) -> Result<Canonical<'a>, Error> {
        let envelope = Envelope::read(body)?;
        match Fields::new(envelope.raw).next()? {
            Some((METADATA, Raw::Bytes(metadata))) => Ok(Canonical { envelope, metadata }),
            _ => Err(wire::malformed("metadata")),
        }
    }

    /// The same body with another resource version.
    pub fn at(&self, version: &str) -> Result<Vec<u8>, Error> {
        let mut metadata = Vec::with_capacity(self.metadata.len() + HEAD_BYTES_MAX + version.len());
        let mut fields = Fields::new(self.metadata);
        let mut before = self.metadata;
        while let Some((number, _)) = fields.next()? {
            let after = fields.rest();
            if number == RESOURCE_VERSION {
                metadata.extend_from_slice(&self.metadata[..self.metadata.len() - before.len()]);
                put_bytes(&mut metadata, RESOURCE_VERSION, version.as_bytes());
                metadata.extend_from_slice(after);
            }
            before = after;
        }
        let mut of_raw = Fields::new(self.envelope.raw);
        of_raw.next()?;
        let mut raw = Vec::with_capacity(metadata.len() + of_raw.rest().len() + HEAD_BYTES_MAX);
        put_bytes(&mut raw, METADATA, &metadata);
        raw.extend_from_slice(of_raw.rest());
        Ok(Envelope {
            raw: &raw,
            ..self.envelope
        }
        .write())
    }

    /// The object's own bytes: what a list holds as an item.
    pub fn raw(&self) -> &'a [u8] {
        self.envelope.raw
    }

    /// The first of them, which are those of an object with this metadata and nothing else.
    pub fn raw_metadata(&self) -> Result<&'a [u8], Error> {
        let mut fields = Fields::new(self.envelope.raw);
        fields.next()?;
        let length = self.envelope.raw.len() - fields.rest().len();
        Ok(&self.envelope.raw[..length])
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        let mut fields = Fields::new(self.metadata);
        while let Ok(Some((number, raw))) = fields.next() {
            let (LABELS, Raw::Bytes(entry)) = (number, raw) else {
                continue;
            };
            let mut entry = Fields::new(entry);
            if let (Ok(Some((1, Raw::Bytes(label)))), Ok(Some((2, Raw::Bytes(value))))) =
                (entry.next(), entry.next())
                && label == key.as_bytes()
            {
                return std::str::from_utf8(value).ok();
            }
        }
        None
    }

    /// A plain value at a path, as JSON shows it; `None` when JSON does not show it.
    pub fn value(&self, message: &'static Message, path: &[&str]) -> Option<Value> {
        let (last, above) = path.split_last()?;
        let (mut of, mut bytes) = (message, self.envelope.raw);
        for name in above {
            let field = of.own(name)?;
            let Type::Message(id) = &field.kind else {
                return None;
            };
            let Raw::Bytes(inner) = find(bytes, field.number)? else {
                return None;
            };
            (of, bytes) = (id.get(), inner);
        }
        let field = of.own(last)?;
        if matches!(field.kind, Type::List(_) | Type::Map(_)) {
            return None;
        }
        let raw = find(bytes, field.number)?;
        let value = Decoder::new().value(&field.kind, raw).ok()?;
        let hidden = field.omit_empty && !field.pointer && crate::schema::zero::is_empty(&value);
        (!hidden).then_some(value)
    }
}

/// What stands before and after the items of a list, which have these lengths: the envelope and the
/// list's metadata. The items are written by [`put_item`].
pub fn list(
    (api_version, kind): (&str, &str),
    metadata: &Value,
    lengths: impl Iterator<Item = usize>,
) -> Result<(Vec<u8>, &'static [u8]), Error> {
    let of = schema::message("meta/v1.ListMeta").ok_or_else(|| Error::new("no ListMeta"))?;
    let metadata = super::encode_message(metadata, of)?;
    let of_items: usize = lengths.map(item_length).sum();
    let length = bytes_field_len(METADATA, metadata.len()) + of_items;
    let mut begin = Envelope::open((api_version, kind), length);
    put_bytes(&mut begin, METADATA, &metadata);
    Ok((begin, Envelope::END))
}

/// Writes an item of a list.
pub fn put_item(out: &mut Vec<u8>, item: &[u8]) {
    put_bytes(out, ITEMS, item);
}

/// The bytes that [`put_item`] writes for an item of this length.
pub fn item_length(length: usize) -> usize {
    bytes_field_len(ITEMS, length)
}

/// Writes the envelope around the bytes of an object.
pub fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    Envelope {
        api_version,
        kind,
        raw,
    }
    .write()
}

/// The field of this number: in canonical bytes there is one at most, but for lists and maps.
fn find(bytes: &[u8], wanted: u32) -> Option<Raw<'_>> {
    let mut fields = Fields::new(bytes);
    while let Ok(Some((number, raw))) = fields.next() {
        if number == wanted {
            return Some(raw);
        }
    }
    None
}
