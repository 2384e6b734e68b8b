//! One request from its head to its response: authentication, authorization, routing and execution.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use machinery::status::Status;
use tokio::time::Instant;

use crate::auth::notes::Notes;
use crate::auth::user::ANONYMOUS;
use crate::auth::{Attributes, User, metrics};
use crate::basics::steps::Step;
use crate::basics::{clock, waits};
use crate::flow::FlowControl;
use crate::flow::rules::{Flow, Schema};
use crate::http::answer::reply;
use crate::http::api::Api;
use crate::http::call::Call;
use crate::http::door::audited::{self, Auditing};
use crate::http::door::fair;
use crate::http::door::faulted;
use crate::http::door::room::Through;
use crate::http::door::socket::Watched;
use crate::http::limits::Limits;
use crate::http::limits::slots::{Limit, Received, Turn};
use crate::http::media::pretty;
use crate::http::media::{Accept, Encoding};
use crate::http::metrics::Counted;
use crate::http::nonresource;
use crate::http::pass::Destination;
use crate::http::question::request::{self, Info, Query, Target};

/// The header with the id of a request.
const AUDIT_ID: &str = "Audit-Id";
/// Time limit of one request, its body included. A client may ask for less.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A request may wait for its seats for this part of its time.
const WAIT_PART: u32 = 4;

/// The seats of a server with these limits; `None` if they are not shared by priority.
pub(crate) fn flow_control(limits: &Limits) -> Option<FlowControl> {
    let seats = limits.reads.saturating_add(limits.writes);
    let seats = u32::try_from(seats).unwrap_or(u32::MAX);
    let control = || FlowControl::new(seats, REQUEST_TIMEOUT / WAIT_PART);
    limits.fair.then(control)
}

/// Serves a request; errors are responses too.
pub(crate) async fn serve(api: Api, request: Request<Body>) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let id = audit_id(&parts.headers);
    let encoding = match Accept::negotiate(&parts.headers, true) {
        Ok(accept) => accept.encoding,
        Err(_) => Encoding::Json,
    };
    let head = parts.method == Method::HEAD;
    let shown = String::from_utf8_lossy(id.as_bytes());
    let mut auditing = Auditing::of(&api, &shown);
    let mut context = ResponseContext::default();
    let (answer, waited) = {
        // Pinned here: a future that an async function takes by value is in its memory twice.
        let answer = pin!(answer(&api, &mut parts, body, &mut auditing, &mut context));
        waits::of(answer).await
    };
    let response = answer.unwrap_or_else(|error| reply::error(&error, encoding));
    let mut response = auditing.finish(response).await;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    // A client that accepts none of the media types may be a person, so Kubernetes indents that.
    let is_for_people = response.status() == StatusCode::NOT_ACCEPTABLE;
    if is_for_people || pretty::is_wanted(&parts.headers, query.given("pretty")) {
        response = match pretty::indented(response).await {
            Ok(response) => response,
            Err(error) => reply::error(&error, encoding),
        };
    }
    response.headers_mut().insert(AUDIT_ID, id);
    reply::warn(&mut response, &context.warnings);
    if let Some(counted) = context.counted {
        counted.end(&response, waited);
    }
    if let Some(schema) = context.schema {
        fair::show(&schema, response.headers_mut());
    }
    if head {
        let body = std::mem::take(response.body_mut());
        if let Some(length) = body.size_hint().exact() {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
    }
    response
}

/// The id that the client gives its request, or a new one.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(AUDIT_ID).filter(|id| !id.is_empty());
    given.cloned().unwrap_or_else(|| {
        // A uid has only digits and letters.
        HeaderValue::from_str(&clock::uid()).unwrap_or(HeaderValue::from_static(""))
    })
}

/// What every response to a request needs, also a refusal.
#[derive(Default)]
struct ResponseContext {
    /// The schema that its request has.
    schema: Option<Arc<Schema>>,
    /// What authentication warns of.
    warnings: Vec<String>,
    /// What metrics count it as.
    counted: Option<Counted>,
}

/// Answers a request within its time, and tells which schema it has.
async fn answer(
    api: &Api,
    parts: &mut Parts,
    body: Body,
    auditing: &mut Auditing<'_>,
    context: &mut ResponseContext,
) -> Result<Response<Body>, Status> {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let path = request::decoded(parts.uri.path()).map(Cow::into_owned);
    let segments = path.as_deref().map(request::segments);
    let info = Info::read(
        &parts.method,
        path.as_deref().unwrap_or_default(),
        segments.as_deref().unwrap_or_default(),
        &query,
    );
    context.counted = Some(Counted::of(parts, &info, &query));
    let limit = match time_limit(&info, &query) {
        Ok(limit) => limit,
        Err(error) => {
            auditing.refused(parts, &info);
            return Err(error);
        }
    };
    let asked = (&info, &query, segments);
    let answer = pin!(answer_asked(api, parts, body, asked, auditing, context));
    tokio::time::timeout(limit, answer)
        .await
        .unwrap_or_else(|_| {
            let text = "request did not complete within the allotted timeout";
            Err(Status::new(504, "Timeout", format!("Timeout: {text}")))
        })
}

