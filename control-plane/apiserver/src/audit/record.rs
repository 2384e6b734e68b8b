//! What is known of one request while it is served.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use machinery::{name, object};
use parking_lot::Mutex;
use serde_json::Value;

use super::Log;
use super::event::{Event, ObjectRef, ResponseStatus};
use super::policy::{Level, Stage, Verdict};
use crate::auth::Attributes;
use crate::auth::impersonate::Impersonated;
use crate::basics::clock;
use machinery::time::Timestamp;

/// Upper bound of the name of a client's program, in bytes. The rest is cut.
const USER_AGENT_BYTES_MAX: usize = 1024;
const USER_AGENT_CUT: &str = "...TRUNCATED";

/// What is known of a request when it is authenticated.
pub(crate) struct Beginning<'a> {
    pub(crate) id: &'a str,
    /// Path and query.
    pub(crate) uri: &'a str,
    /// With the user, unless `authenticated` is false.
    pub(crate) attributes: &'a Attributes,
    pub(crate) authenticated: bool,
    /// The version of the API; empty for a path that is no resource.
    pub(crate) version: &'a str,
    pub(crate) source_ips: Vec<IpAddr>,
    pub(crate) user_agent: &'a str,
    pub(crate) received: Timestamp,
}

/// The record of one request, which its events are made of.
pub(crate) struct Record {
    log: Arc<Log>,
    verdict: Verdict,
    event: Mutex<Event>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Record").finish_non_exhaustive()
    }
}

impl Record {
    /// Begins to record a request; `None` if the policy says that nothing is recorded of it.
    pub(crate) fn begin(log: &Arc<Log>, about: Beginning<'_>) -> Option<Arc<Record>> {
        let asked = about.attributes;
        let verdict = log.policy.decide(asked, about.authenticated);
        log.metrics.count_level(verdict.level);
        if verdict.level == Level::None {
            return None;
        }
        let object = asked.is_resource().then(|| ObjectRef {
            resource: asked.resource.clone(),
            namespace: asked.namespace.clone(),
            name: asked.name.clone(),
            api_group: asked.api_group.clone(),
            api_version: about.version.to_owned(),
            subresource: asked.subresource.clone(),
            ..ObjectRef::default()
        });
        let event = Event {
            level: verdict.level,
            id: about.id.to_owned(),
            uri: about.uri.to_owned(),
            verb: asked.verb.clone(),
            user: about.authenticated.then(|| asked.user.clone()),
            source_ips: about.source_ips,
            user_agent: cut(about.user_agent),
            object,
            received: about.received,
            ..Event::default()
        };
        Some(Arc::new(Record {
            log: Arc::clone(log),
            verdict,
            event: Mutex::new(event),
        }))
    }

    /// How much is recorded.
    pub(crate) fn level(&self) -> Level {
        self.verdict.level
    }

    /// Adds an annotation. The first one of a key stays.
    pub(crate) fn annotate(&self, key: &str, value: String) {
        let mut event = self.event.lock();
        if let Some(first) = event.annotations.get(key) {
            if *first != value {
                let id = &event.id;
                tracing::warn!(key, value, first, id, "an audit annotation was set before");
            }
            return;
        }
        event.annotations.insert(key.to_owned(), value);
    }

    /// Adds an annotation of admission, whose keys have a prefix, if events say as much as `level`.
    pub(crate) fn annotate_admission(&self, level: Level, key: &str, value: String) {
        let mut parts = key.split('/');
        let is_pair = (parts.next(), parts.next(), parts.next());
        if !matches!(is_pair, (Some(_), Some(_), None)) || !name::qualified_name(key).is_empty() {
            tracing::warn!(key, "an audit annotation whose key is no qualified name");
        } else if level <= self.level() {
            self.annotate(key, value);
        }
    }

    /// Notes whom the requester acts as.
    pub(crate) fn impersonates(&self, other: &Impersonated) {
        let mut event = self.event.lock();
        event.impersonated = Some(other.user.clone());
        event.constraint = other.constraint;
    }

    /// Notes the object of a request. `complete` is called for the object as it is recorded.
    pub(crate) fn request_object(&self, sent: &Value, complete: impl FnOnce(&mut Value)) {
        let recorded = (self.level() >= Level::Request).then(|| {
            let mut object = sent.clone();
            complete(&mut object);
            self.to_json(object)
        });
        let mut event = self.event.lock();
        let reference = event.object.get_or_insert_default();
        let fill = |field: &mut String, value: &str| {
            if field.is_empty() {
                field.push_str(value);
            }
        };
        fill(&mut reference.namespace, object::namespace(sent));
        fill(&mut reference.name, object::name(sent));
        fill(&mut reference.uid, object::uid(sent));
        fill(
            &mut reference.resource_version,
            object::resource_version(sent),
        );
        if recorded.is_some() {
            event.request = recorded;
        }
    }

    /// Notes a patch, in JSON. One that cannot be read is recorded as a text.
    pub(crate) fn request_patch(&self, patch: &[u8], to_json: impl FnOnce(&[u8]) -> Option<Value>) {
        if self.level() < Level::Request {
            return;
        }
        let value: Option<Value> = serde_json::from_slice(patch).ok();
        let value = value.or_else(|| to_json(patch));
        let value = value.unwrap_or_else(|| String::from_utf8_lossy(patch).into());
        self.event.lock().request = Some(value.to_string().into());
    }

    /// Notes what the client is answered; `body` is the object of the response if it is one.
    pub(crate) fn answered(&self, status: ResponseStatus, body: Option<Value>) {
        let body = body.filter(|_| self.level() >= Level::RequestResponse);
        let body = body.map(|body| self.to_json(body));
        let mut event = self.event.lock();
        event.status = Some(status);
        event.response = body;
    }

    /// Writes the event of a stage, unless the policy omits it. False if the request must fail
    /// because the event could not be stored.
    pub(crate) async fn reach(&self, stage: Stage) -> bool {
        match self.render(stage) {
            Some(rendered) => self.log.process(rendered).await,
            None => true,
        }
    }

    /// The same for the last stage, from where nothing can wait.
    pub(crate) fn complete_detached(&self) {
        if let Some(rendered) = self.render(Stage::ResponseComplete) {
            self.log.process_detached(rendered);
        }
    }

    fn render(&self, stage: Stage) -> Option<Vec<Option<Bytes>>> {
        if self.verdict.omits(stage) {
            return None;
        }
        let event = self.event.lock();
        let at = match stage {
            Stage::RequestReceived => event.received,
            _ => clock::now(),
        };
        Some(self.log.render(&event, stage, at))
    }

    fn to_json(&self, mut object: Value) -> Bytes {
        if self.verdict.omit_managed_fields {
            drop_managed_fields(&mut object);
        }
        crate::storage::decoded::to_json(&object)
    }
}

/// Removes the managed fields of an object, of the items of a list and of the rows of a table.
fn drop_managed_fields(value: &mut Value) {
    object::remove(value, &["metadata", "managedFields"]);
    for key in ["items", "rows"] {
        let items = value.get_mut(key).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            object::remove(item, &["metadata", "managedFields"]);
            object::remove(item, &["object", "metadata", "managedFields"]);
        }
    }
}

fn cut(user_agent: &str) -> String {
    if user_agent.len() <= USER_AGENT_BYTES_MAX {
        return user_agent.to_owned();
    }
    let end = user_agent.floor_char_boundary(USER_AGENT_BYTES_MAX);
    format!("{}{USER_AGENT_CUT}", &user_agent[..end])
}
