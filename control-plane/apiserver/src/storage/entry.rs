//! An object as the store has it: decoded once, written as JSON at most once, shared by all.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use machinery::status::Status;
use machinery::{defaults, object, protobuf};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use crate::resources::catalogue::Storage;

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
    let _ = serde_json::to_writer(&mut bytes, &InOrder(value));
    bytes.into()
}

/// An object that begins with what it is, and a Status in the order of Kubernetes' own, as people
/// and scripts expect them.
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
