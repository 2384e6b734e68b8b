//! Decides what users may do, by a chain of authorizers. It does not know how users are
//! authenticated.

pub(crate) mod chain;
pub mod config;
pub(crate) mod node;
pub mod rbac;
mod rules_review;
mod webhook;

use std::path::PathBuf;
use std::sync::Arc;

use machinery::schema::Kind;
use machinery::status::Status;
use parking_lot::RwLock;
use serde_json::Value;

use super::follow::{Follower, View};
use super::review;
use super::user::{ANONYMOUS, node_name};
use super::{Answer, Attributes, Authorizer, Decision, User};
use crate::basics::changing_file::{self, Changed};
use crate::basics::reloads;
use crate::storage::reader::Reader;
use chain::{Chain, Decider};
use config::Configured;
use node::Nodes;
use rbac::{Policy, Rule, bootstrap};

/// A mode of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Allows nodes what they need for the pods bound to them.
    Node,
    /// Allows what the roles bound to a user allow.
    Rbac,
    /// Asks a webhook.
    Webhook,
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

/// Decides by a chain of authorizers, which may change with its file.
pub struct Modes {
    current: Arc<RwLock<Arc<Chain>>>,
    rbac: Option<Arc<Rbac>>,
    _changes: Option<changing_file::Watch>,
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

/// The authorizers that stay when the configuration changes: they follow the caches.
struct Lasting {
    node: Option<Arc<Nodes>>,
    rbac: Option<Arc<Rbac>>,
}

impl Lasting {
    fn of(configured: &[Configured]) -> Lasting {
        let has = |mode| configured.iter().any(|one| one.mode() == mode);
        Lasting {
            node: has(Mode::Node).then(Arc::default),
            rbac: has(Mode::Rbac).then(Arc::default),
        }
    }

    fn chain(&self, configured: &[Configured]) -> Result<Chain, String> {
        let late = |what: &str| {
            format!(
                "authorizer type {what} is not allowed if it was not enabled at initial server \
                 startup"
            )
        };
        let deciders = configured.iter().map(|one| {
            Ok(match one {
                Configured::Builtin(Mode::Node) => {
                    Decider::Node(self.node.clone().ok_or_else(|| late("Node"))?)
                }
                Configured::Builtin(Mode::Rbac) => {
                    Decider::Rbac(self.rbac.clone().ok_or_else(|| late("RBAC"))?)
                }
                Configured::Builtin(Mode::AlwaysDeny | Mode::Webhook) => Decider::AlwaysDeny,
                Configured::Builtin(Mode::AlwaysAllow) => Decider::AlwaysAllow,
                Configured::Webhook(options) => Decider::Webhook(webhook::Webhook::open(options)?),
            })
        });
        deciders.collect::<Result<Vec<_>, String>>().map(Chain)
    }
}

impl Modes {
    /// Decides by these authorizers, in their order.
    pub fn new(configured: &[Configured]) -> Result<Modes, String> {
        let lasting = Lasting::of(configured);
        Ok(Modes {
            current: Arc::new(RwLock::new(Arc::new(lasting.chain(configured)?))),
            rbac: lasting.rbac,
            _changes: None,
        })
    }

    /// Decides as a configuration file says, which is read again whenever it changes. It needs a
    /// tokio runtime.
    pub fn of_file(path: PathBuf, text: &str) -> Result<Modes, String> {
        let mut configured = config::parse(text, &[])?;
        let required: Vec<Mode> = configured.iter().map(Configured::mode).collect();
        let lasting = Lasting::of(&configured);
        let first = lasting.chain(&configured)?;
        let current = Arc::new(RwLock::new(Arc::new(first)));
        let (rbac, changing) = (lasting.rbac.clone(), Arc::clone(&current));
        let changes = changing_file::watch(
            "authorization config",
            &reloads::AUTHORIZATION,
            path,
            text.to_owned(),
            move |text| {
                let mut take = || {
                    let newer = config::parse(&text, &required)?;
                    if newer == configured {
                        return Ok(());
                    }
                    let chain = lasting.chain(&newer)?;
                    configured = newer;
                    *changing.write() = Arc::new(chain);
                    Ok(())
                };
                let taken: Result<(), String> = take();
                Box::pin(async move { taken.map_err(Changed::Bad) })
            },
        );
        Ok(Modes {
            current,
            rbac,
            _changes: Some(changes),
        })
    }

    /// The policy of roles and bindings, if it decides.
    pub fn rbac(&self) -> Option<&Arc<Rbac>> {
        self.rbac.as_ref()
    }

    fn chain(&self) -> Arc<Chain> {
        Arc::clone(&self.current.read())
    }

    /// Allows by the caches, or refuses by fresh ones: a user whose new right was acknowledged a
    /// moment ago has it.
    async fn decided(&self, reader: &Reader, asked: &Attributes) -> Result<Decision, Status> {
        let chain = self.chain();
        let mut asking = chain.about(asked);
        let decision = asking.decide(reader).await;
        // A request without credentials is not worth a request to the store.
        if decision.allowed || asked.user.name == ANONYMOUS || !chain.follows_caches() {
            return Ok(decision);
        }
        reader.fresh().await?;
        Ok(asking.decide(reader).await)
    }

    async fn answer_review(
        &self,
        reader: &Reader,
        user: &User,
        kind: &Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Status> {
        if kind.kind() == rules_review::KIND {
            let namespace = rules_review::asked(&object)?;
            reader.fresh().await?;
            return Ok(self.answer_rules(reader, user, &namespace, object));
        }
        let asked = review::access_asked(kind.kind(), &object, user, namespace)?;
        reader.fresh().await?;
        let chain = self.chain();
        let decision = chain.about(&asked).decide(reader).await;
        Ok(review::access_answer(object, &decision))
    }

    /// Answers which rules a user has in a namespace.
    fn answer_rules(&self, reader: &Reader, user: &User, namespace: &str, object: Value) -> Value {
        let mut rules = Vec::new();
        let mut errors = Vec::new();
        let mut is_complete = true;
        for decider in &self.chain().0 {
            match decider {
                Decider::Node(_) if node_name(user).is_some() => {
                    let why = "node authorizer does not support user rule resolution";
                    errors.push(why.to_owned());
                    is_complete = false;
                }
                Decider::Rbac(rbac) => {
                    let policy = rbac.policy(reader);
                    let (more, error) = policy.rules_for(user, namespace);
                    rules.extend(more.into_iter().cloned());
                    errors.extend(error);
                }
                Decider::Webhook(_) => {
                    let why = "webhook authorizer does not support user rule resolution";
                    errors.push(why.to_owned());
                    is_complete = false;
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
        let mut answer = rules_review::answer(object, &rules, error);
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
            Err(rbac::forbidden(asked, &decision.told()))
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
