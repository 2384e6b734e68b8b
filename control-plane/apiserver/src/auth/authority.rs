//! The gate of a real cluster: tokens and certificates tell who asks, roles decide what they may,
//! and new pods get their accounts. It joins the parts beside it; none of them knows the others.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::ConnectInfo;
use http::request::Parts;
use machinery::object;
use machinery::schema::{self, Kind};
use machinery::status::Status;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::task::{JoinError, JoinSet};

use super::authenticate::Authenticator;
use super::impersonate;
use super::rbac::{self, Decision, Policy, Rule, bootstrap, escalation};
use super::review;
use super::tls::Peer;
use super::token::Objects;
use super::user::ANONYMOUS;
use super::{Admission, Answer, Attributes, Gate, User, admission};
use crate::api::Api;
use crate::clock;
use crate::resources::catalogue::{self, Storage};
use crate::storage::cache::Cursor;

/// The namespace of the cluster's own objects.
const SYSTEM: &str = "kube-system";
/// The kinds that the policy is made of, by their plurals.
const POLICY: [&str; 4] = [
    "clusterroles",
    "roles",
    "clusterrolebindings",
    "rolebindings",
];
/// How often a pod's default account is looked for: a controller makes it with the namespace.
const ACCOUNT_TRIES: usize = 10;
/// And how long is waited in between.
const ACCOUNT_WAIT: Duration = Duration::from_millis(100);
/// How often a role of the first policy is written when others write it too.
const BOOTSTRAP_TRIES: usize = 5;
/// How many of them are written side by side: the store syncs them together.
const BOOTSTRAP_AT_ONCE: usize = 16;

/// How requests are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By roles and bindings.
    Rbac,
    /// Whoever is known may do everything.
    AlwaysAllow,
}

/// Decides about people.
pub struct Authority {
    authenticator: Authenticator,
    mode: Mode,
    /// The certificate (PEM) that client certificates are signed with, if there is one.
    client_authority: Option<String>,
    known: RwLock<Known>,
}

/// The policy, and how far it has followed the caches.
#[derive(Default)]
struct Known {
    policy: Arc<Policy>,
    places: Vec<Cursor>,
}

impl Authority {
    /// A gate that knows people by `authenticator`. `client_authority` is the certificate (PEM)
    /// that client certificates are signed with.
    pub fn new(
        authenticator: Authenticator,
        mode: Mode,
        client_authority: Option<String>,
    ) -> Authority {
        Authority {
            authenticator,
            mode,
            client_authority,
            known: RwLock::default(),
        }
    }

    /// Tells whom to believe, stores the roles and bindings that every cluster begins with, and
    /// adds to them what is missing.
    async fn bootstrap(&self, api: &Api) -> Result<(), Status> {
        if let Some(authority) = &self.client_authority {
            tell_authority(api, authority).await?;
        }
        if self.mode == Mode::AlwaysAllow {
            return Ok(());
        }
        let mut running = JoinSet::new();
        for wanted in bootstrap::objects() {
            if running.len() >= BOOTSTRAP_AT_ONCE {
                finished(running.join_next().await)?;
            }
            let api = api.clone();
            running.spawn(async move { ensure(&api, &wanted).await });
        }
        while !running.is_empty() {
            finished(running.join_next().await)?;
        }
        api.fresh().await
    }

    fn decide(&self, api: &Api, asked: &Attributes) -> Decision {
        match self.mode {
            Mode::Rbac => self.policy(api).decide(asked),
            Mode::AlwaysAllow => Decision {
                allowed: true,
                reason: String::new(),
            },
        }
    }

    /// Allows, or refuses of fresh knowledge: who was given a right a moment ago, and was told
    /// so, has it.
    async fn allow(&self, api: &Api, asked: &Attributes) -> Result<(), Status> {
        if self.decide(api, asked).allowed {
            return Ok(());
        }
        // Whoever shows nothing is not worth a question to the store.
        let decision = if asked.user.name == ANONYMOUS {
            self.decide(api, asked)
        } else {
            self.decide_fresh(api, asked).await?
        };
        if decision.allowed {
            return Ok(());
        }
        Err(rbac::forbidden(asked, &decision.reason))
    }

