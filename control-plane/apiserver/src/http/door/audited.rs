//! Requests as the audit log sees them: when they are received, when their response begins, and
//! when it ends.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use machinery::protobuf;
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::audit::{Beginning, Level, Log, Record, ResponseStatus, Stage};
use crate::auth::{Attributes, User, authorize::rbac, metrics};
use crate::basics::clock;
use crate::http::answer::reply;
use crate::http::api::Api;
use crate::http::limits::sending::Room;
use crate::http::media::{JSON, yaml};
use crate::http::pass::Passed;
use crate::http::question::request::{Info, Remote};

const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";

/// Verbs and subresources whose responses may last long.
const LONG_VERBS: [&str; 2] = ["watch", "proxy"];
const LONG_SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
/// How a response in JSON begins whose object is a Status.
const STATUS: &[u8] = b"{\"kind\":\"Status\"";
/// Upper bound of a Status that tells of success, in bytes.
const STATUS_BYTES_MAX: u64 = 64 << 10;

/// What the audit log does about one request: nothing, unless there is a log.
pub(crate) struct Auditing<'a> {
    log: Option<&'a Arc<Log>>,
    id: &'a str,
    received: Timestamp,
    record: Option<Arc<Record>>,
    end: End,
}

/// Which events a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// One when it is complete.
    Short,
    /// One more when it begins.
    Long,
    /// One when it begins, and no more.
    Refused,
}

