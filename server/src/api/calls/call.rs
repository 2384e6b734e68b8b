//! One gRPC call from its headers to its end: the checks before a service sees it, the counters and
//! log lines when it ends, and etcd's text for errors of the gRPC layer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method as Verb, Response, StatusCode, header};
use percent_encoding::percent_decode;
use tonic::Status;

use super::caller::Caller;
use super::cost::Charge;
use super::metadata::{
    CLIENT_API_VERSION, GRPC_MESSAGE, GRPC_TIMEOUT, HAS_LEADER, TOKEN, status_code,
};
use super::open_calls::OpenCall;
use super::stats::{self, Heard, Served};
use crate::auth::Credentials;
use crate::basics::error::Error;
use crate::config;
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::metrics::{CODES, CallType, METHODS, Method, Metrics, Operation};
use crate::telemetry::spans;

/// Status code of a call whose client went away.
const CANCELED: usize = 1;

/// Status code of an error without a better one.
const UNKNOWN: usize = 2;

/// A header that etcd's gateway adds to the calls it makes.
const GATEWAY_MARK: &str = "grpcgateway-accept";

/// The error of etcd's gRPC layer for bytes that are not a message.
const MALFORMED: &str =
    "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data";

/// Start of the decoder's own error text, as escaped in a header.
const DECODER_TEXT: &[u8] = b"failed%20to%20decode%20Protobuf";

/// Checks that the request is gRPC at all. The error is the whole response.
pub(crate) fn check_http<B>(request: &http::Request<B>) -> Result<(), Box<Response<()>>> {
    let headers = request.headers();
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map_or("", |kind| kind.to_str().unwrap_or(""));
    let refused = |status: StatusCode, grpc: Status| {
        let mut response = grpc.into_http::<()>();
        *response.status_mut() = status;
        Err(Box::new(response))
    };
    let rest = kind.strip_prefix("application/grpc");
    if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';'])) {
        let text = format!("invalid gRPC request content-type {kind:?}");
        return refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Status::invalid_argument(text),
        );
    }
    if request.method() != Verb::POST {
        let text = format!(
            "http2Server.operateHeaders parsed a :method field: {} which should be POST",
            request.method()
        );
        return refused(StatusCode::METHOD_NOT_ALLOWED, Status::internal(text));
    }
    Ok(())
}

/// The error for a path that is not a method.
pub(crate) fn unknown(path: &str) -> Status {
    let Some((service, method)) = path.trim_start_matches('/').rsplit_once('/') else {
        return Status::unimplemented(format!("malformed method name: {path:?}"));
    };
    if METHODS.iter().any(|known| known.service.name() == service) {
        Status::unimplemented(format!("unknown method {method} for service {service}"))
    } else {
        Status::unimplemented(format!("unknown service {service}"))
    }
}

/// The credentials of a call. `certified` is its caller if the flags say that certificates name
/// users. They never do on calls from a JSON gateway, because there it is the gateway's certificate.
pub(super) fn credentials(headers: &HeaderMap, certified: Option<&Caller>) -> Option<Credentials> {
    let token = headers
        .get(&TOKEN)
        .or_else(|| headers.get(header::AUTHORIZATION));
    let token = token.map(|token| Credentials::token_of(token.as_bytes()));
    let common_name = certified
        .filter(|_| !headers.contains_key(GATEWAY_MARK))
        .and_then(|caller| caller.common_name.clone());
    let says_something = token.is_some() || common_name.is_some();
    says_something.then_some(Credentials { token, common_name })
}

/// Refuses what a learner does not answer. Only serializable ranges are allowed; that is checked
/// when the request is decoded.
pub(super) fn check_learner(path: &str, server: &EtcdServer) -> Result<(), Error> {
    const ALLOWED: [&str; 3] = [
        "/etcdserverpb.KV/Range",
        "/etcdserverpb.Maintenance/Status",
        "/etcdserverpb.Maintenance/Snapshot",
    ];
    if server.is_learner() && !ALLOWED.contains(&path) {
        Err(Error::NotSupportedForLearner)
    } else {
        Ok(())
    }
}

/// True if the client wants an error when there is no leader.
pub(super) fn wants_leader(headers: &HeaderMap) -> bool {
    let wish = headers.get(&HAS_LEADER);
    wish.is_some_and(|value| value == "true")
}

