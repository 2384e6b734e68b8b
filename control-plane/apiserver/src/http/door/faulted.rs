//! Requests that meet faults: [`crate::http::faults`] decides which, and this carries the faults out. All
//! of it is what a real cluster may do:
//!
//! - a conflict is true: another writer writes the object first;
//! - a stale list is the state of an earlier revision, no older than the request demands, and only
//!   where the request does not demand the newest;
//! - a request is refused before it is carried out; a write may also be carried out and its answer
//!   lost, as happens when the server or the network fails in between.

mod about;
mod watch;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use machinery::status::Status;

use crate::auth::certificate::Peer;
use crate::auth::{Attributes, User, user};
use crate::http::answer::list::Listing;
use crate::http::answer::watch::too_old;
use crate::http::call::Call;
use crate::http::faults::{Faults, Kind, Meeting, OBSERVER, Request};
use crate::http::limits::slots;
use crate::http::question::request::Target;
use crate::registry::Registry;
use crate::storage::decoded;
use crate::storage::store::Swap;
use about::About;

/// Prefix of the users that are parts of the cluster.
const SYSTEM: &str = "system:";
/// The namespace whose service accounts are parts of the cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// Seconds after which a client may try again.
const RETRY_AFTER_SECONDS: u32 = 1;
/// What etcd says when its leader is lost before a request, and when nobody knows what became of a
/// request.
const LEADER_CHANGED: &str = "etcdserver: leader changed";
const TIMED_OUT: &str = "etcdserver: request timed out";

/// Marks a response in whose place the connection is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("cut on purpose")
    }
}

impl std::error::Error for Cut {}

/// True if a request may meet faults: it came over a connection, from a user who is no part of the
/// cluster, and is about objects that are stored.
pub(crate) fn concerns(parts: &Parts, user: &User, target: &Target) -> bool {
    // Parts in this process call without a connection.
    let over_connection = parts.extensions.get::<ConnectInfo<Peer>>().is_some();
    let part = || match user::service_account(&user.name) {
        Some((namespace, _)) => namespace == SYSTEM_NAMESPACE,
        None => user.name.starts_with(SYSTEM) && user.name != user::ANONYMOUS,
    };
    over_connection
        && target.resource.storage.is_some()
        && target.subresource != "token"
        && user.name != OBSERVER
        && !part()
}

/// A call that meets faults.
struct Faulted<'a> {
    faults: &'a Arc<Faults>,
    call: &'a Call<'a>,
    request: Request<'a>,
    meeting: Meeting,
    body: Bytes,
}

/// Runs a call with the faults that it meets.
pub(crate) async fn run(
    faults: &Arc<Faults>,
    call: &Call<'_>,
    asked: &Attributes,
    body: Bytes,
) -> Result<Response<Body>, Status> {
    let about = About::read(&body);
    let named = if asked.verb == "create" && asked.name.is_empty() {
        about.name()
    } else {
        &asked.name
    };
    let request = Request {
        user: &asked.user.name,
        verb: &asked.verb,
        group: &asked.api_group,
        resource: &asked.resource,
        subresource: &asked.subresource,
        namespace: &asked.namespace,
        name: named,
        label_selector: call.query.text("labelSelector"),
        field_selector: call.query.text("fieldSelector"),
    };
    let meeting = faults.meet(&request);
    let faulted = Faulted {
        faults,
        call,
        request,
        meeting,
        body,
    };
    faulted.run(&about).await
}

