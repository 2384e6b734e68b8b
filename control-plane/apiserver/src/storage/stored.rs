//! An object at one revision as lists and watches share it: its bytes, read in place.
//!
//! Built-in kinds are stored as Kubernetes stores them, as protobuf behind `k8s\0`, so that tools
//! for its etcd can read ours. Values in JSON are read, too. Custom resources and the two groups
//! that Kubernetes stores as JSON are written as JSON.
//!
//! The bytes in memory are the stored ones with `resourceVersion` inserted. An answer in protobuf,
//! an item of a list and an event of a watch copy them. A walk over the fields finds name, labels
//! and selectable fields; it takes a fraction of a microsecond and no memory, so they are not
//! stored a second time. JSON fields have no such order, so an object in JSON keeps a few of them
//! decoded.
//!
//! Other forms are kept where that pays. The figures are for 5,000 small pods, which take 1.4 KiB
//! each as stored and 4 KiB with text and cells.
//! - JSON text is kept from its first use on. Encoding takes fifty times as long as copying, and
//!   each list and each watch needs it again.
//! - The cells of a table are kept, too. They need the decoded object and are a tenth as large as
//!   its text.
//! - Metadata is part of either form and is copied from there.
//! - What a conversion webhook made of an object is kept in `views`.
//! - The decoded object takes fifteen times its bytes. It is kept only for kinds whose whole
//!   collections the server itself reads; these are small.
//!
//! All of that counts against [`KEPT_BYTES_MAX`]. Beyond it, forms are encoded anew each time.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use machinery::protobuf::{self, splice::Canonical};
use machinery::schema::Kind;
use machinery::status::Status;
use machinery::{defaults, object};
use serde_json::Value;

use crate::resources::catalogue::Storage;
use crate::resources::fields;
use crate::storage::at_rest::{AtRest, Sealing};
use crate::storage::cells::Cells;
use crate::storage::decoded::{self, DecodedObject};
use crate::storage::store::{Raw, Store};
use crate::storage::views::Views;

/// Upper bound of the bytes of encodings that all objects of the process keep together.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// Ratio of a decoded object's size to its bytes, measured with pods.
const DECODED_FACTOR: usize = 15;

/// Bytes of encodings that are kept now.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// One object at one revision, in the version that is stored.
pub(crate) struct Stored {
    storage: Arc<Storage>,
    pub(crate) key: Arc<str>,
    /// Revision of the last change; for a deleted object, of the deletion.
    pub(crate) revision: i64,
    /// The `apiVersion` that it was written in, of custom resources and if the object has another.
    written_in: Option<Box<str>>,
    /// The store has other fields, of an earlier schema.
    is_renewed: bool,
    sealing: Sealing,
    body: Body,
    /// The value of the field that the body does not show.
    hidden: Option<Box<Value>>,
    text: OnceLock<Text>,
    cells: OnceLock<Box<Cells>>,
    decoded: OnceLock<Arc<Value>>,
    /// The object in other versions.
    views: OnceLock<Box<Views>>,
    is_view: bool,
}

enum Body {
    /// The object in the canonical form of the encoder, as [`Canonical`] requires.
    Protobuf(Bytes),
    /// The object as text, with the fields that selectors use decoded.
    Json { text: Text, head: Box<Value> },
}

/// An object as JSON.
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) bytes: Bytes,
    /// Position of the value of `metadata`; empty if there is none.
    metadata: Range<usize>,
}

impl Text {
    fn of(object: &Value) -> Text {
        let (bytes, metadata) = decoded::to_json_with_metadata(object);
        Text { bytes, metadata }
    }

    /// The value of `metadata`.
    pub(crate) fn metadata(&self) -> &[u8] {
        if self.metadata.is_empty() {
            b"null"
        } else {
            &self.bytes[self.metadata.clone()]
        }
    }
}

