//! Authorization by the modes Node and RBAC over objects that a test gives, without caches.

use http::HeaderMap;
use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use super::authorize::chain::Union;
use super::authorize::node::Related;
use super::authorize::rbac::{Decision, Policy, forbidden, is_master};
use super::impersonate::{self, Impersonated, Modes, Rights};
use super::{Answer, Attributes};

/// The objects.
#[derive(Default)]
pub(crate) struct Fixed {
    policy: Policy,
    related: Related,
}

impl Fixed {
    pub(crate) fn put(&mut self, object: &Value) {
        let kind = object::kind(object);
        self.policy.put(kind, object);
        self.related.put(kind, object);
    }

    pub(crate) fn decide(&self, asked: &Attributes) -> Decision {
        if is_master(&asked.user) {
            return Decision::allow(String::new());
        }
        let mut union = Union::default();
        let node = union.add(self.related.decide(asked));
        let decided = node.or_else(|| union.add(self.policy.decide(asked)));
        decided.unwrap_or_else(|| union.end())
    }

    /// As whom a request with these headers is served.
    pub(crate) fn impersonate(
        &self,
        headers: &HeaderMap,
        asked: &Attributes,
    ) -> Result<Option<Impersonated>, Status> {
        let Some(wanted) = impersonate::requested(headers)? else {
            return Ok(None);
        };
        let modes = Modes::default();
        let admitted = now(modes.admit(self, &wanted, asked));
        admitted.map(Some)
    }
}

impl Rights for Fixed {
    fn check<'a>(&'a self, asked: &'a Attributes) -> Answer<'a, ()> {
        let decision = self.decide(asked);
        let checked = if decision.allowed {
            Ok(())
        } else {
            Err(forbidden(asked, &decision.told()))
        };
        Box::pin(async move { checked })
    }
}

/// The result of a future that waits for nothing.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("it waits"),
    }
}
