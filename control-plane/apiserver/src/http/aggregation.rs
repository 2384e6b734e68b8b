//! Aggregation: an APIService says that another server serves a version of a group. Requests for it
//! are passed on to that server, which believes this one about their users.
//!
//! What this server serves itself, it never passes on. Users are authenticated and authorized here
//! before; admission is up to the other server.

mod available;
mod peer;

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::Incoming;
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::{name, object};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::auth::User;
use crate::auth::pki::Identity;
use crate::http::openapi::Document;
use crate::registry::api_service::{AVAILABLE, GROUP, PLURAL, is_remote};
use crate::storage::reader::Reader;
use peer::Peer;

pub(crate) use available::follow;

/// Characters of the name of a header that stand for themselves.
const IN_HEADERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// The other servers.
#[derive(Default)]
pub(crate) struct Aggregator {
    /// What this server shows them, so that they believe it.
    identity: Option<Identity>,
    /// By the names of their APIServices.
    peers: Mutex<HashMap<String, Arc<Peer>>>,
}

/// A version of a group that another server serves.
#[derive(PartialEq)]
pub(crate) struct Remote {
    pub(crate) group: String,
    pub(crate) version: String,
    /// The greater, the earlier among groups.
    pub(crate) group_priority: i64,
    /// The greater, the earlier among the versions of its group.
    pub(crate) version_priority: i64,
    /// The APIService says that requests can be passed on.
    pub(crate) is_available: bool,
    /// The list of its resources as it was seen last, and whether it still was at the last look.
    pub(crate) resources: Option<(Arc<Value>, bool)>,
    /// Where its OpenAPI document was seen last.
    pub(crate) document: Option<String>,
    /// What its document of OpenAPI v2 said last about this version.
    pub(crate) old_document: Option<Arc<[u8]>>,
}

impl Aggregator {
    /// Shows `identity` to other servers.
    pub(crate) fn new(identity: Option<Identity>) -> Aggregator {
        Aggregator {
            identity,
            peers: Mutex::default(),
        }
    }

    /// Returns the APIService of a version that another server serves.
    pub(crate) fn service(reader: &Reader, group: &str, version: &str) -> Option<Arc<Value>> {
        if reader.reflector.catalogue().serves_version(group, version) {
            return None;
        }
        let found = reader.cached(kind()?, "", &format!("{version}.{group}"))?;
        is_remote(&found).then_some(found)
    }

    /// All versions that other servers serve, in the order of discovery.
    pub(crate) fn all(&self, reader: &Reader) -> Vec<Remote> {
        let services = kind().map(|kind| reader.cached_readable(kind, ""));
        let catalogue = reader.reflector.catalogue();
        let mut all = Vec::new();
        for one in services.iter().flatten().filter(|one| is_remote(one)) {
            let text = |key: &str| object::text(one, &["spec", key]).to_owned();
            let number = |key: &str| object::integer(one, &["spec", key]).unwrap_or_default();
            let (group, version) = (text("group"), text("version"));
            if catalogue.serves_version(&group, &version) {
                continue;
            }
            let peer = self.peers.lock().get(object::name(one)).cloned();
            all.push(Remote {
                group,
                version,
                group_priority: number("groupPriorityMinimum"),
                version_priority: number("versionPriority"),
                is_available: is_available(one),
                document: peer.as_ref().and_then(|peer| peer.document()),
                old_document: peer.as_ref().and_then(|peer| peer.old_document()),
                resources: peer.and_then(|peer| peer.resources()),
            });
        }
        // A group is as important as its most important version.
        let mut priorities: HashMap<String, i64> = HashMap::new();
        for one in &all {
            let priority = priorities.entry(one.group.clone()).or_default();
            *priority = one.group_priority.max(*priority);
        }
        let priority = |one: &Remote| priorities[&one.group];
        all.sort_by(|a, b| {
            let by_group = priority(b).cmp(&priority(a));
            by_group
                .then_with(|| a.group.cmp(&b.group))
                .then_with(|| b.version_priority.cmp(&a.version_priority))
                .then_with(|| name::compare_versions(&b.version, &a.version))
        });
        all
    }

    /// The OpenAPI v3 document of a version whose server has none, made of its document of v2.
    pub(crate) fn converted(
        &self,
        reader: &Reader,
        group: &str,
        version: &str,
    ) -> Option<Document> {
        let service = Aggregator::service(reader, group, version)?;
        let peers = self.peers.lock();
        let peer = peers.get(object::name(&service));
        peer.filter(|peer| peer.is_of(&service))?.converted()
    }

    /// Sends a request to the server behind an APIService; waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        reader: &Reader,
        service: &Value,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, String> {
        self.peer(service).send(reader, request).await
    }

    /// The server behind an APIService, as its present state says.
    fn peer(&self, service: &Value) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        let name = object::name(service);
        if let Some(peer) = peers.get(name)
            && peer.is_of(service)
        {
            return Arc::clone(peer);
        }
        let peer = Arc::new(Peer::of(service, self.identity.as_ref()));
        peers.insert(name.to_owned(), Arc::clone(&peer));
        peer
    }

    /// Forgets the servers of other APIServices.
    fn keep(&self, services: &[Arc<Value>]) {
        let mut peers = self.peers.lock();
        peers.retain(|name, _| services.iter().any(|one| object::name(one) == name));
    }
}

fn kind() -> Option<&'static Arc<Kind>> {
    schema::resource(GROUP, "v1", PLURAL)
}

/// True if the APIService says that requests can be passed on.
pub(crate) fn is_available(service: &Value) -> bool {
    let mut all = object::items(service, &["status", "conditions"]).iter();
    all.any(|one| one["type"] == AVAILABLE && one["status"] == "True")
}

/// Says in headers who sends a request. Fails if a part of the user fits into no header: another
/// server must not take the user for somebody else.
pub(crate) fn name_user(headers: &mut HeaderMap, user: &User) -> Result<(), Status> {
    let mut add = |name: &str, value: &str| {
        // Whoever reads a header takes blanks at its ends away, and another user may have that name.
        let is_whole = value.trim_matches([' ', '\t']).len() == value.len();
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_bytes(value.as_bytes());
        let (Ok(name), Ok(value), true) = (name, value, is_whole) else {
            let why = "the name, a group or an attribute of the user fits into no header";
            return Err(Status::bad_request(why));
        };
        headers.append(name, value);
        Ok(())
    };
    add("x-remote-user", &user.name)?;
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid)?;
    }
    for group in &user.groups {
        add("x-remote-group", group)?;
    }
    for (key, values) in &user.extra {
        let key = utf8_percent_encode(key, IN_HEADERS);
        for value in values {
            add(&format!("x-remote-extra-{key}"), value)?;
        }
    }
    Ok(())
}
