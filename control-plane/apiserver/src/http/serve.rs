//! One request from its head to its response: authentication, authorization, routing and execution.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use machinery::status::Status;

use crate::aggregation::pass::Destination;
use crate::auth::{Attributes, User};
use crate::clock;
use crate::http::api::Api;
use crate::http::audited::Auditing;
use crate::http::call::Call;
use crate::http::media::pretty;
use crate::http::media::{Accept, Encoding};
use crate::http::nonresource;
use crate::http::reply;
use crate::http::request::{self, Info, Query};
use crate::http::slots::{Received, Turn};

/// The header with the id of a request.
const AUDIT_ID: &str = "Audit-Id";
/// Time limit of one request, its body included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

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
    let answer = answer(&api, &mut parts, body, &mut auditing);
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, answer).await;
    let answer = answer.unwrap_or_else(|_| {
        let text = "request did not complete within the allotted timeout";
        Err(Status::new(504, "Timeout", format!("Timeout: {text}")))
    });
    let response = answer.unwrap_or_else(|error| reply::error(&error, encoding));
    let mut response = auditing.finish(response).await;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if pretty::is_wanted(&parts.headers, &query) {
        response = match pretty::indented(response).await {
            Ok(response) => response,
            Err(error) => reply::error(&error, encoding),
        };
    }
    response.headers_mut().insert(AUDIT_ID, id);
    if head {
        *response.body_mut() = Body::empty();
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

async fn answer(
    api: &Api,
    parts: &mut Parts,
    body: Body,
    auditing: &mut Auditing<'_>,
) -> Result<Response<Body>, Status> {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let segments = request::segments(parts.uri.path());
    let path = segments.as_deref().unwrap_or_default();
    let info = Info::read(&parts.method, path, &query);
    let user = match enter(api, parts, &info, auditing).await? {
        Ok(user) => user,
        Err(response) => return Ok(response),
    };
    let Some(segments) = segments else {
        return Ok(reply::text(StatusCode::NOT_FOUND, "404 page not found\n"));
    };
    let attributes = Attributes {
        user,
        ..info.attributes.clone()
    };
    let turn = Turn {
        slots: &api.0.slots,
        exempt: is_probe(&info) || api.0.registry.authorizer.is_exempt(&attributes.user),
        reads: [Method::GET, Method::HEAD].contains(&parts.method),
    };
    if info.is_resource() {
        // What decides about writes is read from the caches. Empty ones would let everything pass.
        api.reader().reflector.loaded().await;
    }
    let mut slot = turn.enter()?;
    // Authorization comes first: only users who may ask learn whether a path exists.
    auditing.authorize(api, &attributes).await?;
    if let Some(destination) = Destination::of(api, &segments) {
        // A slow body must not hold a slot that others need.
        drop(slot);
        let asked = (&*parts, &*segments, &query);
        return destination.pass(api, asked, &attributes.user, body).await;
    }
    let target = if info.is_resource() {
        request::route(&api.reader().reflector.catalogue(), &info)?
    } else {
        None
    };
    let Some(target) = target else {
        return nonresource::answer(api, parts, &segments);
    };
    if !request::takes(&parts.method, &info, &target) {
        return Err(Status::method_not_allowed());
    }
    let call = Call {
        api,
        user: &attributes.user,
        target: &target,
        query: &query,
        method: &parts.method,
        headers: &parts.headers,
        audit: auditing.record().map(|record| &**record),
        warnings: Arc::default(),
    };
    let mut received = Received::default();
    if !turn.reads {
        // A slow body must not hold a slot that others need.
        drop(slot);
        received = turn.receive(body).await?;
        slot = turn.enter()?;
    }
    let answer = call.run(&attributes.verb, received.take()).await;
    drop(slot);
    call.warned(answer)
}

/// Finds out as whom a request is served. The inner error is a response in its place.
async fn enter(
    api: &Api,
    parts: &mut Parts,
    info: &Info,
    auditing: &mut Auditing<'_>,
) -> Result<Result<User, Response<Body>>, Status> {
    let (reader, authenticator) = (api.reader(), &api.0.registry.authenticator);
    if let Some(user) = parts.extensions.remove::<User>() {
        let begun = auditing.begin(parts, info, &user).await;
        return Ok(begun.map(|()| user));
    }
    let user = match authenticator.authenticate(reader, parts).await {
        Ok(user) => user,
        Err(error) => {
            auditing.refused(parts, info);
            return Err(error);
        }
    };
    if let Err(response) = auditing.begin(parts, info, &user).await {
        return Ok(Err(response));
    }
    let Some(other) = authenticator.impersonate(reader, &user, parts).await? else {
        return Ok(Ok(user));
    };
    if let Some(record) = auditing.record() {
        record.impersonates(&other);
    }
    Ok(Ok(other))
}

/// True for a probe of the server's health.
fn is_probe(info: &Info) -> bool {
    let path = &info.attributes.path;
    let probes = ["/healthz", "/livez", "/readyz"].iter();
    !info.is_resource() && probes.into_iter().any(|probe| path.starts_with(probe))
}