impl Stored {
    /// Opens and reads a value of the store.
    pub(crate) async fn open(
        store: &Store,
        storage: &Arc<Storage>,
        key: &str,
        raw: &Raw,
    ) -> Result<Stored, Status> {
        let opened = store.open(storage, raw).await?;
        let mut stored = Stored::read(storage, key, &opened.value, raw.revision)?;
        stored.sealing = opened.sealing;
        Ok(stored)
    }

    /// Reads an opened value, protobuf or JSON. Canonical bytes are not decoded.
    pub(crate) fn read(
        storage: &Arc<Storage>,
        key: &str,
        value: &[u8],
        revision: i64,
    ) -> Result<Stored, Status> {
        let (api_version, version) = (storage.kind.api_version(), revision.to_string());
        let named = (api_version.as_str(), storage.kind.kind());
        let message = storage.kind.message();
        let (mut written_in, mut is_renewed) = (None, false);
        let body = match Canonical::with_version(value, named, message, &version) {
            Some(bytes) => Body::Protobuf(bytes.into()),
            None => {
                let decoded = DecodedObject::decode(storage, key, value, revision)?;
                (written_in, is_renewed) = (decoded.written_in, decoded.is_renewed);
                let is_protobuf = value.starts_with(&protobuf::MAGIC);
                Body::of(storage, &decoded.object.object, is_protobuf)
            }
        };
        let mut stored = Stored::with_body(Arc::clone(storage), key.into(), revision, body);
        stored.written_in = written_in;
        stored.is_renewed = is_renewed;
        stored.hide()?;
        Ok(stored)
    }

    fn with_body(storage: Arc<Storage>, key: Arc<str>, revision: i64, body: Body) -> Stored {
        Stored {
            storage,
            key,
            revision,
            written_in: None,
            is_renewed: false,
            sealing: Sealing::default(),
            body,
            hidden: None,
            text: OnceLock::new(),
            cells: OnceLock::new(),
            decoded: OnceLock::new(),
            views: OnceLock::new(),
            is_view: false,
        }
    }

    /// Keeps the field apart that is not shown, if the object has it.
    fn hide(&mut self) -> Result<(), Status> {
        let Some(hidden) = &self.storage.hidden else {
            return Ok(());
        };
        if !hidden.is_by(self.value(hidden.by.0).as_ref()) {
            return Ok(());
        }
        let mut object = self.decode()?;
        if let Some(value) = hidden.take(&mut object) {
            self.body = Body::of(&self.storage, &object, self.protobuf().is_some());
            self.hidden = Some(Box::new(value));
        }
        Ok(())
    }

    /// True if the object has a field that is not shown.
    pub(crate) fn hides_a_field(&self) -> bool {
        self.hidden.is_some()
    }

    /// The object as it was converted, in a version of the collection.
    pub(crate) fn seen(&self, view: &Arc<Storage>, object: &Value) -> Stored {
        let body = Body::of(view, object, false);
        let key = Arc::clone(&self.key);
        let mut seen = Stored::with_body(Arc::clone(view), key, self.revision, body);
        seen.is_view = true;
        seen
    }

    /// True if it was converted from another version.
    pub(crate) fn is_view(&self) -> bool {
        self.is_view
    }

    /// True if it was written in the version of the collection's kind, and this kind is the same.
    pub(crate) fn is_written_in(&self, kind: &Kind) -> bool {
        let version = kind.api_version();
        self.written_in.as_deref() == Some(version.as_str())
            && self.storage.kind.api_version() == version
    }

    /// The views of the object.
    pub(crate) fn views(&self) -> &Views {
        self.views.get_or_init(Box::default)
    }

