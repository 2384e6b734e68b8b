//! "request stats": the log line for a slow unary call, or for every unary call at debug level.
//! Fields and values are etcd's, except that values written by clients are omitted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes};
use etcd_api::etcdserverpb as pb;
use parking_lot::Mutex;
use prost::Message;

use super::caller::Caller;
use super::cost::Charge;
use crate::config;
use crate::telemetry::loggable;
use crate::telemetry::metrics::cost::{Row, RowCell};
use crate::telemetry::metrics::{CallType, Method, Metrics};
use crate::telemetry::prefix::{self, Form};

/// Larger requests are logged with their size only, so that a slow call does not keep its request
/// in memory twice.
const HEARD_BYTES_MAX: usize = 64 << 10;

/// Compression flag and length, in front of a message.
const PREFIX_BYTES: usize = 5;

/// A request as it arrived, and its sender.
#[derive(Clone)]
pub(crate) struct Heard(Arc<Inner>);

struct Inner {
    remote: Option<SocketAddr>,
    /// `None` for a stream: streams are not logged, so nothing is kept.
    parts: Option<Mutex<Parts>>,
    /// Where the message holds its first key; `None` if it has no key.
    form: Option<Form>,
    prefix: RowCell,
}

#[derive(Default)]
struct Parts {
    bytes: usize,
    /// Usually the whole request, shared with its receiver. Cleared once the request is too large.
    first: Bytes,
    /// Copied: each piece would keep the whole buffer that it arrived in.
    more: Vec<u8>,
}

/// The outcome of a call.
pub(super) struct Served {
    pub(super) path: &'static str,
    pub(super) took: Duration,
    pub(super) slow: bool,
    pub(super) count: i64,
    pub(super) bytes: u64,
}

impl Heard {
    /// `None` for a stream without keys.
    pub(super) fn of(
        form: Option<Form>,
        method: &Method,
        caller: Option<&Caller>,
    ) -> Option<Heard> {
        let is_unary = method.call_type == CallType::Unary;
        if !is_unary && form.is_none() {
            return None;
        }
        Some(Heard(Arc::new(Inner {
            remote: caller.and_then(|caller| caller.remote),
            parts: is_unary.then(Mutex::default),
            form,
            prefix: RowCell::default(),
        })))
    }

    /// Adds the next bytes. Returns the prefix row that the call is counted
    /// under.
    pub(super) fn add(&self, data: &Bytes, charge: Charge, metrics: &Metrics) -> Option<Row> {
        let inner = &*self.0;
        if let Some(parts) = &inner.parts {
            let mut heard = parts.lock();
            heard.bytes += data.len();
            if heard.bytes > HEARD_BYTES_MAX {
                (heard.first, heard.more) = Default::default();
            } else if heard.first.is_empty() {
                heard.first = data.clone();
            } else {
                heard.more.extend_from_slice(data);
            }
        }
        if inner.form.is_some() && inner.prefix.get().is_none() {
            let message = data.get(PREFIX_BYTES..).unwrap_or_default();
            let key = inner.form.and_then(|form| prefix::first_key(form, message));
            inner.prefix.set(charge.found(metrics, key));
        }
        inner.prefix.get()
    }

    /// The prefix row of the call; `None` if it has none, or if its request has not arrived yet.
    pub(super) fn prefix(&self) -> Option<Row> {
        self.0.prefix.get()
    }

    /// The message, if it was kept, and its length.
    pub(super) fn message(&self) -> (Option<Bytes>, usize) {
        let Some(parts) = &self.0.parts else {
            return (None, 0);
        };
        let heard = parts.lock();
        let length = heard.bytes.saturating_sub(PREFIX_BYTES);
        if heard.first.is_empty() {
            return (None, length);
        }
        let mut message = if heard.more.is_empty() {
            heard.first.clone()
        } else {
            [&heard.first[..], &heard.more].concat().into()
        };
        message.advance(PREFIX_BYTES.min(message.len()));
        (Some(message), length)
    }
}

