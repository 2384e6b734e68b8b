//! An object as requests use it: decoded, with its encodings for the store and as JSON.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use machinery::conversion::older;
use machinery::status::Status;
use machinery::{apply, defaults, object, protobuf, schema};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use crate::resources::catalogue::Storage;
use crate::resources::hidden::Hidden;
use crate::storage::stored::Stored;

/// A smaller value cannot have more parts than the decoder takes.
const SURELY_READABLE_BYTES: usize = 100_000;

/// One object at one revision, in the version that is stored.
pub(crate) struct DecodedObject {
    /// Revision of the last change; for a deleted object, of the deletion.
    pub(crate) revision: i64,
    pub(crate) object: Arc<Value>,
    /// Where it was read; `None` for an object that a request made.
    pub(crate) source: Option<Arc<Stored>>,
}

/// A value of the store, decoded.
pub(crate) struct DecodedValue {
    pub(crate) object: DecodedObject,
    /// The `apiVersion` that it was written in, of custom resources and if the object has another.
    pub(crate) written_in: Option<Box<str>>,
    /// The store has other fields than the object.
    pub(crate) is_renewed: bool,
}

impl DecodedObject {
    /// Takes an object and sets its `resourceVersion` to the revision. Revision 0 is for an object
    /// that is not stored: it shows what the request said.
    pub(crate) fn new(revision: i64, mut object: Value) -> DecodedObject {
        if revision != 0 {
            object::set_resource_version(&mut object, revision);
        }
        DecodedObject {
            revision,
            object: Arc::new(object),
            source: None,
        }
    }

    /// The same for an object that was written at this revision: as it would be read now. A custom
    /// resource has defaults even where the write took something away, such as its status.
    pub(crate) fn written(storage: &Storage, revision: i64, mut object: Value) -> DecodedObject {
        if let Some(schema) = storage.schema(object::api_version(&object)) {
            schema.default(&mut object);
        }
        DecodedObject::new(revision, object)
    }

    /// The same without what is not shown.
    pub(crate) fn shown(self: Arc<Self>, storage: &Storage) -> Arc<DecodedObject> {
        let hides = |hidden: &Hidden| hidden.is_by(object::at(&self.object, hidden.by.0));
        let Some(hidden) = storage.hidden.filter(hides) else {
            return self;
        };
        let mut object = Value::clone(&self.object);
        hidden.take(&mut object);
        Arc::new(DecodedObject {
            revision: self.revision,
            object: Arc::new(object),
            source: self.source.clone(),
        })
    }

    /// True if the store has it in another version or with other fields than it would be written
    /// now, or sealed otherwise, and the object does not show that.
    pub(crate) fn is_outdated(&self) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|stored| stored.is_outdated())
    }

    /// Decodes a value of the store, protobuf or JSON. A custom resource has the fields and defaults
    /// of the present schema, whichever it was written with; no defaults if they are too large.
    pub(crate) fn decode(
        storage: &Storage,
        key: &str,
        value: &[u8],
        revision: i64,
    ) -> Result<DecodedValue, Status> {
        let damaged = |why: String| {
            Status::internal(&format!(
                "the store's {key:?} of revision {revision}: {why}"
            ))
        };
        let mut object = parse(storage, value).map_err(damaged)?;
        let (mut written_in, mut is_renewed) = (None, false);
        if storage.custom {
            written_in = Some(object::api_version(&object).into());
            let schema = storage.schema(object::api_version(&object));
            is_renewed = schema.is_some_and(|schema| schema.renew(&mut object));
        }
        if storage.custom && !storage.keeps_version {
            // It may have been stored in a version that was the stored one before.
            object::set_type(
                &mut object,
                &storage.kind.api_version(),
                storage.kind.kind(),
            );
        }
        if let Some(conversion) = storage.conversion
            && object::api_version(&object) == &*storage.stored_in()
        {
            written_in = Some(object::api_version(&object).into());
            (conversion.to_served)(&mut object);
            object::set_type(
                &mut object,
                &storage.kind.api_version(),
                storage.kind.kind(),
            );
        }
        if !storage.custom && storage.kind.api_version() != object::api_version(&object) {
            let (group, kind) = (storage.kind.group(), storage.kind.kind());
            let version = object::api_version(&object).to_owned();
            let unknown = || {
                damaged(format!(
                    "no kind {kind:?} is registered for version {version:?}"
                ))
            };
            older::conversion(group, kind, &version).ok_or_else(unknown)?(&mut object);
            written_in = Some(version.into());
            object::set_type(&mut object, &storage.kind.api_version(), kind);
        }
        defaults::name_kinds(storage.kind.group(), storage.kind.kind(), &mut object);
        Ok(DecodedValue {
            object: DecodedObject::new(revision, object),
            written_in,
            is_renewed,
        })
    }
}