impl Faulted<'_> {
    async fn run(self, about: &About) -> Result<Response<Body>, Status> {
        if self.meeting.hits(Kind::Restarts) {
            let cut = self.cut(Kind::Restarts).await;
            self.faults.restart();
            return cut;
        }
        if self.meeting.hits(Kind::Throttling) {
            self.note(Kind::Throttling, "refused");
            return Err(slots::too_many());
        }
        if self.meeting.hits(Kind::Errors) {
            return Err(self.fail().await?);
        }
        if self.request.verb == "watch" {
            return self.watch().await;
        }
        if self.meeting.hits(Kind::Cuts) {
            return self.cut(Kind::Cuts).await;
        }
        if self.meeting.hits(Kind::Conflicts) && about.expects_version() && self.touch().await? {
            self.note(Kind::Conflicts, "another writer was faster");
        }
        if self.meeting.hits(Kind::StaleReads)
            && let Some(stale) = self.list_stale().await?
        {
            self.note(Kind::StaleReads, "an earlier state");
            return Ok(stale);
        }
        self.carry_out().await
    }

    async fn carry_out(&self) -> Result<Response<Body>, Status> {
        let verb = self.request.verb;
        self.call.run(verb, self.body.clone()).await
    }

    fn note(&self, kind: Kind, what: &str) {
        self.faults.note(kind, &self.meeting, what);
    }

    /// True if the request is a write that is carried out before it fails.
    fn carried_out(&self, kind: Kind) -> bool {
        let reads = [Method::GET, Method::HEAD].contains(self.call.method);
        !reads && self.faults.below(kind, &self.meeting, 2) == 1
    }

    /// The error that the request is answered with, before or after it is carried out. What is
    /// wrong with the request itself is reported instead.
    async fn fail(&self) -> Result<Status, Status> {
        if self.carried_out(Kind::Errors) {
            self.carry_out().await?;
            self.note(Kind::Errors, "carried out, then an error");
            return Ok(Status::new(500, "", TIMED_OUT));
        }
        self.note(Kind::Errors, "not carried out");
        // The lowest digit decides what is carried out.
        if self.faults.below(Kind::Errors, &self.meeting, 4) < 2 {
            return Ok(Status::internal(LEADER_CHANGED));
        }
        let Request {
            verb,
            group,
            resource,
            ..
        } = self.request;
        Ok(Status::server_timeout(
            group,
            resource,
            verb,
            RETRY_AFTER_SECONDS,
        ))
    }

    /// The connection ends without an answer, before or after the request is carried out.
    async fn cut(&self, kind: Kind) -> Result<Response<Body>, Status> {
        if self.carried_out(kind) {
            // Nobody learns what became of it.
            drop(self.carry_out().await);
            self.note(kind, "carried out, then cut");
        } else {
            self.note(kind, "cut");
        }
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(Cut);
        Ok(response)
    }

    /// Writes the object again as it is, which gives it a new resource version. A real cluster
    /// does the same when it migrates its storage or changes the key of its encryption. Watches
    /// see the change. False if there is no object.
    async fn touch(&self) -> Result<bool, Status> {
        let Target {
            resource,
            namespace,
            name,
            ..
        } = self.call.target;
        let registry: &Registry = &self.call.api.0.registry;
        let storage = resource.stored()?;
        let key = storage.key(namespace, name);
        let Some(stored) = registry.reader.read_key(storage, &key).await? else {
            return Ok(false);
        };
        let current = stored.decoded()?;
        let value = decoded::encode(storage, &current.object)?;
        let lease = registry.lease_for(storage).await?;
        let store = &registry.reader.store;
        let swap = store
            .update(storage, &key, current.revision, value, lease)
            .await?;
        // Otherwise a real writer was faster.
        Ok(matches!(swap, Swap::Done(_)))
    }

    /// The list of an earlier state; `None` where the request demands the newest.
    async fn list_stale(&self) -> Result<Option<Response<Body>>, Status> {
        let call = self.call;
        let Target {
            resource,
            namespace,
            ..
        } = call.target;
        let Some(least) = Listing::read(resource, namespace, call.query)?.at_least() else {
            return Ok(None);
        };
        let newest = call.api.reader().reflector.revision();
        let version = (newest - self.faults.lag(&self.meeting)).max(least).max(1);
        if version >= newest {
            return Ok(None);
        }
        let query = call.query.at(version);
        let call = Call {
            query: &query,
            warnings: Arc::clone(&call.warnings),
            ..*call
        };
        match call.run(self.request.verb, Bytes::new()).await {
            // The store has forgotten that state.
            Err(gone) if gone.code == 410 => Ok(None),
            listed => listed.map(Some),
        }
    }

    /// A watch that may be refused, or delayed and ended early.
    async fn watch(&self) -> Result<Response<Body>, Status> {
        let mut end = None;
        if self.meeting.hits(Kind::WatchExpiry) {
            let how = self.faults.below(Kind::WatchExpiry, &self.meeting, 3);
            if how == 0
                && let Some(refused) = self.refused()
            {
                self.note(Kind::WatchExpiry, "refused as too old");
                return Ok(refused);
            }
            end = Some(if how == 1 {
                watch::End::Clean
            } else {
                watch::End::Expired
            });
        }
        if self.meeting.hits(Kind::Cuts) {
            end = Some(watch::End::Cut);
        }
        let response = self.carry_out().await?;
        Ok(watch::faulted(self, end, response))
    }

    /// The answer to a watch from a revision that is no longer remembered, if it may be.
    fn refused(&self) -> Option<Response<Body>> {
        let asked: i64 = self.call.query.text("resourceVersion").parse().ok()?;
        let newest = self.call.api.reader().reflector.revision();
        if asked == 0 || asked >= newest || self.call.query.given("sendInitialEvents").is_some() {
            return None;
        }
        let accept = self.call.shown().ok()?.accept;
        Some(too_old(asked, accept.encoding))
    }
}
