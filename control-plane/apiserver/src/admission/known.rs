//! Objects that decide about requests, read once for each of their revisions.

use std::collections::HashMap;
use std::sync::Arc;

use machinery::schema;
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::Value;

use super::{Attributes, GROUP};
use crate::storage::reader::Reader;

/// The objects of one kind, as the cache has them.
pub(super) struct Known<T> {
    plural: &'static str,
    read: fn(&Value) -> T,
    /// By the key of the object. What is no longer among them is dropped.
    known: Mutex<HashMap<Arc<str>, Revision<T>>>,
}

/// An object at one revision.
struct Revision<T> {
    number: i64,
    content: Arc<T>,
}

impl<T> Known<T> {
    pub(super) fn new(plural: &'static str, read: fn(&Value) -> T) -> Known<T> {
        Known {
            plural,
            read,
            known: Mutex::default(),
        }
    }

    /// All objects that decide about a write, in the order of their names. Those of the same revision
    /// are the same. The write is refused if one cannot be read: nobody knows what it forbids.
    pub(super) fn current(
        &self,
        reader: &Reader,
        attributes: &Attributes<'_>,
    ) -> Result<Vec<Arc<T>>, Status> {
        let all = self.all(reader);
        all.map_err(|error| attributes.undecided(&error))
    }

    fn all(&self, reader: &Reader) -> Result<Vec<Arc<T>>, Status> {
        let stored = match schema::resource(GROUP, "v1", self.plural) {
            Some(kind) => reader.cached_stored(kind, "")?,
            None => Vec::new(),
        };
        let mut known = self.known.lock();
        if stored.is_empty() && known.is_empty() {
            return Ok(Vec::new());
        }
        let mut current = HashMap::new();
        let mut ordered = Vec::new();
        for one in &stored {
            let content = match known.remove(&one.key) {
                Some(known) if known.number == one.revision => known.content,
                _ => Arc::new((self.read)(&*one.kept()?)),
            };
            let known = Revision {
                number: one.revision,
                content: Arc::clone(&content),
            };
            current.insert(Arc::clone(&one.key), known);
            ordered.push(content);
        }
        *known = current;
        Ok(ordered)
    }
}
