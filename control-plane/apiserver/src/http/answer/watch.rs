//! Watches: the existing objects, their changes, and bookmarks, as one long response.
//!
//! The connection pulls a watch. The server buffers nothing for a watch that does not read: it has
//! a cursor into the changes that its collection remembers, and ends when that position is no
//! longer remembered.

mod frames;
mod missed;
mod running;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Response;
use machinery::status::{Cause, Status};
use tokio::time::Instant;

use crate::basics::clock;
use crate::http::answer::list;
use crate::http::answer::shown::Shown;
use crate::http::question::request::{Query, Selectors};
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::storage::cache::{Cache, Cursor};
use crate::storage::change::Missed;
use crate::storage::interest::Interest;
use crate::storage::reader::Reader;
use crate::storage::stored::Stored;
pub(crate) use frames::error_frame;
use missed::ended;
pub(crate) use missed::{fell_behind, too_old};
use running::next_bookmark;

/// A watch without a timeout lasts this long, plus a random time up to the same.
const SECONDS_MIN: u64 = 1800;
/// No watch lasts longer, a century: the clock must be able to tell its end.
const SECONDS_MAX: u64 = 100 * 365 * 24 * 3600;

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

/// One watch.
struct Watch {
    reader: Reader,
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
    /// The newest revision that the client knows. No bookmark is older.
    told: i64,
    cursor: Cursor,
    changed: tokio::sync::watch::Receiver<u64>,
    ends: Instant,
    next_bookmark: Instant,
    columns_told: bool,
    over: bool,
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

    /// Starts the watch and returns its response, which ends when the server stops.
    pub(crate) async fn run(
        self,
        reader: &Reader,
        stopping: tokio::sync::watch::Receiver<bool>,
        shown: Shown,
    ) -> Result<Response<Body>, Status> {
        let storage = Arc::clone(shown.resource.stored()?);
        let reflector = &reader.reflector;
        reflector.loaded().await;
        let folder = storage.folder(&self.namespace);
        let Some(cache) = reflector.cache_if_followed(&storage) else {
            return ended(Missed::Closed, self.asked(), reader, &shown);
        };
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
                Err(missed) => return ended(missed, asked, reader, &shown),
            },
        };
        let ends = self.end(Instant::now());
        let interest = interest(&shown.resource, folder, &self.selectors);
        let changed = match cache.join(&interest, cursor) {
            Ok(changed) => changed,
            // The changes after the cursor were dropped in the meantime.
            Err(missed) => {
                let seen = revision.max(self.asked());
                return ended(missed, seen, reader, &shown);
            }
        };
        let watch = Watch {
            reader: reader.clone(),
            shown,
            cache,
            interest,
            bookmark_due: match self.begin {
                Begin::StateThenBookmark(_) if self.bookmarks => Some(revision),
                _ => None,
            },
            seen_after: self.asked(),
            told: revision.max(self.asked()),
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

    /// When a watch ends that begins now.
    fn end(&self, now: Instant) -> Instant {
        let seconds = self
            .seconds
            .unwrap_or(SECONDS_MIN + clock::below(SECONDS_MIN));
        now + Duration::from_secs(seconds.min(SECONDS_MAX))
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