    /// The collection, or the view of one.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The same object at another revision, which a watch shows for a deleted object.
    pub(crate) fn at(&self, revision: i64) -> Result<Stored, Status> {
        let body = match self.canonical() {
            Some(canonical) => {
                let bytes = canonical?.at(&revision.to_string()).map_err(damaged)?;
                Body::Protobuf(bytes.into())
            }
            None => {
                let mut object = self.decode()?;
                object::set_resource_version(&mut object, revision);
                Body::of(&self.storage, &object, false)
            }
        };
        let key = Arc::clone(&self.key);
        let mut at = Stored::with_body(Arc::clone(&self.storage), key, revision, body);
        at.written_in.clone_from(&self.written_in);
        at.is_renewed = self.is_renewed;
        at.sealing = self.sealing;
        at.is_view = self.is_view;
        Ok(at)
    }

    /// Decodes the object for the caller.
    pub(crate) fn decode(&self) -> Result<Value, Status> {
        match &self.body {
            Body::Protobuf(bytes) => {
                let message = self.storage.kind.message();
                let mut object = protobuf::decode_as(bytes, message).map_err(damaged)?;
                let kind = &self.storage.kind;
                defaults::name_kinds(kind.group(), kind.kind(), &mut object);
                Ok(object)
            }
            Body::Json { text, .. } => serde_json::from_slice(&text.bytes)
                .map_err(|error| Status::internal(&format!("{}: {error}", self.key))),
        }
    }

    /// Returns the decoded object, and keeps it if there is room.
    pub(crate) fn kept(&self) -> Result<Arc<Value>, Status> {
        if let Some(decoded) = self.decoded.get() {
            return Ok(Arc::clone(decoded));
        }
        let decoded = Arc::new(self.decode()?);
        keep(&self.decoded, Arc::clone(&decoded), self.decoded_bytes());
        Ok(decoded)
    }

    /// Returns the whole object for a request that changes it.
    pub(crate) fn decoded(self: Arc<Self>) -> Result<Arc<DecodedObject>, Status> {
        let mut object = self.decode()?;
        if let (Some(hidden), Some(value)) = (&self.storage.hidden, &self.hidden) {
            object::set(&mut object, hidden.field, Value::clone(value));
        }
        let mut decoded = DecodedObject::new(self.revision, object);
        decoded.source = Some(self);
        Ok(Arc::new(decoded))
    }

    /// True if the store has it in another version or with other fields than it would be written
    /// now, or sealed otherwise, and the object in memory does not show that.
    pub(crate) fn is_outdated(&self) -> bool {
        let in_other_version = match self.written_in.as_deref() {
            Some(written) => !self.storage.keeps_version && *written != *self.storage.stored_in(),
            None => self.storage.conversion.is_some(),
        };
        in_other_version || self.is_renewed || self.sealing.stale
    }

    /// True if the rules by which it was opened are still those of the store: only then it is known
    /// how a write would seal it.
    pub(crate) fn is_of(&self, at_rest: &AtRest) -> bool {
        self.sealing.generation == at_rest.generation()
    }

    /// The object as JSON.
    pub(crate) fn text(&self) -> Result<Text, Status> {
        if let Body::Json { text, .. } = &self.body {
            return Ok(text.clone());
        }
        if let Some(text) = self.text.get() {
            return Ok(text.clone());
        }
        let text = Text::of(&self.decode()?);
        keep(&self.text, text.clone(), text.bytes.len());
        Ok(text)
    }

    /// Calls `show` with the cells of the object's row, which `make` creates if they are not kept.
    pub(crate) fn with_cells<T>(
        &self,
        make: impl FnOnce(&Value) -> Cells,
        show: impl FnOnce(&Cells) -> T,
    ) -> Result<T, Status> {
        if let Some(cells) = self.cells.get() {
            return Ok(show(cells));
        }
        let cells = Box::new(make(&self.decode()?));
        let shown = show(&cells);
        let bytes = cells.bytes();
        keep(&self.cells, cells, bytes);
        Ok(shown)
    }