/// etcd's checks of the client's metadata.
pub(super) fn check_metadata(
    headers: &HeaderMap,
    streaming: bool,
    server: &EtcdServer,
    metrics: &Metrics,
) -> Result<(), Error> {
    let version = match headers.get(&CLIENT_API_VERSION) {
        None => "unknown",
        Some(value) => {
            std::str::from_utf8(value.as_bytes()).map_err(|_| Error::InvalidClientApiVersion)?
        }
    };
    metrics.client_request(streaming, version);
    if wants_leader(headers) && !server.has_leader() {
        Err(Error::NoLeader)
    } else {
        Ok(())
    }
}

/// The client's timeout, if it sends one: digits and a unit.
pub(crate) fn patience(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    const DIGITS_MAX: usize = 8;
    let Some(value) = headers.get(&GRPC_TIMEOUT) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    let malformed = || {
        let text =
            format!("malformed grpc-timeout: transport: timeout string is malformed: {text:?}");
        Status::internal(text)
    };
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let count: u64 = if digits.len() <= DIGITS_MAX {
        digits.parse().map_err(|_| malformed())?
    } else {
        return Err(malformed());
    };
    let patience = match &text[digits.len()..] {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return Err(malformed()),
    };
    Ok(Some(patience))
}

/// Replaces the decoder's own error text with etcd's.
fn reword(headers: &mut HeaderMap) {
    if headers
        .get(&GRPC_MESSAGE)
        .is_some_and(|text| text.as_bytes().starts_with(DECODER_TEXT))
    {
        // This header needs no escapes for spaces and printable ASCII.
        headers.insert(&GRPC_MESSAGE, HeaderValue::from_static(MALFORMED));
    }
}

/// Counts a call when it ends. Dropped without a status, it counts as cancelled by the client.
pub(super) struct Ended {
    metrics: Arc<Metrics>,
    method: usize,
    limits: CallLimits,
    began: Began,
    code: Option<usize>,
    readonly: bool,
    /// Number of keys in the response, if a handler recorded it.
    counted: i64,
    sent_messages: u64,
    sent_bytes: u64,
    /// `None`: the call is not traced.
    span: Option<Box<spans::Open>>,
    /// Where the call comes from, if a line is to say how it ended.
    logged: Option<SocketAddr>,
}

/// What is known of a call at its start.
pub(super) struct Began {
    pub(super) at: Instant,
    /// The request, for logging and cost accounting. `None`: a stream without keys.
    pub(super) heard: Option<Heard>,
    pub(super) charge: Charge,
    /// Counts the call as open on its connection for as long as it lasts.
    pub(super) _open: OpenCall,
}

/// The settings that affect calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallLimits {
    /// Slower calls are logged.
    pub(super) slow: Duration,
    pub(super) extensive: bool,
}

impl Ended {
    pub(super) fn new(
        metrics: Arc<Metrics>,
        method: usize,
        limits: CallLimits,
        began: Began,
    ) -> Ended {
        Ended {
            metrics,
            method,
            limits,
            began,
            code: None,
            readonly: false,
            counted: 0,
            sent_messages: 0,
            sent_bytes: 0,
            span: None,
            logged: None,
        }
    }

    pub(super) fn log(&mut self, peer: SocketAddr) {
        self.logged = Some(peer);
    }

    pub(super) fn trace(&mut self, span: Option<Box<spans::Open>>) {
        self.span = span;
    }

    /// Records that the call was given to its service at `since` (`None`: it was not) and is
    /// answered now.
    pub(super) fn served(&mut self, since: Option<Duration>) {
        if let (Some(span), Some(since)) = (&mut self.span, since) {
            span.served(since, self.began.at.elapsed());
        }
    }

    /// Time since the call began; zero if the call is not traced.
    pub(super) fn handed_over(&self) -> Duration {
        match &self.span {
            Some(_) => self.began.at.elapsed(),
            None => Duration::ZERO,
        }
    }

    pub(super) fn with(&mut self, code: usize) {
        self.code.get_or_insert(code);
    }

    /// Takes the status from headers or trailers, if present.
    pub(super) fn with_status(&mut self, headers: &mut HeaderMap) {
        let Some(code) = status_code(headers) else {
            return;
        };
        reword(headers);
        self.with(code);
        if let (Some(span), Some(text)) = (&mut self.span, headers.get(&GRPC_MESSAGE)) {
            let text = percent_decode(text.as_bytes()).decode_utf8_lossy();
            span.failed(text.into_owned());
        }
    }

    pub(super) fn counted(&mut self, keys: i64) {
        self.counted = keys;
    }

