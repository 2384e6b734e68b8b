//! The JSON gateway under `/v3/`: etcd's API for clients without gRPC.
//!
//! A request's JSON is encoded as a protobuf message and sent to the router that serves gRPC, as
//! the body of an ordinary call. So the rules for gRPC hold here too. The response is converted
//! back to JSON. Both conversions use the tables of `etcd_api::descriptor`; no method is
//! special-cased.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use etcd_api::descriptor::Method;
use http::header::{CONTENT_TYPE, HeaderValue, TRAILER, WWW_AUTHENTICATE};
use http::{HeaderMap, Method as Verb, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyStream, Full, StreamBody};
use percent_encoding::percent_decode_str;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::StreamExt as _;
use tonic::{Code, Status, body};

mod decode;
mod encode;
mod headers;
mod lines;
mod number;
mod paths;
mod scan;
mod socket;
mod text;
mod values;

use crate::api::calls::body::BoxError;
use crate::api::calls::caller::Caller;
use crate::api::calls::router::Router;
use crate::config::Config;
pub(crate) use decode::decode;
pub(crate) use encode::{Escape, encode};
use lines::Lines;
use paths::Paths;
#[cfg(any(test, fuzzing))]
pub(crate) use scan::Scanner;
use values::{Calls, Values, framed};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Content type of a form, the only kind of request that may override its method.
const FORM: &str = "application/x-www-form-urlencoded";

/// Completes at the client's deadline, if it set one.
type Late = Option<Pin<Box<Sleep>>>;

/// What to do with the rest of a body after the one value that makes the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Read it to its end, so that the connection can be reused.
    Read,
    /// Leave it; it ends with the connection, and nothing waits for that.
    Left,
}

/// Cheap to clone: every request gets a clone.
#[derive(Clone)]
pub(crate) struct Translator {
    router: Router,
    paths: Arc<Paths>,
    /// Limits concurrent calls. etcd's gateway uses one connection to its own server, whose streams
    /// are limited.
    streams: Arc<Semaphore>,
    max_message_bytes: usize,
    stopping: watch::Receiver<bool>,
}

impl Translator {
    pub(crate) fn new(
        router: Router,
        config: &Config,
        stopping: watch::Receiver<bool>,
    ) -> Translator {
        let streams = config.max_concurrent_streams as usize;
        Translator {
            router,
            paths: Arc::new(paths::paths()),
            streams: Arc::new(Semaphore::new(streams.min(Semaphore::MAX_PERMITS))),
            max_message_bytes: config.max_message_bytes(),
            stopping,
        }
    }

    /// Answers a request whose path begins with `/v3/`.
    pub(crate) async fn answer<B>(&self, mut request: Request<B>) -> Response<body::Body>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        if socket::is_upgrade(request.headers()) {
            return socket::upgrade(self.clone(), &mut request);
        }
        let answered = self.call(request, Rest::Read).await;
        answered.unwrap_or_else(|status| refusal(&status))
    }

    /// Answers the call of a WebSocket.
    async fn answer_socket(&self, request: Request<socket::Incoming>) -> Response<body::Body> {
        let answered = self.call(request, Rest::Left).await;
        answered.unwrap_or_else(|status| refusal(&status))
    }

    async fn call<B>(&self, request: Request<B>, rest: Rest) -> Result<Response<body::Body>, Status>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let path = percent_decode_str(request.uri().path()).decode_utf8_lossy();
        let method = self.paths.get(path.as_ref()).copied();
        let overridden = overridden(&request);
        let post = overridden.as_ref().unwrap_or(request.method()) == Verb::POST;
        let method = match method {
            None => return Err(Status::not_found("Not Found")),
            Some(_) if !post => return Err(Status::unimplemented("Method Not Allowed")),
            Some(method) => method,
        };
        let mut late = headers::timeout(request.headers())?.map(|time| Box::pin(sleep(time)));
        let mut call = Request::new(());
        *call.method_mut() = Verb::POST;
        *call.uri_mut() = http::Uri::from_static(method.path);
        *call.headers_mut() = headers::metadata(request.headers())?;
        // etcd's gateway makes calls over its own connection, so the client's certificate does not
        // identify a user there.
        if let Some(caller) = request.extensions().get::<Caller>() {
            call.extensions_mut().insert(Caller {
                common_name: None,
                ..caller.clone()
            });
        }
        let trailers = headers::wants_trailers(request.headers());
        // Go parses the form first, which consumes the body.
        let body = overridden.is_none().then(|| request.into_body());
        let mut values = Values::new(body, self.max_message_bytes, self.router.receiving());
        if method.client_streaming {
            let permit = self.permit(&mut late).await?;
            let call = call.map(|()| Calls::new(values, method.input));
            self.stream(call, method, late, permit).await
        } else {
            let value = values.first().await;
            if rest == Rest::Read {
                values.discard().await;
            }
            drop(values);
            let value = value?.unwrap_or_else(|| b"{}".to_vec());
            let message = decode(&value, method.input).map_err(Status::invalid_argument)?;
            drop(value);
            let permit = self.permit(&mut late).await?;
            let call = call.map(|()| Full::new(framed(&message)));
            if method.server_streaming {
                self.stream(call, method, late, permit).await
            } else {
                self.unary(call, method, late, permit, trailers).await
            }
        }
    }

    /// Waits for a free slot for one more call.
    async fn permit(&self, late: &mut Late) -> Result<OwnedSemaphorePermit, Status> {
        let permit = in_time(late, Arc::clone(&self.streams).acquire_owned()).await?;
        permit.map_err(|_| Status::unavailable("the gateway is closed"))
    }

    async fn unary<B>(
        &self,
        call: Request<B>,
        method: &'static Method,
        mut late: Late,
        permit: OwnedSemaphorePermit,
        trailers: bool,
    ) -> Result<Response<body::Body>, Status>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let answered = async {
            let Ok(response) = self.router.clone().call(call).await;
            let mut lines = Lines::new(response, method, None, permit);
            lines.only_message().await
        };
        let message = match in_time(&mut late, answered).await? {
            Ok(message) => message,
            Err(status) if trailers => return Ok(refusal_with_trailers(&status)),
            Err(status) => return Err(status),
        };
        let mut json = Vec::with_capacity(message.len() * 3 / 2);
        encode(&message, method.output, Escape::Json, &mut json)
            .map_err(|encode::Malformed| Status::internal("failed to marshal the response"))?;
        let mut response = Response::new(body::Body::new(Full::new(json.into())));
        answered_headers(response.headers_mut());
        Ok(response)
    }

    async fn stream<B>(
        &self,
        call: Request<B>,
        method: &'static Method,
        late: Late,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response<body::Body>, Status>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let Ok(response) = self.router.clone().call(call).await;
        let mut lines = Lines::new(response, method, late, permit);
        // The first line decides the HTTP status: it may be an error.
        let first = lines.peek().await;
        let code = first.map(|first| first.as_ref().err().map(Status::code));
        let mut response = Response::new(body::Body::new(lines));
        match code {
            None => {}
            Some(None) => answered_headers(response.headers_mut()),
            Some(Some(code)) => {
                *response.status_mut() = http_status(code);
                response.headers_mut().insert(CONTENT_TYPE, JSON);
            }
        }
        Ok(response)
    }
}