pub(super) fn log(heard: &Heard, served: &Served) {
    let is_told = served.slow || tracing::event_enabled!(tracing::Level::DEBUG);
    if heard.0.parts.is_none() || !is_told {
        return;
    }
    let stats = Stats::of(heard, served);
    let remote = match heard.0.remote {
        Some(remote) => remote.to_string(),
        None => "No remote client info.".to_owned(),
    };
    let start = start(served.took);
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                "start time" = start,
                "time spent" = config::duration(served.took),
                remote,
                "response type" = served.path,
                "request count" = stats.request_count,
                "request size" = stats.request_size,
                "response count" = stats.response_count,
                "response size" = stats.response_size,
                "request content" = stats.content,
                "request stats"
            )
        };
    }
    if served.slow {
        line!(warn)
    } else {
        line!(debug)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Stats {
    request_count: i64,
    request_size: i64,
    response_count: i64,
    response_size: i64,
    content: String,
}

impl Stats {
    fn of(heard: &Heard, served: &Served) -> Stats {
        let (message, length) = heard.message();
        let known = |request_count, content: Option<String>| Stats {
            request_count,
            request_size: length as i64,
            response_count: served.count,
            response_size: served.bytes as i64,
            content: content.unwrap_or_else(|| format!("{length} bytes, too long to show")),
        };
        match served.path {
            "/etcdserverpb.KV/Range" => known(0, content(message, loggable::range)),
            "/etcdserverpb.KV/Put" => known(1, content(message, loggable::put)),
            "/etcdserverpb.KV/DeleteRange" => known(0, content(message, loggable::delete_range)),
            "/etcdserverpb.KV/Txn" => {
                let count = |txn: &pb::TxnRequest| txn.success.len().to_string();
                let operations = content(message.clone(), count);
                let count = operations.and_then(|count| count.parse().ok());
                known(count.unwrap_or(0), content(message, loggable::txn))
            }
            _ => Stats {
                request_count: -1,
                request_size: -1,
                response_count: -1,
                response_size: -1,
                content: String::new(),
            },
        }
    }
}

fn content<M: Message + Default>(
    message: Option<Bytes>,
    text: impl Fn(&M) -> String,
) -> Option<String> {
    let message = M::decode(message?).ok()?;
    Some(text(&message))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the log names the time of day, in the shell"
)]
fn start(took: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    crate::telemetry::logging::timestamp(now.unwrap_or_default().saturating_sub(took))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(message: &impl Message) -> Heard {
        let heard = Heard(Arc::new(Inner {
            remote: None,
            parts: Some(Mutex::default()),
            form: None,
            prefix: RowCell::default(),
        }));
        let (charge, metrics) = (Charge::default(), Metrics::default());
        let bytes = [&[0; PREFIX_BYTES][..], &message.encode_to_vec()].concat();
        // The result must not depend on how the bytes are cut.
        for part in bytes.chunks(7) {
            heard.add(&Bytes::copy_from_slice(part), charge, &metrics);
        }
        heard
    }

    fn served(path: &'static str) -> Served {
        Served {
            path,
            took: Duration::ZERO,
            slow: true,
            count: 3,
            bytes: 100,
        }
    }

    #[test]
    fn a_request_is_shown_without_its_value() {
        let put = pb::PutRequest {
            key: "foo".into(),
            value: "secret".into(),
            ..Default::default()
        };
        let stats = Stats::of(&heard(&put), &served("/etcdserverpb.KV/Put"));
        assert_eq!(
            stats,
            Stats {
                request_count: 1,
                request_size: put.encoded_len() as i64,
                response_count: 3,
                response_size: 100,
                content: "key:\"foo\" value_size:6".to_owned(),
            }
        );
        let stats = Stats::of(
            &heard(&pb::StatusRequest::default()),
            &served("/etcdserverpb.Maintenance/Status"),
        );
        assert_eq!((stats.request_count, stats.content.as_str()), (-1, ""));
    }

    #[test]
    fn small_pieces_do_not_keep_the_buffers_that_they_came_in() {
        let heard = heard(&pb::PutRequest::default());
        let buffer = Bytes::from(vec![b'x'; HEARD_BYTES_MAX]);
        heard.add(&buffer.slice(..1), Charge::default(), &Metrics::default());
        assert!(buffer.is_unique());
    }

    #[test]
    fn a_long_request_is_not_kept() {
        let put = pb::PutRequest {
            key: "foo".into(),
            value: vec![b'x'; HEARD_BYTES_MAX].into(),
            ..Default::default()
        };
        let heard = heard(&put);
        assert!(heard.message().0.is_none());
        let stats = Stats::of(&heard, &served("/etcdserverpb.KV/Put"));
        assert_eq!(stats.request_size, put.encoded_len() as i64);
        assert!(stats.content.ends_with("too long to show"));
    }
}
