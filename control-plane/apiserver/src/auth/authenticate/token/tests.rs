use std::collections::HashMap;
use std::future::ready;

use machinery::object;

use super::claims::LEEWAY_SECONDS;
use super::*;

pub(crate) const NOW: Timestamp = Timestamp {
    seconds: 1_800_000_000,
    nanos: 0,
};

/// Objects by resource, namespace and name.
#[derive(Default)]
pub(crate) struct World(HashMap<String, Arc<Value>>);

impl World {
    pub(crate) fn put(&mut self, resource: &str, object: Value) {
        let place = (object::namespace(&object), object::name(&object));
        let key = format!("{resource}/{}/{}", place.0, place.1);
        self.0.insert(key, Arc::new(object));
    }
}

impl Objects for World {
    fn cached(&self, resource: &'static str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = format!("{resource}/{namespace}/{name}");
        self.0.get(&key).cloned()
    }

    fn find(
        &self,
        resource: &'static str,
        namespace: &str,
        name: &str,
        _uid: Option<&str>,
    ) -> impl Future<Output = Result<Option<Arc<Value>>, Status>> + Send {
        ready(Ok(self.cached(resource, namespace, name)))
    }
}

pub(crate) fn issuer() -> Issuer {
    let key = Key::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let name = "https://kubernetes.default.svc".to_owned();
    Issuer::new(name.clone(), vec![name], key)
}

pub(crate) fn account() -> Value {
    json!({"metadata": {"name": "bot", "namespace": "tools", "uid": "u-1"}})
}

pub(crate) fn world() -> World {
    let mut world = World::default();
    world.put("serviceaccounts", account());
    world.put(
        "pods",
        json!({
            "metadata": {"name": "p", "namespace": "tools", "uid": "p-1"},
            "spec": {"serviceAccountName": "bot", "nodeName": "n"},
        }),
    );
    world.put(
        "pods",
        json!({
            "metadata": {"name": "other", "namespace": "tools", "uid": "p-2"},
            "spec": {"serviceAccountName": "default"},
        }),
    );
    world.put(
        "secrets",
        json!({"metadata": {"name": "s", "namespace": "tools", "uid": "s-1"}}),
    );
    world.put("nodes", json!({"metadata": {"name": "n", "uid": "n-1"}}));
    world
}

/// Runs a future that is always ready.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

pub(crate) fn issue(issuer: &Issuer, world: &World, spec: Value) -> Result<Value, Status> {
    let mut request = json!({"kind": "TokenRequest", "spec": spec});
    issuer.complete(&account(), &mut request, NOW)?;
    now_or_never(issuer.issue(world, &account(), request, "id-1".into(), NOW))
}

pub(crate) fn token_of(answer: &Value) -> &str {
    object::text(answer, &["status", "token"])
}

fn later(seconds: i64) -> Timestamp {
    Timestamp {
        seconds: NOW.seconds + seconds,
        nanos: 0,
    }
}

#[test]
fn a_token_names_its_account_until_it_ends() {
    let issuer = issuer();
    let answer = issue(&issuer, &world(), json!({})).unwrap();
    assert_eq!(answer["spec"]["expirationSeconds"], 3600);
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        later(3600).to_seconds()
    );
    let token = token_of(&answer);
    let claims = issuer.verify(token, None, later(3600)).unwrap().unwrap();
    assert_eq!(claims.audiences, issuer.audiences());
    now_or_never(claims.check(&world(), NOW)).unwrap();
    let user = claims.user();
    assert_eq!(user.name, "system:serviceaccount:tools:bot");
    assert_eq!(user.uid, "u-1");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:tools"]
    );
    assert_eq!(
        user.extra["authentication.kubernetes.io/credential-id"],
        ["JTI=id-1"]
    );

    let expired = issuer.verify(token, None, later(3600 + LEEWAY_SECONDS + 1));
    assert_eq!(expired.unwrap_err(), "service account token has expired");
    let early = issuer.verify(token, None, later(-LEEWAY_SECONDS - 1));
    assert_eq!(early.unwrap_err(), "service account token is not valid yet");
}

#[test]
fn a_token_is_for_its_audiences_alone() {
    let issuer = issuer();
    let answer = issue(&issuer, &world(), json!({"audiences": ["vault"]})).unwrap();
    let token = token_of(&answer);
    let ours = issuer.verify(token, None, NOW).unwrap_err();
    assert!(
        ours.contains("is invalid for the target audiences"),
        "{ours}"
    );
    let asked = ["vault".to_owned(), "other".to_owned()];
    let claims = issuer.verify(token, Some(&asked), NOW).unwrap().unwrap();
    assert_eq!(claims.audiences, ["vault"]);
}

#[test]
fn tokens_of_other_issuers_are_none_of_ours() {
    let ours = issuer();
    for token in ["", "admin-token", "a.b.c"] {
        assert_eq!(ours.verify(token, None, NOW), Ok(None));
    }
    let key = Key::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let other = key.sign(&json!({"iss": "https://elsewhere"})).unwrap();
    assert_eq!(ours.verify(&other, None, NOW), Ok(None));
    // A token that only claims our issuer is refused, not passed on.
    let forged = token_of(&issue(&issuer(), &world(), json!({})).unwrap()).to_owned();
    assert!(ours.verify(&forged, None, NOW).is_err());
}

