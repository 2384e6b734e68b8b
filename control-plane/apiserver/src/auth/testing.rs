//! Authorization by the modes Node and RBAC over objects that a test gives, without caches; and a webhook
//! that answers reviews as a test says.

use std::path::PathBuf;

use http::HeaderMap;
use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};

use super::authorize::chain::Union;
use super::authorize::node::Related;
use super::authorize::rbac::{Policy, forbidden, is_master};
use super::impersonate::{self, Impersonated, Modes, Rights};
use super::{Answer, Attributes, Decision};
use crate::webhook::testing::Scripted;

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

/// A webhook that answers reviews, and the client that asks it.
pub(crate) struct Reviewed<C> {
    pub(crate) script: Scripted,
    pub(crate) client: C,
    group: &'static str,
    kind: &'static str,
}

impl<C> Reviewed<C> {
    /// Starts a webhook for reviews of this kind, and opens its client with a kubeconfig.
    pub(crate) async fn start(
        (group, kind): (&'static str, &'static str),
        open: impl FnOnce(PathBuf) -> C,
    ) -> Reviewed<C> {
        let script = Scripted::start().await;
        let home = tempfile::tempdir().unwrap();
        let client = open(script.kubeconfig(home.path()));
        Reviewed {
            script,
            client,
            group,
            kind,
        }
    }

    /// A review in a version, answered with this status.
    pub(crate) fn review(&self, version: &str, status: &Value) -> Value {
        let api_version = format!("{}/{version}", self.group);
        json!({"apiVersion": api_version, "kind": self.kind, "status": status})
    }

    /// The status of the next answer, in v1.
    pub(crate) fn answers(&self, status: &Value) {
        self.script.answers(200, self.review("v1", status));
    }

    /// How often it was asked.
    pub(crate) fn times(&self) -> usize {
        self.script.asked().len()
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
