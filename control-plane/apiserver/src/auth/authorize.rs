//! Decides what users may do: by roles and bindings, or everything. It does not know how users are
//! authenticated.

use std::sync::Arc;

use machinery::object;
use machinery::schema::Kind;
use machinery::status::Status;
use parking_lot::RwLock;
use serde_json::Value;

use super::rbac::{self, Decision, Policy, Rule, bootstrap};
use super::review;
use super::user::ANONYMOUS;
use super::{Answer, Attributes, Authorizer, User};
use crate::storage::cache::{Cache, Cursor};
use crate::storage::reader::Reader;

/// Plurals of the kinds of the policy.
const POLICY: [&str; 4] = [
    "clusterroles",
    "roles",
    "clusterrolebindings",
    "rolebindings",
];

/// Allows what the roles bound to a user allow.
#[derive(Default)]
pub struct Rbac {
    known: RwLock<Known>,
}

/// Allows everything to every authenticated user.
#[derive(Debug, Default)]
pub struct AlwaysAllow {
    /// Whether roles and bindings are made all the same, because RBAC is asked first. Whatever it
    /// says, everything is allowed afterwards.
    pub has_policy: bool,
}

/// The policy, and the changes of the caches that it has applied.
#[derive(Default)]
struct Known {
    policy: Arc<Policy>,
    followed: Vec<Followed>,
}

/// One collection of roles or bindings.
struct Followed {
    kind: Arc<Kind>,
    cache: Arc<Cache>,
    place: Cursor,
}

impl Rbac {
    /// Returns the policy at the state of the caches.
    pub fn policy(&self, reader: &Reader) -> Arc<Policy> {
        {
            let known = self.known.read();
            if known.is_current() {
                return known.policy.clone();
            }
        }
        let mut known = self.known.write();
        if !known.is_current() && !known.follow() {
            *known = Known::read(reader);
        }
        known.policy.clone()
    }

    /// Allows by the cached policy, or refuses by a fresh one: a user whose new right was
    /// acknowledged a moment ago has it.
    async fn allow(&self, reader: &Reader, asked: &Attributes) -> Result<(), Status> {
        let decision = self.decided(reader, asked).await?;
        if decision.allowed {
            return Ok(());
        }
        Err(rbac::forbidden(asked, &decision.reason))
    }

    async fn decided(&self, reader: &Reader, asked: &Attributes) -> Result<Decision, Status> {
        let decision = self.policy(reader).decide(asked);
        // A request without credentials is not worth a request to the store.
        if decision.allowed || asked.user.name == ANONYMOUS {
            return Ok(decision);
        }
        self.decide_fresh(reader, asked).await
    }

    async fn decide_fresh(&self, reader: &Reader, asked: &Attributes) -> Result<Decision, Status> {
        reader.fresh().await?;
        Ok(self.policy(reader).decide(asked))
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
            let (rules, errors) = self.policy(reader).rules_for(user, &namespace);
            return Ok(review::rules_answer(object, &rules, errors));
        }
        let asked = review::access_asked(kind.kind(), &object, user, namespace)?;
        let decision = self.decide_fresh(reader, &asked).await?;
        Ok(review::access_answer(object, &decision))
    }
}

impl Authorizer for Rbac {
    fn authorize<'a>(&'a self, reader: &'a Reader, asked: &'a Attributes) -> Answer<'a, ()> {
        Box::pin(self.allow(reader, asked))
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
        bootstrap::objects()
    }
}

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a Reader, _: &'a Attributes) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn review<'a>(
        &'a self,
        _: &'a Reader,
        user: &'a User,
        kind: &'a Kind,
        namespace: &'a str,
        object: Value,
    ) -> Answer<'a, Value> {
        Box::pin(async move {
            if kind.kind() == review::RULES {
                review::rules_asked(&object)?;
                return Ok(review::rules_answer(object, &Rule::everything(), None));
            }
            review::access_asked(kind.kind(), &object, user, namespace)?;
            let allowed = Decision {
                allowed: true,
                reason: String::new(),
            };
            Ok(review::access_answer(object, &allowed))
        })
    }

    fn initial_policy(&self) -> Vec<Value> {
        if self.has_policy {
            bootstrap::objects()
        } else {
            Vec::new()
        }
    }
}

impl Known {
    fn is_current(&self) -> bool {
        let mut all = self.followed.iter();
        all.len() == POLICY.len() && all.all(|one| one.cache.end() == one.place)
    }

    /// Takes the changes since the last time; says no when they are no longer remembered.
    fn follow(&mut self) -> bool {
        if self.followed.len() != POLICY.len() {
            return false;
        }
        let policy = Arc::make_mut(&mut self.policy);
        for Followed { kind, cache, place } in &mut self.followed {
            let Ok(changes) = cache.changes(place, usize::MAX) else {
                return false;
            };
            for change in changes {
                let Ok(object) = &change.entry.decode() else {
                    return false;
                };
                if change.deleted {
                    let (namespace, name) = (object::namespace(object), object::name(object));
                    policy.remove(kind.kind(), namespace, name);
                } else {
                    policy.put(kind.kind(), object);
                }
            }
        }
        true
    }

    /// Reads the whole policy from the caches.
    fn read(reader: &Reader) -> Known {
        let mut known = Known::default();
        let mut policy = Policy::default();
        let catalogue = reader.reflector.catalogue();
        let resources = POLICY
            .iter()
            .filter_map(|plural| catalogue.resource(rbac::GROUP, "v1", plural));
        for storage in resources.filter_map(|resource| resource.storage.as_ref()) {
            let Ok(cache) = reader.reflector.cache(storage) else {
                continue;
            };
            let (entries, place, _) = cache.snapshot(&storage.folder(""));
            for object in entries.iter().filter_map(|stored| stored.decode().ok()) {
                policy.put(storage.kind.kind(), &object);
            }
            known.followed.push(Followed {
                kind: Arc::clone(&storage.kind),
                cache,
                place,
            });
        }
        known.policy = Arc::new(policy);
        known
    }
}