/// How long a request may take: as long as its client asks for, within the limit of the server.
/// What lasts as long as its client likes is not bounded so.
fn time_limit(info: &Info, query: &Query) -> Result<Duration, Status> {
    let asked = query.given("timeout").filter(|text| !text.is_empty());
    let Some(asked) = asked.filter(|_| !audited::is_long(info)) else {
        return Ok(REQUEST_TIMEOUT);
    };
    let nanos = go_text::parse_duration(asked).map_err(|why| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })?;
    Ok(match u64::try_from(nanos) {
        Ok(nanos) if nanos > 0 => Duration::from_nanos(nanos).min(REQUEST_TIMEOUT),
        // No limit of the client, as in Kubernetes.
        _ => REQUEST_TIMEOUT,
    })
}

/// Answers a request whose path and query are read. There are no segments of an invalid path.
async fn answer_asked(
    api: &Api,
    parts: &mut Parts,
    body: Body,
    (info, query, segments): (&Info, &Query, Option<Vec<String>>),
    auditing: &mut Auditing<'_>,
    context: &mut ResponseContext,
) -> Result<Response<Body>, Status> {
    let attributes = match enter(api, parts, info, auditing, &mut context.warnings).await? {
        Ok(user) => Attributes {
            user,
            ..info.attributes.clone()
        },
        Err(response) => return Ok(response),
    };
    let Some(segments) = segments else {
        return Ok(reply::text(StatusCode::NOT_FOUND, "404 page not found\n"));
    };
    if info.is_resource() {
        // What decides about writes is read from the caches. Empty ones would let everything pass.
        api.reader().reflector.loaded().await;
    }
    let flow = fair::flow(api, info, &attributes);
    context.schema = flow.as_ref().map(|flow| Arc::clone(&flow.schema));
    let turn = turn(api, parts, info, &attributes, flow.as_ref());
    let running = turn.enter(true).await?;
    // Authorization comes first: only users who may ask learn whether a path exists.
    if let Err(response) = auditing.authorize(api, parts, &attributes).await? {
        return Ok(response);
    }
    if let Some(destination) = Destination::of(api, &parts.method, &segments) {
        context.counted.iter_mut().for_each(Counted::serve);
        let asked = (&*parts, &*segments, query);
        // What lasts as long as its client likes, and a slow body, must not hold seats that others
        // need.
        let is_long = audited::is_long(info);
        let _running = (turn.reads && !is_long).then_some(running);
        let limit = (!is_long).then_some(REQUEST_TIMEOUT);
        return destination
            .pass(api, asked, &attributes.user, body, limit)
            .await;
    }
    // Asked first: what comes in between must not be called absent.
    let all_known = api.0.registry.steps.has(Step::Definitions);
    let target = target(api, info)?;
    // Not before it is known that the resource exists: anybody may make up names of others.
    context.counted.iter_mut().for_each(Counted::serve);
    let Some(target) = target else {
        return nonresource::answer(api, parts, &segments, all_known).await;
    };
    if !request::takes(&parts.method, info, &target) {
        return Err(Status::method_not_allowed());
    }
    let call = Call {
        api,
        user: &attributes.user,
        target: &target,
        query,
        method: &parts.method,
        headers: &parts.headers,
        audit: auditing.record().map(|record| &**record),
        warnings: Arc::default(),
    };
    let (running, mut received) = if turn.reads {
        (running, Received::default())
    } else {
        turn.receive_from(running, body).await?
    };
    let answer = carry_out(parts, &call, &attributes, received.take()).await;
    drop(running);
    call.warned(answer)
}

/// What a request is about, if that is a resource.
fn target(api: &Api, info: &Info) -> Result<Option<Target>, Status> {
    if !info.is_resource() {
        return Ok(None);
    }
    request::route(&api.reader().reflector.catalogue(), info)
}

/// What a request may take.
fn turn<'a>(
    api: &'a Api,
    parts: &Parts,
    info: &Info,
    attributes: &Attributes,
    flow: Option<&'a Flow>,
) -> Turn<'a> {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let exempt = is_probe(info) || api.0.registry.authorizer.is_exempt(&attributes.user);
    Turn {
        slots: &api.0.slots,
        exempt,
        reads: [Method::GET, Method::HEAD].contains(&parts.method),
        limit: match (&api.0.flow, flow) {
            (Some(control), Some(flow)) => Limit::Seats {
                control,
                flow,
                seats: fair::seats(api, info, &query),
            },
            (None, _) if !exempt => Limit::Slots,
            _ => Limit::Nothing,
        },
    }
}

