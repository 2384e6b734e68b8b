//! What is said of calls that took long: the warning for a read, and the number of keys for the
//! line "request stats". Calls that did not take long pay for two looks at the clock.

use std::time::Duration;

use tonic::Response;

use crate::api::serve::Counted;
use crate::config;
use crate::runtime::node::Node;

/// A read of the store.
pub(super) struct SlowRead<'a> {
    node: &'a Node,
    /// When the call came.
    called: Duration,
    began: Duration,
}

impl SlowRead<'_> {
    /// A read that begins now, for a call that came at `called`.
    pub(super) fn begin(node: &Node, called: Duration) -> SlowRead<'_> {
        SlowRead {
            node,
            called,
            began: node.now(),
        }
    }

    pub(super) fn end<M>(
        self,
        response: &mut Response<M>,
        keys: i64,
        prefix: &str,
        request: impl FnOnce() -> String,
    ) {
        let took = self.node.now().saturating_sub(self.began);
        let limit = self.node.limits().slow_apply;
        count(self.node, self.called, response, keys);
        if took <= limit {
            return;
        }
        self.node.metrics().slow_apply.inc();
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

/// Notes the keys of a call that came at `called`, if it took long.
pub(super) fn count<M>(node: &Node, called: Duration, response: &mut Response<M>, keys: i64) {
    // Whether a call is slow is decided when it ends, which is later: half the limit is never less
    // than what is logged then.
    let took = node.now().saturating_sub(called);
    if took > node.limits().slow_call / 2 {
        response.extensions_mut().insert(Counted(keys));
    }
}
