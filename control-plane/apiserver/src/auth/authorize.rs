//! Decides what users may do, by the modes of authorization. It does not know how users are
//! authenticated.

pub(crate) mod node;
pub mod rbac;

use std::sync::Arc;

use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

use super::follow::{Follower, View};
use super::review;
use super::user::{ANONYMOUS, node_name};
use super::{Answer, Attributes, Authorizer, User};
use crate::storage::reader::Reader;
use node::Nodes;
use rbac::{Decision, Policy, Rule, bootstrap};

/// A mode of authorization. A request is allowed if one of the modes allows it; none forbids what
/// another allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Allows nodes what they need for the pods bound to them.
    Node,
    /// Allows what the roles bound to a user allow.
    Rbac,
    /// Allows everything to every authenticated user.
    AlwaysAllow,
    /// Allows nothing.
    AlwaysDeny,
}

/// Decides by roles and bindings.
#[derive(Default)]
pub struct Rbac {
    policy: Follower<SharedPolicy>,
}

/// Decides by modes, in their order.
pub struct Modes(Vec<Decider>);

enum Decider {
    Node(Nodes),
    Rbac(Arc<Rbac>),
    AlwaysAllow,
    AlwaysDeny,
}

/// The policy, which decisions in progress keep as it was.
#[derive(Default)]
struct SharedPolicy(Arc<Policy>);

impl View for SharedPolicy {
    const COLLECTIONS: &'static [[&'static str; 3]] = &[
        [rbac::GROUP, "v1", "clusterroles"],
        [rbac::GROUP, "v1", "roles"],
        [rbac::GROUP, "v1", "clusterrolebindings"],
        [rbac::GROUP, "v1", "rolebindings"],
    ];

    fn put(&mut self, kind: &str, object: &Value) {
        Arc::make_mut(&mut self.0).put(kind, object);
    }

    fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        Arc::make_mut(&mut self.0).remove(kind, namespace, name);
    }
}

impl Rbac {
    /// Returns the policy at the state of the caches.
    pub fn policy(&self, reader: &Reader) -> Arc<Policy> {
        self.policy.look(reader, |policy| Arc::clone(&policy.0))
    }
}

impl Modes {
    /// Decides by these modes.
    pub fn new(modes: &[Mode]) -> Modes {
        let decider = |mode: &Mode| match mode {
            Mode::Node => Decider::Node(Nodes::default()),
            Mode::Rbac => Decider::Rbac(Arc::default()),
            Mode::AlwaysAllow => Decider::AlwaysAllow,
            Mode::AlwaysDeny => Decider::AlwaysDeny,
        };
        Modes(modes.iter().map(decider).collect())
    }

    /// The policy of roles and bindings, if it decides.
    pub fn rbac(&self) -> Option<&Arc<Rbac>> {
        self.0.iter().find_map(|decider| match decider {
            Decider::Rbac(rbac) => Some(rbac),
            _ => None,
        })
    }

    /// Allows by the caches, or refuses by fresh ones: a user whose new right was acknowledged a
    /// moment ago has it.
    async fn decided(&self, reader: &Reader, asked: &Attributes) -> Result<Decision, Status> {
        let decision = self.decide_now(reader, asked);
        // A request without credentials is not worth a request to the store.
        if decision.allowed || asked.user.name == ANONYMOUS {
            return Ok(decision);
        }
        reader.fresh().await?;
        Ok(self.decide_now(reader, asked))
    }

    /// Decides by the state of the caches.
    fn decide_now(&self, reader: &Reader, asked: &Attributes) -> Decision {
        let allowed = |reason| Decision {
            allowed: true,
            reason,
        };
        if rbac::is_master(&asked.user) {
            return allowed(String::new());
        }
        let mut reasons = Vec::new();
        for decider in &self.0 {
            let decision = match decider {
                Decider::Node(nodes) => nodes.decide(reader, asked),
                Decider::Rbac(rbac) => rbac.policy(reader).decide(asked),
                Decider::AlwaysAllow => allowed(String::new()),
                Decider::AlwaysDeny => Decision {
                    allowed: false,
                    reason: "Everything is forbidden.".to_owned(),
                },
            };
            if decision.allowed {
                return decision;
            }
            if !decision.reason.is_empty() {
                reasons.push(decision.reason);
            }
        }
        Decision {
            allowed: false,
            reason: reasons.join("\n"),
        }
    }

    async fn answer_review(
        &self,
        reader: &Reader,
        user: &User,
        kind: &Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Status> {
        if kind.kind() == review::RULES {
            let namespace = review::rules_asked(&object)?;
            reader.fresh().await?;
            return Ok(self.answer_rules(reader, user, &namespace, object));
        }
        let asked = review::access_asked(kind.kind(), &object, user, namespace)?;
        reader.fresh().await?;
        Ok(review::access_answer(
            object,
            &self.decide_now(reader, &asked),
        ))
    }

    /// Answers which rules a user has in a namespace.
    fn answer_rules(&self, reader: &Reader, user: &User, namespace: &str, object: Value) -> Value {
        let mut rules = Vec::new();
        let mut errors = Vec::new();
        let mut is_complete = true;
        for decider in &self.0 {
            match decider {
                Decider::Node(_) if node_name(user).is_some() => {
                    let why = "node authorizer does not support user rule resolution";
                    errors.push(why.to_owned());
                    is_complete = false;
                }
                Decider::Rbac(rbac) => {
                    let (more, error) = rbac.policy(reader).rules_for(user, namespace);
                    rules.extend(more);
                    errors.extend(error);
                }
                Decider::AlwaysAllow => rules.extend(Rule::everything()),
                Decider::Node(_) | Decider::AlwaysDeny => {}
            }
        }
        let error = match errors.as_slice() {
            [] => None,
            [error] => Some(error.clone()),
            errors => Some(format!("[{}]", errors.join(", "))),
        };
        let mut answer = review::rules_answer(object, &rules, error);
        answer["status"]["incomplete"] = (!is_complete).into();
        answer
    }
}

impl Authorizer for Modes {
    fn authorize<'a>(&'a self, reader: &'a Reader, asked: &'a Attributes) -> Answer<'a, ()> {
        Box::pin(async move {
            let decision = self.decided(reader, asked).await?;
            if decision.allowed {
                return Ok(());
            }
            Err(rbac::forbidden(asked, &decision.reason))
        })
    }

    fn decide<'a>(&'a self, reader: &'a Reader, asked: &'a Attributes) -> Answer<'a, Decision> {
        Box::pin(self.decided(reader, asked))
    }

    fn review<'a>(
        &'a self,
        reader: &'a Reader,
        user: &'a User,
        kind: &'a Kind,
        namespace: &'a str,
        object: Value,
    ) -> Answer<'a, Value> {
        Box::pin(self.answer_review(reader, user, kind, namespace, object))
    }

    fn initial_policy(&self) -> Vec<Value> {
        if self.rbac().is_some() {
            bootstrap::objects()
        } else {
            Vec::new()
        }
    }
}
