//! OpenTelemetry spans of calls, with etcd's names and attributes: one span for the call, as in
//! etcd's gRPC layer, and one inside it for the work of etcd's server.
//!
//! The client decides in `traceparent` whether a call is traced. Of calls without it, a configured
//! number per million are traced. Spans are sent to the collector in batches; nothing waits for
//! them.

use std::net::SocketAddr;
use std::time::Duration;

use etcd_api::otlp::{AnyValue, KeyValue, Span, SpanKind, Status, StatusCode, any_value::Value};
use http::HeaderMap;

mod context;
mod export;
mod inner;

pub(crate) use export::Exporter;

use crate::config::TracingConfig;
use context::{Parent, SPAN_ID_BYTES, TRACE_ID_BYTES};
use export::{Finished, Queue};

/// Flags of a span besides those of `traceparent`: it is known whether the parent is remote, and
/// the parent is remote.
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;
const SAMPLED: u32 = 1;

/// gRPC's status codes as OpenTelemetry names them.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Codes that count as server errors: Unknown, DeadlineExceeded, Unimplemented, Internal,
/// Unavailable and DataLoss.
const FAULTS: [usize; 6] = [2, 4, 12, 13, 14, 15];

const UNKNOWN: usize = 2;
const INVALID_ARGUMENT: usize = 3;

/// Starts spans.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// A new trace is sampled if its id (as a 63-bit number) is below this bound.
    bound: u64,
    queue: Queue,
}

/// A traced call that has not ended.
#[derive(Debug)]
pub(crate) struct Open {
    trace_id: [u8; TRACE_ID_BYTES],
    span_id: [u8; SPAN_ID_BYTES],
    parent_id: Option<[u8; SPAN_ID_BYTES]>,
    trace_state: String,
    /// The local address of the connection.
    local: Option<SocketAddr>,
    /// Unix time.
    began: Duration,
    /// When the server's work began and ended, since `began`.
    served: Option<(Duration, Duration)>,
    error: String,
    queue: Queue,
}

/// The result of a call.
pub(crate) struct Outcome<'a> {
    /// The path of the method.
    pub(crate) method: &'static str,
    pub(crate) took: Duration,
    pub(crate) code: usize,
    /// The request message, if it was kept.
    pub(crate) message: Option<&'a [u8]>,
}

impl Tracer {
    /// Must be called inside a runtime.
    pub(crate) fn start(config: &TracingConfig) -> Result<(Tracer, Exporter), String> {
        const MILLION: u64 = 1_000_000;
        let (queue, exporter) = export::start(config)?;
        // As in OpenTelemetry: a fraction of the 63-bit ids.
        let bound = (1 << 63) / MILLION * u64::from(config.sampling_rate);
        Ok((Tracer { bound, queue }, exporter))
    }

    /// Starts a span; `None` if the call is not traced. `began` is Unix time.
    pub(crate) fn begin(
        &self,
        headers: &HeaderMap,
        local: Option<SocketAddr>,
        began: impl FnOnce() -> Duration,
    ) -> Option<Box<Open>> {
        let parent = Parent::of(headers);
        let trace_id = match &parent {
            Some(parent) if parent.sampled => parent.trace_id,
            Some(_) => return None,
            None if self.bound == 0 => return None,
            None => self.sampled_id()?,
        };
        Some(Box::new(Open {
            trace_id,
            span_id: context::random(),
            parent_id: parent.as_ref().map(|parent| parent.span_id),
            trace_state: parent.map_or_else(String::new, |parent| parent.state),
            local,
            began: began(),
            served: None,
            error: String::new(),
            queue: self.queue.clone(),
        }))
    }

    /// The id of a new trace, if it is sampled.
    fn sampled_id(&self) -> Option<[u8; TRACE_ID_BYTES]> {
        let id = context::random::<TRACE_ID_BYTES>();
        let low = id.last_chunk::<8>().copied().unwrap_or_default();
        (u64::from_be_bytes(low) >> 1 < self.bound).then_some(id)
    }
}

impl Open {
    /// Records when the server worked on the call, as times since its begin.
    pub(crate) fn served(&mut self, from: Duration, to: Duration) {
        self.served = Some((from, to));
    }

    /// Records the error text sent to the client.
    pub(crate) fn failed(&mut self, text: String) {
        self.error = text;
    }

    pub(crate) fn end(self, outcome: &Outcome<'_>) {
        let inner = self.inner(outcome);
        let queue = self.queue.clone();
        queue.put(Finished {
            call: self.call(outcome),
            inner,
        });
    }

    fn call(self, outcome: &Outcome<'_>) -> Span {
        let name = outcome.method.trim_start_matches('/');
        let code = CODES.get(outcome.code).unwrap_or(&CODES[UNKNOWN]);
        let mut attributes = vec![text("rpc.method", name), text("rpc.system.name", "grpc")];
        if let Some(local) = self.local {
            attributes.push(text("server.address", local.ip().to_canonical()));
            attributes.push(number("server.port", local.port().into()));
        }
        attributes.push(text("rpc.response.status_code", code));
        let is_fault = FAULTS.contains(&outcome.code);
        Span {
            parent_span_id: self.parent_id.map_or_else(Default::default, bytes),
            name: name.to_owned(),
            kind: SpanKind::Server as i32,
            attributes,
            status: Some(if is_fault {
                Status {
                    message: self.error.clone(),
                    code: StatusCode::Error as i32,
                }
            } else {
                Status::default()
            }),
            flags: SAMPLED | PARENT_IS_KNOWN | PARENT_IS_REMOTE,
            ..self.span(self.span_id, Duration::ZERO, outcome.took)
        }
    }

    /// `None` for calls that did not reach a service, and for those without a server span in etcd.
    fn inner(&self, outcome: &Outcome<'_>) -> Option<Span> {
        let (from, to) = self.served?;
        if outcome.code == INVALID_ARGUMENT {
            return None;
        }
        let (name, attributes) = inner::describe(outcome.method, outcome.message?)?;
        Some(Span {
            parent_span_id: bytes(self.span_id),
            name: name.to_owned(),
            kind: SpanKind::Internal as i32,
            attributes,
            status: Some(Status::default()),
            flags: SAMPLED | PARENT_IS_KNOWN,
            ..self.span(context::random(), from, to)
        })
    }

    fn span(&self, id: [u8; SPAN_ID_BYTES], from: Duration, to: Duration) -> Span {
        let nanos = |after: Duration| (self.began + after).as_nanos() as u64;
        Span {
            trace_id: bytes(self.trace_id),
            span_id: bytes(id),
            trace_state: self.trace_state.clone(),
            start_time_unix_nano: nanos(from),
            end_time_unix_nano: nanos(to),
            ..Span::default()
        }
    }
}

fn bytes<const N: usize>(id: [u8; N]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(&id)
}

fn text(key: &str, value: impl ToString) -> KeyValue {
    attribute(key, Value::StringValue(value.to_string()))
}

fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn flag(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    }
}
