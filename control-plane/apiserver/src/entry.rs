//! An object as the store has it: decoded once, written as JSON at most once, shared by all.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use machinery::status::Status;
use machinery::{defaults, object, protobuf};
use serde_json::Value;

use crate::catalogue::Storage;

/// One object of one revision, in the version that is stored.
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    /// Of its last change; for a deleted object of the deletion.
    pub(crate) revision: i64,
    pub(crate) object: Arc<Value>,
    json: OnceLock<Bytes>,
}

impl Entry {
    /// Takes an object whose `resourceVersion` is set to this revision; 0 is for one that is not
    /// stored, and has none.
    pub(crate) fn new(key: Arc<str>, revision: i64, mut object: Value) -> Entry {
        match revision {
            0 => drop(object::metadata_mut(&mut object).remove("resourceVersion")),
            revision => object::set_resource_version(&mut object, revision),
        }
        Entry {
            key,
            revision,
            object: Arc::new(object),
            json: OnceLock::new(),
        }
    }

    /// Reads what the store holds: protobuf or JSON, whichever it is.
    pub(crate) fn decode(
        storage: &'static Storage,
        key: &str,
        value: &[u8],
        revision: i64,
    ) -> Result<Entry, Status> {
        let object = match value.starts_with(&protobuf::MAGIC) {
            true => protobuf::decode_as(value, storage.kind.message()).map_err(|e| e.to_string()),
            false => serde_json::from_slice(value).map_err(|error| error.to_string()),
        };
        let mut object: Value = object.map_err(|why| {
            Status::internal(&format!(
                "the store's {key:?} of revision {revision}: {why}"
            ))
        })?;
        defaults::name_kinds(storage.kind.group, storage.kind.kind, &mut object);
        Ok(Entry::new(key.into(), revision, object))
    }

    /// The same object at another revision: what a watch shows of a deleted one.
    pub(crate) fn at(&self, revision: i64) -> Entry {
        Entry::new(Arc::clone(&self.key), revision, Value::clone(&self.object))
    }

    /// The object as JSON.
    pub(crate) fn json(&self) -> &Bytes {
        self.json.get_or_init(|| to_json(&self.object))
    }
}

/// What the store gets: no `resourceVersion`, which it keeps itself.
pub(crate) fn encode(storage: &Storage, object: &Value) -> Result<Vec<u8>, Status> {
    let mut object = object.clone();
    let metadata = object::metadata_mut(&mut object);
    metadata.remove("resourceVersion");
    metadata.remove("selfLink");
    object::set_type(&mut object, &storage.kind.api_version(), storage.kind.kind);
    if storage.json {
        return Ok(to_json(&object).to_vec());
    }
    protobuf::encode(&object).map_err(|error| Status::internal(&error.to_string()))
}

/// A value as bytes of JSON.
pub(crate) fn to_json(value: &Value) -> Bytes {
    let mut bytes = Vec::with_capacity(1024);
    // Writing into memory fails only for maps with keys that are no text: there are none.
    let _ = serde_json::to_writer(&mut bytes, value);
    bytes.into()
}
