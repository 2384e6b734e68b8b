//! One change in a collection, as watchers are told of it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use machinery::status::Status;

use crate::storage::stored::Stored;

/// One change of one object.
pub(crate) struct Change {
    pub(crate) revision: i64,
    /// The object after it; when it was deleted, its last state at the deletion's revision.
    pub(crate) after: Arc<Stored>,
    /// The object before it.
    pub(crate) before: Option<Arc<Stored>>,
    pub(crate) deleted: bool,
    /// One for each encoding of watches.
    frames: [OnceLock<Bytes>; 2],
}

impl Change {
    pub(crate) fn put(after: Arc<Stored>, before: Option<Arc<Stored>>) -> Change {
        let revision = after.revision;
        Change {
            revision,
            after,
            before,
            deleted: false,
            frames: Default::default(),
        }
    }

    pub(crate) fn delete(before: Arc<Stored>, revision: i64) -> Change {
        // What was written into before can be written into again. If not, the last state is shown
        // as it was: that the object is gone must not be lost.
        let after = before.at(revision).map_or_else(
            |error| {
                tracing::error!(key = %before.key, %error, "a deleted object keeps its revision");
                Arc::clone(&before)
            },
            Arc::new,
        );
        Change {
            revision,
            after,
            before: Some(before),
            deleted: true,
            frames: Default::default(),
        }
    }

    /// The same change of an object in another version.
    pub(crate) fn with(&self, after: Arc<Stored>, before: Option<Arc<Stored>>) -> Change {
        Change {
            revision: self.revision,
            after,
            before,
            deleted: self.deleted,
            frames: Default::default(),
        }
    }

    /// What tells watchers of it, in one of the encodings; written once for all of them.
    pub(crate) fn frame(
        &self,
        protobuf: bool,
        write: impl FnOnce(&Change) -> Result<Bytes, Status>,
    ) -> Result<Bytes, Status> {
        let place = &self.frames[usize::from(protobuf)];
        if let Some(frame) = place.get() {
            return Ok(frame.clone());
        }
        let frame = write(self)?;
        Ok(place.get_or_init(|| frame).clone())
    }
}

/// Why there are no changes from a place on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The place is no longer remembered.
    TooOld,
    /// The collection is no longer served.
    Closed,
}
