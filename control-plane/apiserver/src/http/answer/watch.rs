//! Watches: the existing objects, their changes, and bookmarks, as one long response.
//!
//! The connection pulls a watch. The server buffers nothing for a watch that does not read: it has
//! a cursor into the changes that its collection remembers, and ends when that position is no
//! longer remembered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderValue, Response, StatusCode};
use machinery::protobuf;
use machinery::status::{Cause, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::basics::clock;
use crate::http::answer::list;
use crate::http::answer::media::{Encoding, Form};
use crate::http::answer::reply::{self, Shown};
use crate::http::answer::spliced;
use crate::http::api::Api;
use crate::http::question::request::{Query, Selectors};
use crate::registry::{lifecycle, strategy};
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::storage::cache::{Cache, Change, Cursor, Missed};
use crate::storage::entry::to_json;
use crate::storage::interest::Interest;
use crate::storage::stored::Stored;
use crate::storage::views;

/// A watch without a timeout lasts this long, plus a random time up to the same.
const SECONDS_MIN: u64 = 1800;
/// Interval of bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time between the last bookmark and the end of a watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Changes read from the cache at once.
const BATCH_CHANGES: usize = 256;
/// Size in bytes from which a chunk of the response is full.
const CHUNK_BYTES: usize = 64 << 10;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The parameters of a watch.
pub(crate) struct Watching {
    namespace: String,
    selectors: Selectors,
    bookmarks: bool,
    begin: Begin,
    seconds: Option<u64>,
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// With all objects at this revision or later (`None`: the newest), as added.
    State(Option<i64>),
    /// The same, then a bookmark before the first change.
    StateThenBookmark(Option<i64>),
    /// With the next change.
    Now,
    /// With the first change after this revision.
    After(i64),
}

impl Watching {
    /// Parses and checks the parameters.
    pub(crate) fn read(
        resource: &Resource,
        (namespace, name): (&str, &str),
        query: &Query,
    ) -> Result<Watching, Status> {
        check(query)?;
        let version = list::version(query.text("resourceVersion"))?;
        let begin = match query.given("sendInitialEvents") {
            Some(_) if query.flag("sendInitialEvents") => Begin::StateThenBookmark(version),
            Some(_) if version.unwrap_or(0) == 0 => Begin::Now,
            _ => match version {
                None | Some(0) => Begin::State(version),
                Some(version) => Begin::After(version),
            },
        };
        let seconds = query
            .integer("timeoutSeconds")?
            .and_then(|n| u64::try_from(n).ok());
        Ok(Watching {
            namespace: namespace.to_owned(),
            selectors: query.selectors(resource)?.named(name),
            bookmarks: query.flag("allowWatchBookmarks"),
            begin,
            seconds: seconds.filter(|seconds| *seconds > 0),
        })
    }

    /// Starts the watch and returns its response.
    pub(crate) async fn run(self, api: &Api, shown: Shown) -> Result<Response<Body>, Status> {
        let storage = Arc::clone(shown.resource.stored()?);
        let reflector = &api.reader().reflector;
        reflector.loaded().await;
        let folder = storage.folder(&self.namespace);
        let cache = reflector.cache(&storage)?;
        let mut waiting = VecDeque::new();
        let mut revision = 0;
        let cursor = match self.begin {
            Begin::State(asked) | Begin::StateThenBookmark(asked) => {
                match asked {
                    None => drop(reflector.fresh().await?),
                    Some(asked) => reflector.reach(asked).await?,
                }
                revision = reflector.revision();
                cache.check(&folder)?;
                let (entries, cursor, changed) = cache.snapshot(&folder);
                revision = revision.max(changed);
                waiting.extend(entries);
                cursor
            }
            Begin::Now => {
                reflector.fresh().await?;
                cache.end()
            }
            Begin::After(asked) => match cache.after(asked) {
                Ok(cursor) => cursor,
                Err(missed) => return ended(missed, asked, &shown),
            },
        };
        let seconds = self
            .seconds
            .unwrap_or(SECONDS_MIN + clock::below(SECONDS_MIN));
        let ends = Instant::now() + Duration::from_secs(seconds);
        let interest = interest(&shown.resource, folder, &self.selectors);
        let changed = match cache.join(&interest, cursor) {
            Ok(changed) => changed,
            // The changes after the cursor were dropped in the meantime.
            Err(missed) => return ended(missed, revision.max(self.asked()), &shown),
        };
        let watch = Watch {
            api: api.clone(),
            shown,
            cache,
            interest,
            bookmark_due: match self.begin {
                Begin::StateThenBookmark(_) if self.bookmarks => Some(revision),
                _ => None,
            },
            seen_after: self.asked(),
            changed,
            selectors: self.selectors,
            bookmarks: self.bookmarks,
            waiting,
            cursor,
            ends,
            next_bookmark: next_bookmark(ends),
            columns_told: false,
            over: false,
        };
        let stopping = api.0.stopping.subscribe();
        Ok(watch.into_response(stopping))
    }
}

impl Watching {
    /// The revision that the client has seen; 0 for none.
    fn asked(&self) -> i64 {
        match self.begin {
            Begin::After(asked) => asked,
            _ => 0,
        }
    }
}

/// The part of the collection that the selectors may match.
fn interest(resource: &Resource, folder: String, selectors: &Selectors) -> Interest {
    let mut required = selectors.fields.requirements.iter().filter(|one| {
        // The served version may have another name for the field.
        let is_same = convert::is_same(resource) && resource.converted().is_none();
        !one.negated && (is_same || one.field.starts_with("metadata."))
    });
    // A name selects one object; otherwise the first field serves as well as any.
    let name = required.clone().find(|one| one.field == "metadata.name");
    let field = name
        .or_else(|| required.next())
        .map(|one| (one.field.clone(), one.value.clone()));
    Interest { folder, field }
}

/// Checks which parameters may be combined.
fn check(query: &Query) -> Result<(), Status> {
    let mut causes = Vec::new();
    let matching = query.text("resourceVersionMatch");
    let initial = query.given("sendInitialEvents").is_some();
    let mut forbid = |why: &str| causes.push(Cause::forbidden("resourceVersionMatch", why));
    if initial && matching != "NotOlderThan" {
        forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if !matching.is_empty() {
        if !initial {
            forbid(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if !query.text("continue").is_empty() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if matching != "NotOlderThan" {
            let known = ["NotOlderThan"];
            let cause = Cause::not_supported("resourceVersionMatch", &matching.into(), &known);
            causes.push(cause);
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", causes))
    }
}

/// One watch.
struct Watch {
    api: Api,
    shown: Shown,
    cache: Arc<Cache>,
    interest: Interest,
    selectors: Selectors,
    bookmarks: bool,
    /// Existing objects that are not sent yet.
    waiting: VecDeque<Arc<Stored>>,
    /// Revision of the bookmark after them.
    bookmark_due: Option<i64>,
    /// The client has seen the changes up to this revision.
    seen_after: i64,
    cursor: Cursor,
    changed: tokio::sync::watch::Receiver<u64>,
    ends: Instant,
    next_bookmark: Instant,
    columns_told: bool,
    over: bool,
}

impl Watch {
    fn into_response(self, stopping: tokio::sync::watch::Receiver<bool>) -> Response<Body> {
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
            let Some(entry) = self.waiting.pop_front() else {
                break;
            };
            if self.selectors.matches(&self.shown.resource, &entry) {
                let frame = self.frame("ADDED", &entry);
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
        let catalogue = self.api.reader().reflector.catalogue();
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
        let entry = views::of(resource, &change.entry).await?;
        let before = match &change.before {
            Some(before) if self.selectors.need_version() => {
                Some(views::of(resource, before).await?)
            }
            before => before.clone(),
        };
        Ok(change.with(entry, before))
    }

    fn tell(&mut self, chunk: &mut BytesMut, change: &Change) {
        if change.revision <= self.seen_after {
            return;
        }
        let resource = &self.shown.resource;
        let matches = |stored: &Stored| self.selectors.matches(resource, stored);
        let before = change.before.as_deref().is_some_and(matches);
        let after = !change.deleted && matches(&change.entry);
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
            _ if verb == self::verb(change) => self.shared_frame(change),
            _ => self.frame(verb, &change.entry),
        };
        chunk.put_slice(&frame);
    }

    /// The event that most watchers of a change get; for whole objects, it is encoded once for all.
    fn shared_frame(&mut self, change: &Change) -> Bytes {
        let accept = self.shown.accept;
        if accept.form != Form::Object || !convert::is_same(&self.shown.resource) {
            return self.frame(verb(change), &change.entry);
        }
        let shown = &self.shown;
        let frame = change.frame(accept.encoding == Encoding::Protobuf, |change| {
            let body = shown.stored(&change.entry)?;
            Ok(frame_of(verb(change), &body, accept.encoding))
        });
        frame.unwrap_or_else(|error| error_frame(&error, accept.encoding))
    }

    /// Sends all changes and a bookmark.
    async fn tell_progress(&mut self, chunk: &mut BytesMut) {
        // Read before the changes: the cache has them at least up to this revision.
        let revision = self.api.reader().reflector.revision();
        let told_all = self.tell_changes(chunk).await;
        if told_all && chunk.len() < CHUNK_BYTES {
            self.bookmark(chunk, revision, false);
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

/// One event around an encoded object.
fn frame_of(verb: &str, body: &[u8], encoding: Encoding) -> Bytes {
    match encoding {
        Encoding::Json | Encoding::Yaml => json_frame(verb, body),
        Encoding::Protobuf => protobuf::watch_frame(verb, body).into(),
    }
}

/// Time of the next bookmark: at regular intervals, and shortly before the end.
fn next_bookmark(ends: Instant) -> Instant {
    let now = Instant::now();
    let usual = now + BOOKMARK_EVERY;
    match ends.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now => usual.min(last),
        _ => usual,
    }
}

fn verb(change: &Change) -> &'static str {
    match (change.deleted, &change.before) {
        (true, _) => "DELETED",
        (false, Some(_)) => "MODIFIED",
        (false, None) => "ADDED",
    }
}

fn json_frame(verb: &str, object: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(object.len() + 32);
    frame.put_slice(b"{\"type\":\"");
    frame.put_slice(verb.as_bytes());
    frame.put_slice(b"\",\"object\":");
    frame.put_slice(object);
    frame.put_slice(b"}\n");
    frame.freeze()
}

/// An event with an error, which ends a watch.
pub(crate) fn error_frame(status: &Status, encoding: Encoding) -> Bytes {
    let object = status.to_object();
    match (encoding, reply::encode(&object, encoding)) {
        (Encoding::Protobuf, Ok(body)) => protobuf::watch_frame("ERROR", &body).into(),
        _ => json_frame("ERROR", &to_json(&object)),
    }
}

/// The response to a watch that cannot begin where it was asked to.
fn ended(missed: Missed, revision: i64, shown: &Shown) -> Result<Response<Body>, Status> {
    match missed {
        Missed::TooOld => Ok(too_old(revision, shown.accept.encoding)),
        Missed::Closed => Err(Status::unknown_path()),
    }
}

/// A watch from a revision that is no longer remembered: one error, then the end.
pub(crate) fn too_old(revision: i64, encoding: Encoding) -> Response<Body> {
    let status = Status::expired(format!("too old resource version: {revision}"));
    let frame = error_frame(&status, encoding);
    let media_type = HeaderValue::from_static(encoding.watch_media_type());
    reply::with_body(StatusCode::OK, media_type, Body::from(frame))
}

/// The error of a watcher that was too slow.
pub(crate) fn fell_behind() -> Status {
    Status::expired("The resourceVersion for the provided watch is too old.")
}