    pub(super) fn readonly(&mut self) {
        self.readonly = true;
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent_messages += 1;
        self.sent_bytes += bytes as u64;
        self.metrics.calls.of(self.method).sent.inc();
        self.metrics.client_sent_bytes.add(bytes as u64);
        let prefix = self.began.heard.as_ref().and_then(Heard::prefix);
        self.began.charge.sent(&self.metrics, prefix, bytes);
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let method = &METHODS[self.method];
        let call = self.metrics.calls.of(self.method);
        let code = self.code.unwrap_or(CANCELED);
        call.handled(code);
        // As in etcd, an error counts as the sent message of a unary call.
        if self.code.is_some() && self.sent_messages == 0 && method.call_type == CallType::Unary {
            call.sent.inc();
        }
        let elapsed = self.began.at.elapsed();
        if self.limits.extensive {
            call.handling.observe(elapsed);
        }
        if let Some(peer) = self.logged {
            log(
                method,
                peer,
                CODES.get(code).unwrap_or(&CODES[UNKNOWN]),
                elapsed,
            );
        }
        let success = code == 0;
        let is_range = method.path == "/etcdserverpb.KV/Range";
        // Operations that go through the log are timed there.
        if is_range || self.readonly {
            let operation = if is_range {
                Operation::Range
            } else {
                Operation::ReadonlyTxn
            };
            self.metrics
                .request_duration
                .of(operation, success)
                .observe(elapsed);
        }
        if is_range {
            self.metrics.range_duration[usize::from(success)].observe(elapsed);
        }
        if let Some(span) = self.span.take() {
            let heard = self.began.heard.as_ref();
            let (message, _) = heard.map_or((None, 0), Heard::message);
            span.end(&spans::Outcome {
                method: method.path,
                took: elapsed,
                code,
                message: message.as_deref(),
            });
        }
        if let Some(heard) = &self.began.heard {
            let served = Served {
                path: method.path,
                took: elapsed,
                slow: elapsed > self.limits.slow,
                count: self.counted,
                bytes: self.sent_bytes,
            };
            stats::log(heard, &served);
        }
    }
}

/// The line for a call that has ended. The names are those of etcd's proxy.
fn log(method: &Method, peer: SocketAddr, code: &str, took: Duration) {
    tracing::info!(
        "grpc.service" = method.service.name(),
        "grpc.method" = method.name(),
        "peer.address" = %peer,
        "grpc.code" = code,
        "grpc.duration" = config::duration(took),
        "finished a call"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_paths_get_etcds_words() {
        let cases = [
            (
                "/etcdserverpb.KV/Foo",
                "unknown method Foo for service etcdserverpb.KV",
            ),
            ("/x.Y/Foo", "unknown service x.Y"),
            ("/foo", "malformed method name: \"/foo\""),
            (
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                "unknown service grpc.reflection.v1.ServerReflection",
            ),
        ];
        for (path, text) in cases {
            let status = unknown(path);
            assert_eq!(
                (status.code(), status.message()),
                (tonic::Code::Unimplemented, text)
            );
        }
    }

    #[test]
    fn a_clients_patience_is_read_in_its_unit() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_static(text));
            patience(&headers).map_err(|status| status.code())
        };
        assert_eq!(patience(&HeaderMap::new()).unwrap(), None);
        assert_eq!(
            read("99999999H"),
            Ok(Some(Duration::from_secs(359_999_996_400)))
        );
        assert_eq!(read("2M"), Ok(Some(Duration::from_secs(120))));
        assert_eq!(read("1S"), Ok(Some(Duration::from_secs(1))));
        assert_eq!(read("250m"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(read("7u"), Ok(Some(Duration::from_micros(7))));
        assert_eq!(read("0n"), Ok(Some(Duration::ZERO)));
        for malformed in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S"] {
            assert_eq!(read(malformed), Err(tonic::Code::Internal), "{malformed}");
        }
    }

    #[test]
    fn what_is_not_grpc_is_refused() {
        let request = |verb, kind: &'static str| {
            http::Request::builder()
                .method(verb)
                .header(header::CONTENT_TYPE, kind)
                .body(())
                .map(|request| check_http(&request).map_err(|response| response.status().as_u16()))
                .unwrap()
        };
        assert_eq!(request(Verb::POST, "application/grpc"), Ok(()));
        assert_eq!(request(Verb::POST, "application/grpc+proto"), Ok(()));
        assert_eq!(request(Verb::POST, "application/json"), Err(415));
        assert_eq!(request(Verb::POST, "application/grpcx"), Err(415));
        assert_eq!(request(Verb::GET, "application/grpc"), Err(405));
    }
}
