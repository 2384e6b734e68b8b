//! One request from its head to its response: authentication, authorization, routing and execution.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use machinery::status::Status;

use crate::auth::{Attributes, User};
use crate::clock;
use crate::http::api::Api;
use crate::http::call::Call;
use crate::http::media::pretty;
use crate::http::media::{Accept, Encoding};
use crate::http::nonresource;
use crate::http::reply;
use crate::http::request::{self, Info, Query};
use crate::http::slots::{Received, Turn};

/// Time limit of one request, its body included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves a request; errors are responses too.
pub(crate) async fn serve(api: Api, request: Request<Body>) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let audit = parts.headers.get("Audit-Id").cloned();
    let encoding = match Accept::negotiate(&parts.headers, true) {
        Ok(accept) => accept.encoding,
        Err(_) => Encoding::Json,
    };
    let head = parts.method == Method::HEAD;
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, answer(&api, &mut parts, body)).await;
    let answer = answer.unwrap_or_else(|_| {
        let text = "request did not complete within the allotted timeout";
        Err(Status::new(504, "Timeout", format!("Timeout: {text}")))
    });
    let mut response = answer.unwrap_or_else(|error| reply::error(&error, encoding));
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if pretty::is_wanted(&parts.headers, &query) {
        response = match pretty::indented(response).await {
            Ok(response) => response,
            Err(error) => reply::error(&error, encoding),
        };
    }
    let audit = audit.or_else(|| HeaderValue::from_str(&clock::uid()).ok());
    if let Some(audit) = audit {
        response.headers_mut().insert("Audit-Id", audit);
    }
    if head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn answer(api: &Api, parts: &mut Parts, body: Body) -> Result<Response<Body>, Status> {
    let reader = api.reader();
    let user = match parts.extensions.remove::<User>() {
        Some(user) => user,
        None => {
            api.0
                .registry
                .authenticator
                .authenticate(reader, parts)
                .await?
        }
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let path = parts.uri.path();
    let Some(segments) = request::segments(path) else {
        return Ok(reply::text(StatusCode::NOT_FOUND, "404 page not found\n"));
    };
    let info = Info::read(&parts.method, &segments, &query);
    let attributes = Attributes {
        user,
        ..info.attributes.clone()
    };
    let turn = Turn {
        slots: &api.0.slots,
        exempt: is_probe(&info) || api.0.registry.authorizer.is_exempt(&attributes.user),
        reads: [Method::GET, Method::HEAD].contains(&parts.method),
    };
    let mut slot = turn.enter()?;
    // Authorization comes first: only users who may ask learn whether a path exists.
    api.0
        .registry
        .authorizer
        .authorize(reader, &attributes)
        .await?;
    let target = if info.is_resource() {
        request::route(&reader.reflector.catalogue(), &info)?
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

/// True for a probe of the server's health.
fn is_probe(info: &Info) -> bool {
    let path = &info.attributes.path;
    let probes = ["/healthz", "/livez", "/readyz"].iter();
    !info.is_resource() && probes.into_iter().any(|probe| path.starts_with(probe))
}
