//! Objects in the version of a request, where the versions of a custom resource have different
//! fields.
//!
//! A view is kept with the object that it was made of, within the bound for all kept forms: it
//! lives as long as that revision is the newest one, or a change that watches may still be told of.
//! Watchers that wait for the same view share one conversion, which may be the call of a webhook.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::Value;

use crate::resources::catalogue::{Resource, StorageId};
use crate::resources::convert::{self, ConvertedVersion};
use crate::storage::decoded::DecodedObject;
use crate::storage::stored::{Stored, give_back, take_room};

/// Upper bound of the objects in one conversion, in bytes of JSON. A single object may be
/// larger. An answer of the same size is far below what is read of an answer.
const CALL_BYTES_MAX: usize = 4 << 20;

/// The views of one object.
#[derive(Default)]
pub(crate) struct Views(Mutex<Vec<(StorageId, View)>>);

enum View {
    Made(Arc<Stored>),
    Making(Making),
}

/// A conversion that somebody waits for.
type Making = Shared<BoxFuture<'static, Result<Arc<Stored>, Status>>>;

/// An object as the resource's version shows it.
pub(crate) async fn of(resource: &Resource, stored: &Arc<Stored>) -> Result<Arc<Stored>, Status> {
    match resource.converted() {
        Some(served) if !is_in(served, stored) => stored.views().get(served, stored).await,
        _ => Ok(Arc::clone(stored)),
    }
}

/// Objects as the resource's version shows them. What has no view yet is converted together.
pub(crate) async fn of_all(
    resource: &Resource,
    mut all: Vec<Arc<Stored>>,
) -> Result<Vec<Arc<Stored>>, Status> {
    let Some(served) = resource.converted() else {
        return Ok(all);
    };
    let mut missing = Vec::new();
    for (at, stored) in all.iter_mut().enumerate() {
        if is_in(served, stored) {
            continue;
        }
        match stored.views().made(served.view.id) {
            Some(view) => *stored = view,
            None => missing.push(at),
        }
    }
    let mut missing = missing.as_slice();
    while !missing.is_empty() {
        let (call, rest) = missing.split_at(fitting(&all, missing));
        convert_all(served, &mut all, call).await?;
        missing = rest;
    }
    Ok(all)
}

/// An object of a write as the resource's version shows it.
pub(crate) async fn of_decoded(
    resource: &Resource,
    decoded: &DecodedObject,
) -> Result<Arc<Value>, Status> {
    match (&decoded.source, resource.converted()) {
        (Some(source), Some(_)) => Ok(Arc::new(of(resource, source).await?.decode()?)),
        _ => convert::served(resource, &decoded.object).await,
    }
}

/// True if an object needs no view: the collection has it in the version of the view.
fn is_in(served: &ConvertedVersion, stored: &Stored) -> bool {
    stored.is_view() || stored.is_written_in(&served.view.kind)
}

/// How many of the objects fit into one call, at least one.
fn fitting(all: &[Arc<Stored>], missing: &[usize]) -> usize {
    let mut bytes = 0;
    let fits = missing.iter().take_while(|at| {
        bytes += all[**at].bytes();
        bytes <= CALL_BYTES_MAX
    });
    fits.count().max(1)
}

/// Replaces some objects by their views.
async fn convert_all(
    served: &ConvertedVersion,
    all: &mut [Arc<Stored>],
    which: &[usize],
) -> Result<(), Status> {
    let objects = which.iter().map(|at| all[*at].decode());
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    let version = served.view.kind.api_version();
    let converted = served.converter.convert(objects, &version).await?;
    for (at, object) in which.iter().zip(converted) {
        let view = Arc::new(all[*at].seen(&served.view, &object));
        all[*at].views().keep(&view);
        all[*at] = view;
    }
    Ok(())
}

impl Views {
    /// Bytes of the views that are kept.
    pub(crate) fn bytes(&self) -> usize {
        let all = self.0.lock();
        all.iter().map(|(_, view)| view.bytes()).sum()
    }

    fn made(&self, id: StorageId) -> Option<Arc<Stored>> {
        let all = self.0.lock();
        all.iter().find_map(|(its, view)| match view {
            View::Made(view) if *its == id => Some(Arc::clone(view)),
            _ => None,
        })
    }

    /// The view, which is made once for all that wait for it.
    async fn get(
        &self,
        served: &ConvertedVersion,
        stored: &Arc<Stored>,
    ) -> Result<Arc<Stored>, Status> {
        let making = {
            let mut all = self.0.lock();
            let found = all.iter().find(|(id, _)| *id == served.view.id);
            match found.map(|(_, view)| view) {
                Some(View::Made(view)) => return Ok(Arc::clone(view)),
                Some(View::Making(making)) => making.clone(),
                None => {
                    let making = make(served.clone(), Arc::clone(stored));
                    all.push((served.view.id, View::Making(making.clone())));
                    making
                }
            }
        };
        making.await
    }

    /// Keeps a view if there is room, in the place of those that earlier definitions had.
    fn keep(&self, view: &Arc<Stored>) {
        let id = view.storage().id;
        self.remove(|its, other| its == id || other.is_outdone_by(view));
        if take_room(view.bytes()) {
            self.0.lock().push((id, View::Made(Arc::clone(view))));
        }
    }

    fn remove(&self, gone: impl Fn(StorageId, &View) -> bool) {
        let mut all = self.0.lock();
        all.retain(|(id, view)| {
            let goes = gone(*id, view);
            if goes {
                give_back(view.bytes());
            }
            !goes
        });
    }
}

impl View {
    fn bytes(&self) -> usize {
        match self {
            View::Made(view) => view.bytes(),
            View::Making(_) => 0,
        }
    }

    /// The view of the same version by an earlier definition.
    fn is_outdone_by(&self, newer: &Stored) -> bool {
        let version = |view: &Stored| view.storage().kind.api_version();
        matches!(self, View::Made(view) if version(view) == version(newer))
    }
}

/// Converts in a task: who waits may give up, and others wait on.
fn make(served: ConvertedVersion, stored: Arc<Stored>) -> Making {
    let making = tokio::spawn(async move {
        let ended = Ended {
            id: served.view.id,
            stored,
        };
        let stored = &ended.stored;
        let object = served.convert(stored.decode()?).await?;
        let view = Arc::new(stored.seen(&served.view, &object));
        stored.views().keep(&view);
        Ok(view)
    });
    let ended = async move {
        let broken = |error: tokio::task::JoinError| Status::internal(&error.to_string());
        making.await.unwrap_or_else(|error| Err(broken(error)))
    };
    ended.boxed().shared()
}

/// Ends the making of a view when it is dropped: what failed is tried anew by the next request.
struct Ended {
    id: StorageId,
    stored: Arc<Stored>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let is_it = |id, view: &View| id == self.id && matches!(view, View::Making(_));
        self.stored.views().remove(is_it);
    }
}