    async fn decide_fresh(&self, api: &Api, asked: &Attributes) -> Result<Decision, Status> {
        api.fresh().await?;
        Ok(self.decide(api, asked))
    }

    /// The policy as the caches have it.
    fn policy(&self, api: &Api) -> Arc<Policy> {
        let storages: &[_] = &STORAGES;
        let current = |known: &Known| {
            known.places.len() == storages.len()
                && storages
                    .iter()
                    .zip(&known.places)
                    .all(|(storage, place)| api.0.feed.cache(storage).end() == *place)
        };
        {
            let known = self.known.read();
            if current(&known) {
                return known.policy.clone();
            }
        }
        let mut known = self.known.write();
        if !current(&known) && !known.follow(api, storages) {
            *known = Known::read(api, storages);
        }
        known.policy.clone()
    }

    async fn known_user(&self, api: &Api, request: &Parts) -> Result<User, Status> {
        let peer = request.extensions.get::<ConnectInfo<Peer>>();
        let peer = peer.map_or(&Peer::Nobody, |ConnectInfo(peer)| peer);
        let now = clock::now();
        let headers = &request.headers;
        let user = self
            .authenticator
            .authenticate(api, peer, headers, now)
            .await;
        let user = user.map_err(|why| {
            tracing::debug!(why, "somebody unknown");
            Status::unauthorized()
        })?;
        let Some(asked) = impersonate::requested(headers, &user)? else {
            return Ok(user);
        };
        for needed in &asked.needed {
            self.allow(api, needed).await?;
        }
        Ok(asked.user)
    }

