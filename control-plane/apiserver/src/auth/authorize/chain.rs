//! Authorizers in their order. The first one that allows or denies decides; one without an opinion
//! leaves it to those after it.

use std::sync::Arc;

use super::Rbac;
use super::node::Nodes;
use super::rbac;
use super::webhook::Webhook;
use crate::auth::{Attributes, Decision, metrics};
use crate::storage::reader::Reader;

/// Authorizers in their order.
pub(super) struct Chain(pub(super) Vec<Decider>);

pub(super) enum Decider {
    Node(Arc<Nodes>),
    Rbac(Arc<Rbac>),
    Webhook(Webhook),
    AlwaysAllow,
    AlwaysDeny,
}

impl Decider {
    /// Its type and name in metrics.
    fn label(&self) -> (&'static str, &str) {
        match self {
            Decider::Node(_) => ("Node", "node"),
            Decider::Rbac(_) => ("RBAC", "rbac"),
            Decider::Webhook(webhook) => ("Webhook", webhook.name()),
            Decider::AlwaysAllow => ("AlwaysAllow", "alwaysallow"),
            Decider::AlwaysDeny => ("AlwaysDeny", "alwaysdeny"),
        }
    }
}

/// One request that the chain decides, perhaps several times: by caches, and by fresher ones. Each
/// webhook is asked once.
pub(super) struct Asking<'a> {
    chain: &'a Chain,
    asked: &'a Attributes,
    answers: Vec<Option<Decision>>,
}

impl Chain {
    pub(super) fn about<'a>(&'a self, asked: &'a Attributes) -> Asking<'a> {
        Asking {
            chain: self,
            asked,
            answers: vec![None; self.0.len()],
        }
    }

    /// True if fresher caches may change a decision.
    pub(super) fn follows_caches(&self) -> bool {
        let mut all = self.0.iter();
        all.any(|one| matches!(one, Decider::Node(_) | Decider::Rbac(_)))
    }
}

impl Asking<'_> {
    /// Decides by the state of the caches.
    pub(super) async fn decide(&mut self, reader: &Reader) -> Decision {
        if rbac::is_master(&self.asked.user) {
            return Decision::allow(String::new());
        }
        let mut union = Union::default();
        for (decider, known) in self.chain.0.iter().zip(&mut self.answers) {
            let decision = match decider {
                Decider::Node(nodes) => nodes.decide(reader, self.asked),
                Decider::Rbac(rbac) => rbac.policy(reader).decide(self.asked),
                Decider::AlwaysAllow => Decision::allow(String::new()),
                Decider::AlwaysDeny => Decision::refuse("Everything is forbidden.".to_owned()),
                Decider::Webhook(webhook) => match known {
                    Some(known) => known.clone(),
                    None => known.insert(webhook.decide(self.asked).await).clone(),
                },
            };
            let (kind, name) = decider.label();
            metrics::decided(kind, name, &decision);
            if let Some(decision) = union.add(decision) {
                return decision;
            }
        }
        union.end()
    }
}

/// The decisions of authorizers so far, none of which decided.
#[derive(Default)]
pub(crate) struct Union {
    reasons: Vec<String>,
    errors: Vec<String>,
}

impl Union {
    /// Adds the next decision; returns that of all if this one decides.
    pub(crate) fn add(&mut self, decision: Decision) -> Option<Decision> {
        if decision.allowed || decision.denied {
            return Some(decision);
        }
        self.reasons
            .extend(Some(decision.reason).filter(|reason| !reason.is_empty()));
        self.errors.extend(decision.error);
        None
    }

    /// The decision if no further authorizer follows.
    pub(crate) fn end(self) -> Decision {
        let mut errors = self.errors;
        errors.dedup();
        Decision {
            error: match errors.as_slice() {
                [] => None,
                [one] => Some(one.clone()),
                several => Some(format!("[{}]", several.join(", "))),
            },
            ..Decision::refuse(self.reasons.join("\n"))
        }
    }
}
