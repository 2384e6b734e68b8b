//! A running watch: the existing objects, then their changes, with bookmarks in between.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderValue, Response, StatusCode};
use machinery::status::Status;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Watch;
use super::frames::{self, error_frame, frame_of, json_frame};
use super::missed::fell_behind;
use crate::http::answer::reply;
use crate::http::answer::spliced;
use crate::http::media::{Encoding, Form};
use crate::registry::{lifecycle, strategy};
use crate::resources::convert;
use crate::storage::change::{Change, Missed};
use crate::storage::decoded::to_json;
use crate::storage::stored::Stored;
use crate::storage::views;

/// Interval of bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time between the last bookmark and the end of a watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Changes read from the cache at once.
const BATCH_CHANGES: usize = 256;
/// Size in bytes from which a chunk of the response is full.
const CHUNK_BYTES: usize = 64 << 10;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl Watch {
    pub(super) fn into_response(
        self,
        stopping: tokio::sync::watch::Receiver<bool>,
    ) -> Response<Body> {
        let media_type = self.shown.accept.encoding.watch_media_type();
        let chunks = stream::unfold(self, move |mut watch| {
            let mut stopping = stopping.clone();
            async move {
                let stopped = async {
                    // An error means that the server is dropped.
                    let _ = stopping.wait_for(|stop| *stop).await;
                };
                let chunk = tokio::select! {
                    chunk = watch.next() => chunk,
                    () = stopped => None,
                };
                chunk.map(|chunk| (Ok::<_, std::convert::Infallible>(chunk), watch))
            }
        });
        let body = Body::from_stream(chunks);
        reply::with_body(StatusCode::OK, HeaderValue::from_static(media_type), body)
    }

    /// Returns the next chunk of the response; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let mut chunk = BytesMut::new();
        loop {
            self.tell_state(&mut chunk).await;
            if self.waiting.is_empty() && chunk.len() < CHUNK_BYTES && !self.over {
                // What is left is sent with the next chunk.
                let _ = self.tell_changes(&mut chunk).await;
            }
            if !chunk.is_empty() || self.over {
                return (!chunk.is_empty()).then(|| chunk.freeze());
            }
            let pause = self.next_bookmark.min(self.ends);
            tokio::select! {
                _ = self.changed.changed() => {}
                () = tokio::time::sleep_until(pause) => {
                    self.over = Instant::now() >= self.ends;
                    self.next_bookmark = next_bookmark(self.ends);
                    if self.bookmarks && !self.over {
                        self.tell_progress(&mut chunk).await;
                    }
                }
            }
        }
    }

    /// Sends the objects that existed when the watch began.
    async fn tell_state(&mut self, chunk: &mut BytesMut) {
        if !self.waiting.is_empty() && self.converts() {
            let waiting = std::mem::take(&mut self.waiting).into();
            match views::of_all(&self.shown.resource, waiting).await {
                Ok(views) => self.waiting = views.into(),
                Err(error) => return self.fail(chunk, &error),
            }
        }
        while chunk.len() < CHUNK_BYTES {
            let Some(stored) = self.waiting.pop_front() else {
                break;
            };
            if self.selectors.matches(&self.shown.resource, &stored) {
                let frame = self.frame("ADDED", &stored);
                chunk.put_slice(&frame);
            }
        }
        if self.waiting.is_empty()
            && let Some(revision) = self.bookmark_due.take()
        {
            self.bookmark(chunk, revision, true);
        }
    }

    /// Sends the changes since then; true if none is left. A call of a webhook may take long: what one
    /// converted is sent before the next is called.
    async fn tell_changes(&mut self, chunk: &mut BytesMut) -> bool {
        let cache = Arc::clone(&self.cache);
        let converts = self.converts();
        let most = if converts { 1 } else { BATCH_CHANGES };
        while chunk.len() < CHUNK_BYTES {
            // Marked as seen before reading: a later change wakes the watch again.
            self.changed.borrow_and_update();
            match cache.changes_of(&self.interest, &mut self.cursor, most) {
                Ok(changes) if changes.is_empty() => return true,
                Ok(changes) if converts => {
                    for change in changes {
                        match self.converted(&change).await {
                            Ok(change) => self.tell(chunk, &change),
                            Err(error) => self.fail(chunk, &error),
                        }
                    }
                    if !chunk.is_empty() {
                        return false;
                    }
                }
                Ok(changes) => {
                    for change in changes {
                        self.tell(chunk, &change);
                    }
                }
                Err(missed) => {
                    let error = match missed {
                        Missed::TooOld => fell_behind(),
                        Missed::Closed => self.closed(),
                    };
                    self.fail(chunk, &error);
                    return false;
                }
            }
        }
        false
    }

    /// Why the collection that is watched ended: its kind is no longer served, or another
    /// collection has its objects.
    fn closed(&self) -> Status {
        let catalogue = self.reader.reflector.catalogue();
        match catalogue.of(&self.shown.resource.kind) {
            Ok(_) => Status::expired("the definition of the resource has changed"),
            Err(gone) => gone,
        }
    }

    /// Ends the watch with an error.
    fn fail(&mut self, chunk: &mut BytesMut, error: &Status) {
        self.over = true;
        chunk.put_slice(&error_frame(error, self.shown.accept.encoding));
    }

    /// True if what the watch sends is converted.
    fn converts(&self) -> bool {
        let needs_version = self.shown.needs_version() || self.selectors.need_fields();
        self.shown.resource.converted().is_some() && needs_version
    }

    /// A change in the version of the watch. The object before it counts only for selectors.
    async fn converted(&self, change: &Change) -> Result<Change, Status> {
        let resource = &self.shown.resource;
        let stored = views::of(resource, &change.after).await?;
        let before = match &change.before {
            Some(before) if self.selectors.need_version() => {
                Some(views::of(resource, before).await?)
            }
            before => before.clone(),
        };
        Ok(change.with(stored, before))
    }

    fn tell(&mut self, chunk: &mut BytesMut, change: &Change) {
        if change.revision <= self.seen_after {
            return;
        }
        self.told = self.told.max(change.revision);
        let resource = &self.shown.resource;
        let matches = |stored: &Stored| self.selectors.matches(resource, stored);
        let before = change.before.as_deref().is_some_and(matches);
        let after = !change.deleted && matches(&change.after);
        let verb = match (before, after) {
            (false, false) => return,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        let left = verb == "DELETED" && !change.deleted;
        let frame = match &change.before {
            // The object left the selection: send its old state, at the revision of this change.
            Some(before) if left => match before.at(change.revision) {
                Ok(before) => self.frame(verb, &before),
                Err(error) => error_frame(&error, self.shown.accept.encoding),
            },
            _ if verb == frames::verb(change) => self.shared_frame(change),
            _ => self.frame(verb, &change.after),
        };
        chunk.put_slice(&frame);
    }

    /// The event that most watchers of a change get; for whole objects, it is encoded once for all.
    fn shared_frame(&mut self, change: &Change) -> Bytes {
        let accept = self.shown.accept;
        if accept.form != Form::Object || !convert::is_same(&self.shown.resource) {
            return self.frame(frames::verb(change), &change.after);
        }
        let shown = &self.shown;
        let frame = change.frame(accept.encoding == Encoding::Protobuf, |change| {
            let body = shown.stored(&change.after)?;
            Ok(frame_of(frames::verb(change), &body, accept.encoding))
        });
        frame.unwrap_or_else(|error| error_frame(&error, accept.encoding))
    }

    /// Sends all changes and a bookmark.
    async fn tell_progress(&mut self, chunk: &mut BytesMut) {
        // Read before the changes: the cache has them at least up to this revision.
        let revision = self.reader.reflector.revision();
        let told_all = self.tell_changes(chunk).await;
        if told_all && chunk.len() < CHUNK_BYTES {
            // The cache may be ahead of the revision for a moment, and a client of both.
            if revision >= self.told {
                self.bookmark(chunk, revision, false);
            }
        } else {
            // After what is left.
            self.next_bookmark = Instant::now();
        }
    }

    fn bookmark(&mut self, chunk: &mut BytesMut, revision: i64, initial: bool) {
        let kind = &self.shown.resource.kind;
        let mut object = json!({
            "kind": kind.kind(), "apiVersion": kind.api_version(),
            "metadata": {"resourceVersion": revision.to_string()},
        });
        if initial {
            object["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        // Kubernetes sends an object without content, which has all that its kind always shows.
        if self.shown.resource.custom.is_none() {
            (strategy::of(&self.shown.resource).complete_empty)(&mut object);
            lifecycle::prune(&self.shown.resource, &mut object);
        }
        let object = Arc::new(object);
        if self.shown.accept.form == Form::Object && self.shown.accept.encoding == Encoding::Json {
            return chunk.put_slice(&json_frame("BOOKMARK", &to_json(&object)));
        }
        let frame = self.object_frame("BOOKMARK", &object);
        chunk.put_slice(&frame);
    }

    fn frame(&mut self, verb: &str, stored: &Stored) -> Bytes {
        let encoding = self.shown.accept.encoding;
        let columns = !self.columns_told;
        let body = match spliced::watched(&self.shown, stored, columns) {
            Some(body) => body,
            None => match self.shown.decoded(stored) {
                Ok(object) => return self.object_frame(verb, &object),
                Err(error) => Err(error),
            },
        };
        match body {
            Ok(body) => {
                self.tell_columns();
                frame_of(verb, &body, encoding)
            }
            Err(error) => error_frame(&error, encoding),
        }
    }

    fn object_frame(&mut self, verb: &str, object: &Arc<Value>) -> Bytes {
        let encoding = self.shown.accept.encoding;
        let body = match self.shown.object(object) {
            Ok(body) => body,
            Err(error) => return error_frame(&error, encoding),
        };
        if self.shown.accept.form == Form::Table && self.columns_told {
            // Only the first event of a watch has the column definitions.
            if let Ok(Value::Object(mut table)) = serde_json::from_slice(&body) {
                table.insert("columnDefinitions".into(), Value::Null);
                return json_frame(verb, &to_json(&Value::Object(table)));
            }
        }
        self.tell_columns();
        frame_of(verb, &body, encoding)
    }

    /// The columns have been sent; most tables do not repeat them.
    fn tell_columns(&mut self) {
        self.columns_told = !strategy::of(&self.shown.resource).repeats_columns;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cache.leave(&self.interest);
    }
}

/// Time of the next bookmark: at regular intervals, and shortly before the end.
pub(super) fn next_bookmark(ends: Instant) -> Instant {
    let now = Instant::now();
    let usual = now + BOOKMARK_EVERY;
    match ends.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now => usual.min(last),
        _ => usual,
    }
}