impl<'a> Auditing<'a> {
    /// The state of a request that has just been received, with this audit id.
    pub(crate) fn of(api: &'a Api, id: &'a str) -> Auditing<'a> {
        let log = api.0.audit.as_ref();
        Auditing {
            log,
            id,
            received: log.map(|_| clock::now()).unwrap_or_default(),
            record: None,
            end: End::Short,
        }
    }

    /// The record of the request, if it is recorded.
    pub(crate) fn record(&self) -> Option<&Arc<Record>> {
        self.record.as_ref()
    }

    /// Adds annotations.
    pub(crate) fn annotate(&self, annotations: Vec<(&'static str, String)>) {
        for (key, value) in annotations {
            if let Some(record) = &self.record {
                record.annotate(key, value);
            }
        }
    }

    /// Notes a request whose user is not known.
    pub(crate) fn refused(&mut self, parts: &Parts, info: &Info) {
        if let Some(log) = self.log {
            self.record = self.begun(log, parts, info, None);
            self.end = End::Refused;
        }
    }

    /// Notes a request of a user. The error is the response to a request that must fail because
    /// its event could not be stored.
    pub(crate) async fn begin(
        &mut self,
        parts: &Parts,
        info: &Info,
        user: &User,
    ) -> Result<(), Response<Body>> {
        let Some(log) = self.log else { return Ok(()) };
        let Some(record) = self.begun(log, parts, info, Some(user)) else {
            return Ok(());
        };
        // From here on, a request that is given up has a last event.
        self.record = Some(Arc::clone(&record));
        if !record.reach(Stage::RequestReceived).await {
            self.record = None;
            log.count_rejected();
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            let uri = uri(parts);
            let why = "failed to store audit event";
            let text = format!("Internal Server Error: {uri:?}: {why}\n");
            return Err(reply::text(code, text));
        }
        if is_long(info) {
            self.end = End::Long;
        }
        Ok(())
    }

    fn begun(
        &self,
        log: &Arc<Log>,
        parts: &Parts,
        info: &Info,
        user: Option<&User>,
    ) -> Option<Arc<Record>> {
        let attributes = Attributes {
            user: user.cloned().unwrap_or_default(),
            ..info.attributes.clone()
        };
        let user_agent = parts.headers.get(USER_AGENT);
        let user_agent = user_agent.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let about = Beginning {
            id: self.id,
            uri: uri(parts),
            attributes: &attributes,
            authenticated: user.is_some(),
            version: &info.version,
            source_ips: source_ips(parts),
            user_agent: user_agent.as_deref().unwrap_or_default(),
            received: self.received,
        };
        Record::begin(log, about)
    }

    /// Authorizes a request, and notes the decision. The inner error is the response if there is
    /// no decision.
    pub(crate) async fn authorize(
        &self,
        api: &Api,
        parts: &Parts,
        asked: &Attributes,
    ) -> Result<Result<(), Response<Body>>, Status> {
        let annotate = |key: &str, value: String| {
            if let Some(record) = &self.record {
                record.annotate(key, value);
            }
        };
        let authorizer = &api.0.registry.authorizer;
        let begin = Instant::now();
        let decision = authorizer.decide(api.reader(), asked).await;
        metrics::authorized(decision.as_ref().ok(), begin.elapsed());
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => {
                annotate(REASON, "internal error".into());
                return Err(error);
            }
        };
        if decision.allowed {
            annotate(DECISION, "allow".into());
            annotate(REASON, decision.reason);
            return Ok(Ok(()));
        }
        if let Some(why) = decision.error {
            annotate(REASON, "internal error".into());
            let text = format!("Internal Server Error: {:?}: {why}\n", uri(parts));
            return Ok(Err(reply::text(StatusCode::INTERNAL_SERVER_ERROR, text)));
        }
        annotate(DECISION, "forbid".into());
        annotate(REASON, decision.reason.clone());
        Err(rbac::forbidden(asked, &decision.reason))
    }

    /// Writes the events about a response.
    pub(crate) async fn finish(mut self, response: Response<Body>) -> Response<Body> {
        let Some(record) = self.record.clone() else {
            return response;
        };
        let code = response.status().as_u16();
        // What another server answers is not held here.
        let passed = response.extensions().get::<Passed>().is_some();
        let streams = passed || self.end == End::Long && code < 400;
        let (response, object) = if streams {
            (response, None)
        } else {
            read(response, record.level()).await
        };
        let is_status = |object: &&Value| object["kind"] == "Status";
        let status = match object.as_ref().filter(is_status) {
            Some(object) => ResponseStatus::of_object(code, object),
            None => ResponseStatus::of_code(code),
        };
        record.answered(status, object);
        self.record = None;
        match self.end {
            End::Short => {
                record.reach(Stage::ResponseComplete).await;
                response
            }
            End::Refused => {
                record.reach(Stage::ResponseStarted).await;
                response
            }
            End::Long => {
                let started = Arc::clone(&record);
                let response = response.map(|body| {
                    let record = Some(record);
                    Body::new(Completing { body, record })
                });
                started.reach(Stage::ResponseStarted).await;
                response
            }
        }
    }
}

impl Drop for Auditing<'_> {
    /// Nobody waits for the response any more.
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            let closed = json!({"status": "Success", "message": "Connection closed early"});
            record.answered(ResponseStatus::of_object(200, &closed), None);
            record.complete_detached();
        }
    }
}

/// A long response. Its last event is written when it ends, or is given up.
struct Completing {
    body: Body,
    /// `None` once the event is written.
    record: Option<Arc<Record>>,
}

impl Completing {
    fn complete(&mut self) {
        if let Some(record) = self.record.take() {
            record.complete_detached();
        }
    }
}

impl Drop for Completing {
    fn drop(&mut self) {
        self.complete();
    }
}