    async fn answer_review(
        &self,
        api: &Api,
        user: &User,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Status> {
        match kind.kind {
            "SelfSubjectReview" => Ok(review::myself(object, user, clock::now())),
            "TokenReview" => {
                let (token, audiences) = review::token_asked(&object)?;
                let audiences = audiences.as_deref();
                let known = self
                    .authenticator
                    .token(api, &token, audiences, clock::now())
                    .await;
                let known = known.map(|known| (known.user, known.audiences));
                Ok(review::token_answer(object, known))
            }
            "SelfSubjectRulesReview" => {
                let namespace = review::rules_asked(&object)?;
                if self.mode == Mode::AlwaysAllow {
                    return Ok(review::rules_answer(object, &Rule::everything(), None));
                }
                api.fresh().await?;
                let (rules, errors) = self.policy(api).rules_for(user, &namespace);
                Ok(review::rules_answer(object, &rules, errors))
            }
            _ => {
                let asked = review::access_asked(kind.kind, &object, user, namespace)?;
                let decision = self.decide_fresh(api, &asked).await?;
                Ok(review::access_answer(object, &decision))
            }
        }
    }

    async fn admit_pod(&self, api: &Api, namespace: &str, pod: &mut Value) -> Result<(), Status> {
        let shown = match object::name(pod) {
            "" => object::generate_name(pod).to_owned(),
            name => name.to_owned(),
        };
        let forbidden = |why: &str| Status::forbidden("", "pods", &shown, why);
        let name = admission::account(pod).map_err(|why| forbidden(&why))?;
        let Some(name) = name else { return Ok(()) };
        let account = find_account(api, namespace, &name).await.map_err(|error| {
            let why = match error.code {
                404 => format!("serviceaccount {name:?} not found"),
                _ => error.message,
            };
            forbidden(&format!(
                "error looking up service account {namespace}/{name}: {why}"
            ))
        })?;
        let volume = clock::generated_name(admission::VOLUME_PREFIX);
        admission::apply(pod, &account, &volume).map_err(|why| forbidden(&why))
    }

    fn admit_role(
        &self,
        api: &Api,
        admission: &Admission<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        if self.mode == Mode::AlwaysAllow {
            return Ok(());
        }
        let made = admission.operation == "CREATE";
        let request = Attributes {
            user: admission.user.clone(),
            verb: if made { "create" } else { "update" }.into(),
            api_group: rbac::GROUP.into(),
            resource: admission.kind.plural.into(),
            namespace: admission.namespace.into(),
            name: if made {
                String::new()
            } else {
                object::name(object).into()
            },
            ..Attributes::default()
        };
        escalation::check(&self.policy(api), &request, object, admission.old)
    }
}

impl Known {
    /// Takes the changes since the last time; says no when they are not remembered.
    fn follow(&mut self, api: &Api, storages: &[&'static Storage]) -> bool {
        if self.places.len() != storages.len() {
            return false;
        }
        let policy = Arc::make_mut(&mut self.policy);
        for (storage, place) in storages.iter().zip(&mut self.places) {
            let Ok(changes) = api.0.feed.cache(storage).changes(place, usize::MAX) else {
                return false;
            };
            for change in changes {
                let Ok(object) = &change.entry.decode() else {
                    return false;
                };
                if change.deleted {
                    let (namespace, name) = (object::namespace(object), object::name(object));
                    policy.remove(storage.kind.kind, namespace, name);
                } else {
                    policy.put(storage.kind.kind, object);
                }
            }
        }
        true
    }

    /// Starts over from everything there is.
    fn read(api: &Api, storages: &[&'static Storage]) -> Known {
        let mut policy = Policy::default();
        let mut places = Vec::new();
        for storage in storages {
            let cache = api.0.feed.cache(storage);
            let (entries, place, _) = cache.snapshot(&storage.folder(""));
            for object in entries.iter().filter_map(|stored| stored.decode().ok()) {
                policy.put(storage.kind.kind, &object);
            }
            places.push(place);
        }
        Known {
            policy: Arc::new(policy),
            places,
        }
    }
}

impl Gate for Authority {
    fn authenticate<'a>(&'a self, api: &'a Api, request: &'a Parts) -> Answer<'a, User> {
        Box::pin(self.known_user(api, request))
    }

    fn authorize<'a>(&'a self, api: &'a Api, attributes: &'a Attributes) -> Answer<'a, ()> {
        Box::pin(self.allow(api, attributes))
    }

    fn admit<'a>(
        &'a self,
        api: &'a Api,
        admission: Admission<'a>,
        object: &'a mut Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let made = admission.operation == "CREATE";
            match (admission.kind.group, admission.kind.plural) {
                ("", "pods") if made && admission.subresource.is_empty() => {
                    self.admit_pod(api, admission.namespace, object).await
                }
                // This process itself has no name, and nobody else is without one.
                (rbac::GROUP, _)
                    if admission.operation != "DELETE" && !admission.user.name.is_empty() =>
                {
                    self.admit_role(api, &admission, object)
                }
                _ => Ok(()),
            }
        })
    }

    fn review<'a>(
        &'a self,
        api: &'a Api,
        user: &'a User,
        kind: &'static Kind,
        namespace: &'a str,
        object: Value,
    ) -> Answer<'a, Value> {
        Box::pin(self.answer_review(api, user, kind, namespace, object))
    }

    fn issue_token<'a>(
        &'a self,
        api: &'a Api,
        service_account: &'a Value,
        request: Value,
    ) -> Answer<'a, Value> {
        let issuer = &self.authenticator.issuer;
        Box::pin(issuer.issue(api, service_account, request, clock::uid(), clock::now()))
    }

    fn prepare<'a>(&'a self, api: &'a Api) -> Answer<'a, ()> {
        Box::pin(self.bootstrap(api))
    }

    fn document(&self, path: &str) -> Option<Value> {
        self.authenticator.issuer.document(path)
    }
}

