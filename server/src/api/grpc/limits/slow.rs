//! Logging of slow calls: the warning for a slow read, and the number of keys for the line "request
//! stats". A fast call only pays for reading the clock twice.

use std::time::Duration;

use tonic::Response;

use crate::config;
use crate::runtime::etcd_server::EtcdServer;

/// A handler attaches this to a slow response: the number of keys that it found or deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted(pub i64);

/// A read of the store that is being timed.
pub(crate) struct SlowRead<'a> {
    server: &'a EtcdServer,
    /// When the call arrived.
    called: Duration,
    began: Duration,
}

impl SlowRead<'_> {
    /// Times a read that began at `began` for a call that arrived at `called`.
    pub(crate) fn begin(server: &EtcdServer, called: Duration, began: Duration) -> SlowRead<'_> {
        SlowRead {
            server,
            called,
            began,
        }
    }

    pub(crate) fn end<M>(
        self,
        response: &mut Response<M>,
        keys: i64,
        prefix: &str,
        request: impl FnOnce() -> String,
    ) {
        let now = self.server.now();
        let took = now.saturating_sub(self.began);
        let limit = self.server.limits().slow_apply;
        count_at(now, self.server, self.called, response, keys);
        if took <= limit {
            return;
        }
        self.server.metrics().slow_apply.inc();
        tracing::warn!(
            took = config::duration(took),
            "expected-duration" = config::duration(limit),
            prefix,
            request = request(),
            response = format!("range_response_count:{keys}"),
            "apply request took too long"
        );
    }
}

/// Records the number of keys of a call that arrived at `called`, if the call is slow.
pub(crate) fn count<M>(
    server: &EtcdServer,
    called: Duration,
    response: &mut Response<M>,
    keys: i64,
) {
    count_at(server.now(), server, called, response, keys);
}

fn count_at<M>(
    now: Duration,
    server: &EtcdServer,
    called: Duration,
    response: &mut Response<M>,
    keys: i64,
) {
    // The decision to log comes later, when the call ends. Half the limit makes sure that every
    // logged call has its keys recorded.
    let took = now.saturating_sub(called);
    if took > server.limits().slow_call / 2 {
        response.extensions_mut().insert(Counted(keys));
    }
}