/// The method that a form requests in the header `X-HTTP-Method-Override`.
fn overridden<B>(request: &Request<B>) -> Option<Verb> {
    let headers = request.headers();
    let wish = headers.get("x-http-method-override")?.to_str().ok()?;
    let form = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == FORM);
    let asked = !wish.is_empty() && form && request.method() == Verb::POST;
    asked.then(|| Verb::from_bytes(wish.to_uppercase().as_bytes()).unwrap_or(Verb::GET))
}

fn answered_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(
        "grpc-metadata-content-type",
        HeaderValue::from_static("application/grpc"),
    );
}

/// A response that consists of one error.
fn refusal(status: &Status) -> Response<body::Body> {
    let mut json = Vec::new();
    put_status(status, Escape::Json, &mut json);
    let mut response = Response::new(body::Body::new(Full::new(json.into())));
    *response.status_mut() = http_status(status.code());
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    if status.code() == Code::Unauthenticated
        && let Ok(text) = HeaderValue::from_str(status.message())
    {
        response.headers_mut().insert(WWW_AUTHENTICATE, text);
    }
    response
}

/// The error of a call. etcd's gateway sets no headers of its own here, except that it announces
/// one of its trailers to clients that want trailers.
fn refusal_with_trailers(status: &Status) -> Response<body::Body> {
    let mut response = refusal(status);
    let names = HeaderValue::from_static("Grpc-Trailer-Content-Type");
    response.headers_mut().insert(TRAILER, names);
    let mut trailers = HeaderMap::new();
    let grpc = HeaderValue::from_static("application/grpc");
    trailers.insert("grpc-trailer-content-type", grpc);
    response.map(|json| {
        let frames = BodyStream::new(json).chain(tokio_stream::once(Ok(Frame::trailers(trailers))));
        body::Body::new(StreamBody::new(frames))
    })
}

fn put_status(status: &Status, escape: Escape, out: &mut Vec<u8>) {
    out.extend(format!("{{\"code\":{}", status.code() as i32).bytes());
    if !status.message().is_empty() {
        out.extend(b",\"message\":");
        encode::put_text(status.message(), escape, out);
    }
    out.push(b'}');
}

/// Waits for `answer`, up to the client's deadline.
async fn in_time<T>(late: &mut Late, answer: impl Future<Output = T>) -> Result<T, Status> {
    let Some(late) = late else {
        return Ok(answer.await);
    };
    // Timers are coarser than a client's timeout may be.
    if late.deadline() <= Instant::now() {
        return Err(out_of_time());
    }
    tokio::select! {
        biased;
        () = late => Err(out_of_time()),
        answer = answer => Ok(answer),
    }
}

fn out_of_time() -> Status {
    Status::deadline_exceeded("context deadline exceeded")
}

fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        // The client closed the request. 499 has no registered name.
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