impl http_body::Body for Completing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = frame {
            self.complete();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The object of a response, if events show it: a Status, or at the highest level any object.
async fn read(response: Response<Body>, level: Level) -> (Response<Body>, Option<Value>) {
    let any = level >= Level::RequestResponse || response.status().as_u16() >= 400;
    // A large answer is not held here without need: it comes in pieces, as its client reads it.
    let size = response.body().size_hint().exact();
    if !any && size.is_some_and(|size| size > STATUS_BYTES_MAX) {
        return (response, None);
    }
    let (parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => {
            tracing::warn!(%error, "a response cannot be read for the audit log");
            return (Response::from_parts(parts, Body::empty()), None);
        }
    };
    let media_type = parts.headers.get(CONTENT_TYPE);
    let media_type = media_type.and_then(|value| value.to_str().ok());
    let object = match media_type {
        Some(JSON) if any || bytes.starts_with(STATUS) => serde_json::from_slice(&bytes).ok(),
        Some(protobuf::MEDIA_TYPE) => {
            let is_status =
                || matches!(protobuf::decode_type(&bytes), Ok((_, kind)) if kind == "Status");
            (any || is_status())
                .then(|| protobuf::decode(&bytes).ok())
                .flatten()
        }
        Some("application/yaml") => yaml::to_value(&bytes),
        _ => None,
    };
    // The documents of OpenAPI have no kind: they are no objects.
    let object = object.filter(|object: &Value| object.get("kind").is_some());
    // It is on its way as before, whole and in memory.
    let body = match parts.extensions.get::<Room>() {
        Some(room) => room.clone().keep(Body::from(bytes)),
        None => Body::from(bytes),
    };
    (Response::from_parts(parts, body), object)
}

/// True if the response may last as long as its client likes.
pub(crate) fn is_long(info: &Info) -> bool {
    let asked = &info.attributes;
    LONG_VERBS.contains(&asked.verb.as_str())
        || info.is_resource() && LONG_SUBRESOURCES.contains(&asked.subresource.as_str())
}

/// Path and query as the client sent them.
fn uri(parts: &Parts) -> &str {
    let sent = parts.uri.path_and_query();
    sent.map_or("/", |sent| sent.as_str())
}

/// The addresses that a request came by: those that proxies name, then that of the connection.
fn source_ips(parts: &Parts) -> Vec<IpAddr> {
    let text = |name: &str| header(&parts.headers, name);
    let mut all: Vec<IpAddr> = text("x-forwarded-for")
        .split(',')
        .filter_map(|address| address.trim().parse().ok())
        .collect();
    if let Ok(real) = text("x-real-ip").parse()
        && !all.contains(&real)
    {
        all.push(real);
    }
    if let Some(Remote(address)) = parts.extensions.get() {
        let address = address.to_canonical();
        if all.last() != Some(&address) {
            all.push(address);
        }
    }
    all
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::http::limits::sending::LargeAnswers;

    /// A body of this many bytes that nobody may read yet.
    struct Unread(u64);

    impl http_body::Body for Unread {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            panic!("it is read")
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    #[tokio::test]
    async fn a_large_answer_is_read_only_for_an_event_that_shows_it() {
        for level in [Level::Metadata, Level::Request] {
            let size = 100 << 20;
            let large = Response::new(Body::new(Unread(size)));
            let (large, object) = read(large, level).await;
            assert_eq!(
                (large.body().size_hint().exact(), object),
                (Some(size), None)
            );
        }
        let status = r#"{"kind":"Status","status":"Success"}"#;
        let mut response = Response::new(Body::from(status));
        let json = http::HeaderValue::from_static(JSON);
        response.headers_mut().insert(CONTENT_TYPE, json);
        let (_, object) = read(response, Level::Metadata).await;
        assert_eq!(object.unwrap()["status"], "Success");
    }

    #[tokio::test]
    async fn a_large_answer_that_is_read_for_an_event_keeps_its_room() {
        let answers = LargeAnswers::default();
        let all = answers.room();
        let large = Response::new(Body::from(vec![b' '; 1 << 20]));
        let large = answers.send(large, Duration::from_secs(60)).await;
        let (read, _) = read(large, Level::RequestResponse).await;
        let (_, body) = read.into_parts();
        assert_eq!(answers.room(), all - (1 << 20));
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 1 << 20);
        assert_eq!(answers.room(), all);
    }
}