/// Answers a call, or lets it meet a fault.
async fn carry_out(
    parts: &Parts,
    call: &Call<'_>,
    attributes: &Attributes,
    body: Bytes,
) -> Result<Response<Body>, Status> {
    let faults = call.api.0.faults.as_ref();
    let mut answer = match faults.filter(|_| faulted::concerns(parts, call.user, call.target)) {
        None => call.run(&attributes.verb, body).await?,
        // Boxed, so that requests without faults are no larger.
        Some(faults) => Box::pin(faulted::run(faults, call, attributes, body)).await?,
    };
    if attributes.verb == "watch" {
        answer.extensions_mut().insert(Watched);
    }
    // The call keeps its permit until there is room: otherwise fairness would let more and more
    // answers into memory that nobody reads.
    Ok(call.api.0.answers.send(answer, REQUEST_TIMEOUT).await)
}

/// Finds out as whom a request is served. The inner error is a response in its place.
async fn enter(
    api: &Api,
    parts: &mut Parts,
    info: &Info,
    auditing: &mut Auditing<'_>,
    warnings: &mut Vec<String>,
) -> Result<Result<User, Response<Body>>, Status> {
    let (reader, authenticator) = (api.reader(), &api.0.registry.authenticator);
    if let Some(user) = parts.extensions.remove::<User>() {
        let begun = auditing.begin(parts, info, &user).await;
        return Ok(begun.map(|()| user));
    }
    let notes = Notes::default();
    let begin = Instant::now();
    let user = authenticator.authenticate(reader, parts, &notes).await;
    let shows = parts.headers.contains_key(AUTHORIZATION);
    metrics::authenticated(user.as_ref().ok(), shows, begin.elapsed());
    if let Some(through) = parts.extensions.get::<Through>() {
        match &user {
            Ok(user) if user.name != ANONYMOUS => through.note(user),
            // One connection of HTTP/2 can ask for much. Who shows no credentials needs another
            // one for each request, as in Kubernetes.
            _ if parts.version == Version::HTTP_2 => through.let_go(),
            _ => {}
        }
    }
    let noted = notes.take();
    warnings.extend(noted.warnings);
    let user = match user {
        Ok(user) => user,
        Err(error) => {
            auditing.refused(parts, info);
            auditing.annotate(noted.annotations);
            return Err(error);
        }
    };
    if let Err(response) = auditing.begin(parts, info, &user).await {
        return Ok(Err(response));
    }
    auditing.annotate(noted.annotations);
    let asked = Attributes {
        user,
        ..info.attributes.clone()
    };
    let Some(other) = authenticator.impersonate(reader, &asked, parts).await? else {
        return Ok(Ok(asked.user));
    };
    if let Some(record) = auditing.record() {
        record.impersonates(&other);
    }
    Ok(Ok(other.user))
}

/// True for a probe of the server's health, or of one part of it.
fn is_probe(info: &Info) -> bool {
    let path = &info.attributes.path;
    let rest = |probe| path.strip_prefix(probe);
    let mut rests = ["/healthz", "/livez", "/readyz"]
        .into_iter()
        .filter_map(rest);
    !info.is_resource() && rests.any(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_ask_for_less_time() {
        let limit = |method: Method, path: &str, asked: &str| {
            let query = Query::parse(asked);
            let info = Info::read(&method, path, &request::segments(path), &query);
            time_limit(&info, &query).map_err(|error| (error.code, error.message))
        };
        let pods = "/api/v1/namespaces/default/pods";
        let list = |asked: &str| limit(Method::GET, pods, asked);
        assert_eq!(list("timeout=1.5s"), Ok(Duration::from_millis(1500)));
        for asked in ["", "timeout=", "timeout=0s", "timeout=-3s", "timeout=2h"] {
            assert_eq!(list(asked), Ok(REQUEST_TIMEOUT), "{asked}");
        }
        let why = "invalid timeout specified in the request URL - \
                   time: missing unit in duration \"5\"";
        assert_eq!(list("timeout=5"), Err((400, why.to_owned())));
        // What lasts as long as its client likes.
        assert_eq!(list("watch=1&timeout=5"), Ok(REQUEST_TIMEOUT));
        let log = format!("{pods}/a/log");
        assert_eq!(limit(Method::GET, &log, "timeout=1s"), Ok(REQUEST_TIMEOUT));
    }

    fn size<F: Future>(_: fn(Api, Request<Body>) -> F) -> usize {
        size_of::<F>()
    }

    /// Many requests wait at a time, and each is moved when it begins.
    #[test]
    fn a_request_is_small() {
        let size = size(serve);
        assert!(size < 16 << 10, "{size} bytes");
    }
}