    /// The object in protobuf with its envelope; `None` if it has no canonical form.
    pub(crate) fn protobuf(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Protobuf(bytes) => Some(bytes),
            Body::Json { .. } => None,
        }
    }

    /// The object in protobuf, to read in place.
    pub(crate) fn canonical(&self) -> Option<Result<Canonical<'_>, Status>> {
        let bytes = self.protobuf()?;
        Some(Canonical::trusted(bytes).map_err(damaged))
    }

    /// `metadata.name`.
    pub(crate) fn name(&self) -> String {
        self.field("metadata.name").into_owned()
    }

    /// `metadata.namespace`.
    pub(crate) fn namespace(&self) -> String {
        self.field("metadata.namespace").into_owned()
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        match &self.body {
            Body::Protobuf(bytes) => Canonical::trusted(bytes).ok()?.label(key),
            Body::Json { head, .. } => object::label(head, key),
        }
    }

    /// The text of a selectable field.
    pub(crate) fn field(&self, field: &str) -> Cow<'static, str> {
        fields::text(&self.storage.selectable, field, |path| self.value(path))
    }

    fn value(&self, path: &[&str]) -> Option<Value> {
        match &self.body {
            Body::Protobuf(bytes) => {
                let message = self.storage.kind.message();
                Canonical::trusted(bytes).ok()?.value(message, path)
            }
            Body::Json { head, .. } => object::at(head, path).cloned(),
        }
    }

    /// Size of the object as it is stored, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.body {
            Body::Protobuf(bytes) => bytes.len(),
            Body::Json { text, .. } => text.bytes.len(),
        }
    }

    fn decoded_bytes(&self) -> usize {
        self.bytes() * DECODED_FACTOR
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        let text = self.text.get().map_or(0, |text| text.bytes.len());
        let cells = self.cells.get().map_or(0, |cells| cells.bytes());
        let decoded = self.decoded.get().map_or(0, |_| self.decoded_bytes());
        let views = self.views.get().map_or(0, |views| views.bytes());
        give_back(text + cells + decoded + views);
    }
}

impl Body {
    /// The bytes in memory of an object whose stored bytes are not canonical. Protobuf is encoded
    /// anew. Text remains for JSON, and if protobuf cannot express all of the object.
    fn of(storage: &Storage, object: &Value, protobuf: bool) -> Body {
        if protobuf && let Some(bytes) = rewritten(storage, object) {
            return Body::Protobuf(bytes.into());
        }
        Body::Json {
            text: Text::of(object),
            head: Box::new(fields::head(&storage.selectable, object)),
        }
    }
}

fn rewritten(storage: &Storage, object: &Value) -> Option<Vec<u8>> {
    let kind = &storage.kind;
    let named =
        object::kind(object) == kind.kind() && object::api_version(object) == kind.api_version();
    let bytes = protobuf::encode(object).ok().filter(|_| named)?;
    let mut again = protobuf::decode_as(&bytes, kind.message()).ok()?;
    defaults::name_kinds(kind.group(), kind.kind(), &mut again);
    (again == *object).then_some(bytes)
}

/// Keeps a value if there is room. Of two equal values, the first is kept.
fn keep<T>(place: &OnceLock<T>, made: T, bytes: usize) {
    if take_room(bytes) && place.set(made).is_err() {
        give_back(bytes);
    }
}

/// Counts bytes that are kept from here on; false if there is no room.
pub(crate) fn take_room(bytes: usize) -> bool {
    // The sum may exceed the bound by values made at the same time: the bound is not exact.
    let room = KEPT_BYTES.load(Ordering::Relaxed) + bytes <= KEPT_BYTES_MAX;
    if room {
        KEPT_BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
    room
}

/// Counts bytes that are no longer kept.
pub(crate) fn give_back(bytes: usize) {
    KEPT_BYTES.fetch_sub(bytes, Ordering::Relaxed);
}

/// Bytes in memory that were decoded once and cannot be decoded again.
fn damaged(error: protobuf::Error) -> Status {
    Status::internal(&error.to_string())
}
