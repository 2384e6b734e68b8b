//! An object as requests use it: decoded, with its encodings for the store and as JSON.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use machinery::status::Status;
use machinery::{defaults, object, protobuf};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use crate::resources::catalogue::Storage;
use crate::storage::stored::Stored;

/// One object at one revision, in the version that is stored.
pub(crate) struct Entry {
    /// Revision of the last change; for a deleted object, of the deletion.
    pub(crate) revision: i64,
    pub(crate) object: Arc<Value>,
    /// Where it was read; `None` for an object that a request made.
    pub(crate) source: Option<Arc<Stored>>,
}

impl Entry {
    /// Takes an object and sets its `resourceVersion` to the revision. Revision 0 is for an object
    /// that is not stored: it gets none.
    pub(crate) fn new(revision: i64, mut object: Value) -> Entry {
        match revision {
            0 => drop(object::metadata_mut(&mut object).remove("resourceVersion")),
            revision => object::set_resource_version(&mut object, revision),
        }
        Entry {
            revision,
            object: Arc::new(object),
            source: None,
        }
    }

    /// True if the store has it in another version than it would be written in now, or sealed
    /// otherwise, and the object does not show that.
    pub(crate) fn is_outdated(&self) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|stored| stored.is_outdated())
    }

    /// Decodes a value of the store, protobuf or JSON. Also returns the `apiVersion` that it was
    /// written in, of custom resources.
    pub(crate) fn decode(
        storage: &Storage,
        key: &str,
        value: &[u8],
        revision: i64,
    ) -> Result<(Entry, Option<Box<str>>), Status> {
        let object = if value.starts_with(&protobuf::MAGIC) {
            protobuf::decode_as(value, storage.kind.message()).map_err(|e| e.to_string())
        } else {
            serde_json::from_slice(value).map_err(|error| error.to_string())
        };
        let mut object: Value = object.map_err(|why| {
            Status::internal(&format!(
                "the store's {key:?} of revision {revision}: {why}"
            ))
        })?;
        let mut written_in = None;
        if storage.custom {
            written_in = Some(object::api_version(&object).into());
        }
        if storage.custom && !storage.keeps_version {
            // It may have been stored in a version that was the stored one before.
            object::set_type(
                &mut object,
                &storage.kind.api_version(),
                storage.kind.kind(),
            );
        }
        defaults::name_kinds(storage.kind.group(), storage.kind.kind(), &mut object);
        Ok((Entry::new(revision, object), written_in))
    }
}

/// Encodes an object for the store, without `resourceVersion`: the store counts revisions itself.
/// Objects whose versions have different fields are stored in the version that they have: a deletion
/// marks an object in the version that it was stored in, and needs no conversion.
pub(crate) fn encode(storage: &Storage, object: &Value) -> Result<Vec<u8>, Status> {
    let mut object = object.clone();
    let metadata = object::metadata_mut(&mut object);
    metadata.remove("resourceVersion");
    metadata.remove("selfLink");
    if !storage.keeps_version {
        object::set_type(&mut object, &storage.stored_in(), storage.kind.kind());
    }
    if storage.json {
        return Ok(to_json(&object).to_vec());
    }
    protobuf::encode(&object).map_err(|error| Status::internal(&error.to_string()))
}

/// Encodes a value as JSON.
pub(crate) fn to_json(value: &Value) -> Bytes {
    let mut bytes = Vec::with_capacity(1024);
    // Writing into memory fails only for maps with keys that are not strings, and there are none.
    let _ = serde_json::to_writer(&mut bytes, &InOrder(value));
    bytes.into()
}

/// Encodes an object as JSON. The range is the value of its metadata, empty if it has none.
pub(crate) fn to_json_with_metadata(object: &Value) -> (Bytes, Range<usize>) {
    let bytes = to_json(object);
    let Some(metadata) = object.get("metadata") else {
        return (bytes, 0..0);
    };
    // The kind and the version come before the metadata, in this order, if the object has them.
    let before = ["kind", "apiVersion"].iter().filter_map(|key| {
        let value = object.get(*key)?;
        Some(format!("\"{key}\":{value},").len())
    });
    let begin = "{\"metadata\":".len() + before.sum::<usize>();
    let length = metadata.to_string().len();
    (bytes, begin..begin + length)
}

/// Writes an object with kind and version first, and a Status in the order of Kubernetes' fields,
/// as people and scripts expect.
struct InOrder<'a>(&'a Value);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
        const OF_STATUS: [&str; 5] = ["status", "message", "reason", "details", "code"];
        let Value::Object(object) = self.0 else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(object.len()))?;
        let is_status = object.get("kind").is_some_and(|kind| kind == "Status");
        let rest: &[&str] = if is_status { &OF_STATUS } else { &[] };
        for key in FIRST.iter().chain(rest).copied() {
            if let Some(value) = object.get(key) {
                map.serialize_entry(key, value)?;
            }
        }
        for (key, value) in object
            .iter()
            .filter(|(key, _)| !FIRST.contains(&key.as_str()) && !rest.contains(&key.as_str()))
        {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
