//! Finds entries that are slow to apply (`--warning-apply-duration`).

use std::time::Duration;

use raft::Now;

use crate::basics::error::Error;
use crate::member::event::Outcome;
use crate::request::Request;
use crate::telemetry::loggable;

/// A clock for entries, and the limit above which they are slow.
pub struct Stopwatch {
    limit: Duration,
    now: Box<dyn Fn() -> Now + Send>,
}

/// A slow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    pub took: Duration,
    pub limit: Duration,
    pub request: String,
    pub response: String,
    pub error: Option<String>,
}

impl Stopwatch {
    /// Calls `now` twice for each entry.
    pub fn new(limit: Duration, now: impl Fn() -> Now + Send + 'static) -> Stopwatch {
        Stopwatch {
            limit,
            now: Box::new(now),
        }
    }

    pub(super) fn begin(&self) -> Now {
        (self.now)()
    }

    pub(super) fn judge(
        &self,
        began: Now,
        request: &Request,
        result: &Result<Outcome, Error>,
    ) -> Option<Slow> {
        let took = (self.now)().saturating_sub(began);
        (took > self.limit).then(|| Slow {
            took,
            limit: self.limit,
            request: loggable::request(request),
            response: response(result),
            error: result.as_ref().err().map(Error::to_string),
        })
    }
}

fn response(result: &Result<Outcome, Error>) -> String {
    use prost::Message as _;
    let bytes = match result {
        Ok(Outcome::Put(response)) => response.encoded_len(),
        Ok(Outcome::DeleteRange(response)) => response.encoded_len(),
        _ => return String::new(),
    };
    format!("size:{bytes}")
}