/// Reads a value of the store, protobuf or JSON, as it is. Some older versions have other fields in
/// protobuf.
fn parse(storage: &Storage, value: &[u8]) -> Result<Value, String> {
    if !value.starts_with(&protobuf::MAGIC) {
        return serde_json::from_slice(value).map_err(|error| error.to_string());
    }
    let kind = &storage.kind;
    let named = protobuf::decode_type(value).map_err(|error| error.to_string())?;
    let (group, version) = schema::split_api_version(&named.0);
    let older = schema::body(group, version, kind.kind()).filter(|_| !storage.custom);
    protobuf::decode_as(value, older.unwrap_or(kind.message())).map_err(|error| error.to_string())
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
        if let Some(conversion) = storage.conversion {
            (conversion.to_stored)(&mut object);
        }
        object::set_type(&mut object, &storage.stored_in(), storage.kind.kind());
    }
    if storage.json {
        return if object::nests_within(&object, object::JSON_LEVELS_MAX) {
            Ok(to_json(&object).to_vec())
        } else {
            Err(unreadable("the object nests too deeply"))
        };
    }
    let bytes = protobuf::encode_as(&object, storage.kind.message())
        .map_err(|error| Status::internal(&error.to_string()))?;
    // A body may leave out parts that are always stored, so the body may be within the decoder's
    // limit and the value beyond it.
    if bytes.len() > SURELY_READABLE_BYTES {
        let read = protobuf::decode_as(&bytes, storage.kind.message());
        read.map_err(|error| unreadable(&error.to_string()))?;
    }
    Ok(bytes)
}

/// Refuses a value that could not be read again: lists of its whole collection would fail. As with
/// an object that is too large, the object may still be stored without its managers.
fn unreadable(why: &str) -> Status {
    let text = format!("the object cannot be stored: {why}");
    Status::new(413, "RequestEntityTooLarge", text)
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
            match object.get(key) {
                Some(value) if key == "metadata" => map.serialize_entry(key, &Metadata(value))?,
                Some(value) => map.serialize_entry(key, value)?,
                None => {}
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

/// Writes metadata with the fields of managers in Kubernetes' order.
struct Metadata<'a>(&'a Value);

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const MANAGERS: &str = "managedFields";
        let fields = self.0.as_object();
        let Some(fields) = fields.filter(|fields| fields.contains_key(MANAGERS)) else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (key, value) in fields {
            match value.as_array().filter(|_| key == MANAGERS) {
                Some(all) => map.serialize_entry(key, &all.iter().map(Manager).collect::<Vec<_>>()),
                None => map.serialize_entry(key, value),
            }?;
        }
        map.end()
    }
}

/// An entry of `metadata.managedFields`.
struct Manager<'a>(&'a Value);

impl Serialize for Manager<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.0 else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (key, value) in fields {
            if key == "fieldsV1" {
                map.serialize_entry(key, &apply::InOrder(value))?;
            } else {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::strategy;
    use crate::resources::catalogue::Catalogue;

    /// Encodes an object and reads it again; the code of the refusal if it is not encoded.
    fn stored(storage: &Storage, object: &Value) -> Result<(), u16> {
        let bytes = encode(storage, object).map_err(|error| error.code)?;
        let read = DecodedObject::decode(storage, "key", &bytes, 1);
        read.map(drop).map_err(|error| panic!("{error:?}"))
    }

    #[test]
    fn what_could_not_be_read_again_is_not_stored() {
        let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
        let pods = catalogue.resource("", "v1", "pods").unwrap();
        let pods = pods.stored().unwrap();
        let custom = Storage::custom(
            Arc::clone(&pods.kind),
            Default::default(),
            Default::default(),
        );
        let mut nested = json!({});
        for levels in 2..200 {
            let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": nested});
            let expected = if levels <= 127 { Ok(()) } else { Err(413) };
            assert_eq!(stored(&custom, &object), expected, "{levels}");
            nested = json!({"a": nested});
        }
        // Each of these has three parts, and names one.
        let pod = |statuses: usize| {
            let one = json!({"name": "c", "state": {}, "lastState": {}});
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {},
                "status": {"containerStatuses": vec![one; statuses]}})
        };
        assert_eq!(stored(pods, &pod(30_000)), Ok(()));
        assert_eq!(stored(pods, &pod(40_000)), Err(413));
    }

    #[test]
    fn fields_of_managers_are_in_kubernetes_order() {
        let keys = [
            ".",
            r#"k:{"containerPort":443,"protocol":"TCP"}"#,
            r#"k:{"containerPort":80,"protocol":"TCP"}"#,
            "v:10",
            "v:9",
        ];
        let fields: Value = keys
            .iter()
            .map(|key| ((*key).to_owned(), json!({})))
            .collect();
        let object = json!({"kind": "K", "metadata": {
            "name": "n", "managedFields": [{"manager": "m", "fieldsV1": {"f:ports": fields}}]}});
        let (text, metadata) = to_json_with_metadata(&object);
        let text = String::from_utf8(text.to_vec()).unwrap();
        let places = [0, 2, 1, 4, 3].map(|at| {
            let key = Value::from(keys[at]).to_string();
            text.find(&key).unwrap()
        });
        assert!(places.is_sorted(), "{text}");
        let metadata: Value = serde_json::from_str(&text[metadata]).unwrap();
        assert_eq!(metadata, object["metadata"]);
    }
}