#[test]
fn a_key_or_a_name_that_was_replaced_is_good_for_as_long_as_it_is_accepted() {
    let old = issuer();
    let token = token_of(&issue(&old, &world(), json!({})).unwrap()).to_owned();
    let key = || Key::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let new = || Issuer::new("https://new".to_owned(), old.audiences.clone(), key());
    let keys = old.checking.clone();
    assert_eq!(new().verify(&token, None, NOW), Ok(None));
    assert!(
        new()
            .accepting(&old.names, vec![])
            .verify(&token, None, NOW)
            .is_err()
    );
    let both = new().accepting(&old.names, keys);
    assert!(both.verify(&token, None, NOW).unwrap().is_some());
    let again = token_of(&issue(&both, &world(), json!({})).unwrap()).to_owned();
    assert_eq!(
        jwt::unverified_issuer(&again).as_deref(),
        Some("https://new")
    );
    assert_eq!(
        both.document("/openid/v1/jwks").unwrap()["keys"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_token_ends_with_what_it_is_bound_to() {
    let issuer = issuer();
    for (kind, name, resource) in [
        ("Pod", "p", "pods"),
        ("Secret", "s", "secrets"),
        ("Node", "n", "nodes"),
    ] {
        let spec = json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
        let answer = issue(&issuer, &world(), spec).unwrap();
        let claims = issuer
            .verify(token_of(&answer), None, NOW)
            .unwrap()
            .unwrap();
        now_or_never(claims.check(&world(), NOW)).unwrap();

        let mut again = world();
        let place = if kind == "Node" { "" } else { "tools" };
        again.put(
            resource,
            json!({"metadata": {"name": name, "namespace": place, "uid": "new"}}),
        );
        let why = now_or_never(claims.check(&again, NOW)).unwrap_err();
        assert!(why.contains("does not match"), "{kind}: {why}");

        let mut gone = world();
        gone.0.remove(&format!("{resource}/{place}/{name}"));
        let why = now_or_never(claims.check(&gone, NOW)).unwrap_err();
        assert_eq!(why, "service account token has been invalidated");
    }
}

#[test]
fn a_token_ends_with_its_account() {
    let issuer = issuer();
    let answer = issue(&issuer, &world(), json!({})).unwrap();
    let claims = issuer
        .verify(token_of(&answer), None, NOW)
        .unwrap()
        .unwrap();
    let mut deleted = account();
    deleted["metadata"]["deletionTimestamp"] = later(-30).to_seconds().into();
    let mut world = World::default();
    world.put("serviceaccounts", deleted.clone());
    now_or_never(claims.check(&world, NOW)).unwrap();
    deleted["metadata"]["deletionTimestamp"] = later(-90).to_seconds().into();
    world.put("serviceaccounts", deleted);
    let why = now_or_never(claims.check(&world, NOW)).unwrap_err();
    assert_eq!(why, "service account tools/bot has been deleted");
    now_or_never(claims.check(&World::default(), NOW)).unwrap_err();
}

#[test]
fn the_token_of_a_pod_tells_pod_and_node_and_outlives_what_was_asked() {
    let issuer = issuer();
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-1"});
    let spec = json!({"boundObjectRef": bound, "expirationSeconds": SECONDS_OF_POD});
    let answer = issue(&issuer, &world(), spec).unwrap();
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        later(SECONDS_OF_POD).to_seconds()
    );
    let claims = issuer.verify(token_of(&answer), None, later(30 * 24 * 3600));
    let extra = claims.unwrap().unwrap().user().extra;
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], ["p"]);
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], ["p-1"]);
    assert_eq!(extra["authentication.kubernetes.io/node-name"], ["n"]);
    assert_eq!(extra["authentication.kubernetes.io/node-uid"], ["n-1"]);
}

#[test]
fn requests_that_ask_too_much_are_refused() {
    let issuer = issuer();
    let bound = |kind: &str, name: &str, uid: &str| {
        json!({"boundObjectRef": {
            "apiVersion": "v1", "kind": kind, "name": name, "uid": uid,
        }})
    };
    for (spec, code, words) in [
        (
            json!({"expirationSeconds": 599}),
            422,
            "less than 10 minutes",
        ),
        (
            json!({"expirationSeconds": (1_i64 << 32) + 1}),
            422,
            "larger than 2^32 seconds",
        ),
        (
            bound("Pod", "other", ""),
            400,
            "different serviceaccount name",
        ),
        (
            bound("Pod", "nowhere", ""),
            404,
            "pods \"nowhere\" not found",
        ),
        (
            bound("Pod", "p", "p-9"),
            409,
            "does not match the UID in record",
        ),
        (
            bound("ConfigMap", "p", ""),
            400,
            "cannot bind token to object of type",
        ),
    ] {
        let refused = issue(&issuer, &world(), spec).unwrap_err();
        assert_eq!(refused.code, code, "{}", refused.message);
        assert!(refused.message.contains(words), "{}", refused.message);
    }
    for (key, code) in [("name", 422), ("namespace", 422), ("uid", 409)] {
        let mut request = json!({"metadata": {key: "another"}, "spec": {}});
        let refused = issuer.complete(&account(), &mut request, NOW);
        assert_eq!(refused.unwrap_err().code, code, "{key}");
    }
}

#[test]
fn others_can_find_the_keys() {
    let issuer = issuer();
    let found = issuer
        .document("/.well-known/openid-configuration")
        .unwrap();
    assert_eq!(
        found["jwks_uri"],
        "https://kubernetes.default.svc/openid/v1/jwks"
    );
    assert_eq!(
        found["id_token_signing_alg_values_supported"],
        json!(["ES256"])
    );
    let keys = issuer.document("/openid/v1/jwks").unwrap();
    assert_eq!(keys["keys"][0]["kty"], "EC");
    assert_eq!(issuer.document("/openid"), None);
}