impl Objects for Api {
    async fn find(
        &self,
        resource: &'static str,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> Result<Option<Arc<Value>>, Status> {
        let kind = schema::resource("", "v1", resource).ok_or_else(Status::unknown_path)?;
        if let Some(found) = self.cached(kind, namespace, name)
            && uid == Some(object::uid(&found))
        {
            return Ok(Some(found));
        }
        match self.get(kind, namespace, name).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The collections of roles and bindings.
static STORAGES: LazyLock<Vec<&'static Storage>> = LazyLock::new(|| {
    let storage = |plural: &&str| catalogue::resource(rbac::GROUP, "v1", plural)?.storage;
    POLICY.iter().filter_map(storage).collect()
});

fn finished(done: Option<Result<Result<(), Status>, JoinError>>) -> Result<(), Status> {
    match done {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(Status::internal(&error.to_string())),
        None => Ok(()),
    }
}

async fn find_account(api: &Api, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
    let kind = schema::resource("", "v1", "serviceaccounts").ok_or_else(Status::unknown_path)?;
    if let Some(found) = api.cached(kind, namespace, name) {
        return Ok(found);
    }
    let patient = name == admission::DEFAULT_ACCOUNT;
    for _ in 1..ACCOUNT_TRIES {
        match api.get(kind, namespace, name).await {
            Err(error) if error.code == 404 && patient => tokio::time::sleep(ACCOUNT_WAIT).await,
            found => return found,
        }
    }
    api.get(kind, namespace, name).await
}

/// Writes down the authority of client certificates, where servers look for it that leave
/// knowing people to this one.
async fn tell_authority(api: &Api, authority: &str) -> Result<(), Status> {
    let kind = schema::resource("", "v1", "configmaps").ok_or_else(Status::unknown_path)?;
    let wanted = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "extension-apiserver-authentication", "namespace": SYSTEM },
        "data": { "client-ca-file": authority },
    });
    for _ in 0..BOOTSTRAP_TRIES {
        match api.create(kind, SYSTEM, wanted.clone()).await {
            Err(error) if error.reason == "AlreadyExists" => {}
            made => return made.map(|_| ()),
        }
        let stored = api.get(kind, SYSTEM, object::name(&wanted)).await?;
        let data = ["data", "client-ca-file"];
        if object::text(&stored, &data) == authority {
            return Ok(());
        }
        let mut new = Value::clone(&stored);
        object::set(&mut new, &data, authority.into());
        match api.update(kind, SYSTEM, new).await {
            Err(error) if error.code == 409 || error.code == 404 => {}
            written => return written.map(|_| ()),
        }
    }
    let why = "it is being changed all the time";
    Err(Status::conflict(
        "",
        kind.plural,
        object::name(&wanted),
        why,
    ))
}

/// Makes an object of the first policy, or adds to it what is missing.
async fn ensure(api: &Api, wanted: &Value) -> Result<(), Status> {
    let kind = schema::kind(rbac::GROUP, "v1", object::kind(wanted));
    let kind = kind.ok_or_else(Status::unknown_path)?;
    let (namespace, name) = (object::namespace(wanted), object::name(wanted));
    for _ in 0..BOOTSTRAP_TRIES {
        let stored = match api.cached(kind, namespace, name) {
            Some(stored) => stored,
            None => match api.create(kind, namespace, wanted.clone()).await {
                Err(error) if error.reason == "AlreadyExists" => {
                    api.get(kind, namespace, name).await?
                }
                made => return made.map(|_| ()),
            },
        };
        let Some(new) = bootstrap::reconciled(&stored, wanted) else {
            return Ok(());
        };
        match api.update(kind, namespace, new).await {
            Err(error) if error.code == 409 => api.fresh().await?,
            written => return written.map(|_| ()),
        }
    }
    Err(Status::conflict(
        rbac::GROUP,
        kind.plural,
        name,
        "it is being changed all the time",
    ))
}
