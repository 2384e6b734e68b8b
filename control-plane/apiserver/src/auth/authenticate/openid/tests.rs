use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use parking_lot::Mutex;
use serde_json::json;

use super::super::foreign_issuer::{ExtraMapping, UserRule};
use super::super::jwt::Key;
use super::*;
use crate::auth::user;
use crate::webhook::testing::Server;

const NOW: Timestamp = Timestamp {
    seconds: 1_800_000_000,
    nanos: 0,
};

/// A provider with these keys.
struct World {
    server: Server,
    keys: Arc<Mutex<Vec<Value>>>,
    fetched: Arc<AtomicUsize>,
    key: Key,
}

fn key() -> Key {
    Key::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap()
}

async fn world() -> World {
    let key = key();
    let keys = Arc::new(Mutex::new(vec![key.public.jwk()]));
    let fetched = Arc::<AtomicUsize>::default();
    let shared = (Arc::clone(&keys), Arc::clone(&fetched));
    let server = Server::start(move |parts: &Parts, _: Bytes| {
        let issuer = format!("http://{}", parts.headers["host"].to_str().unwrap());
        let answer = match parts.uri.path() {
            DOCUMENT => json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}),
            "/keys" => {
                shared.1.fetch_add(1, Ordering::SeqCst);
                json!({"keys": *shared.0.lock()})
            }
            other => panic!("{other}"),
        };
        Response::new(answer.to_string())
    });
    World {
        server: server.await,
        keys,
        fetched,
        key,
    }
}

const DOCUMENT: &str = "/.well-known/openid-configuration";

impl World {
    fn options(&self) -> Options {
        Options {
            issuer: self.server.url(),
            client_id: "cluster".to_owned(),
            username_claim: "sub".to_owned(),
            algorithms: vec!["ES256".to_owned()],
            ..Options::default()
        }
    }

    fn claims(&self, changes: &Value) -> Value {
        let mut claims = json!({
            "iss": self.server.url(), "aud": "cluster", "sub": "jane", "exp": NOW.seconds,
        });
        for (key, value) in changes.as_object().unwrap() {
            claims[key] = value.clone();
        }
        claims
    }

    /// What becomes of a token with these claims.
    async fn find(&self, options: Options, changes: &Value) -> Result<User, String> {
        let openid = found(options).await;
        let token = self.key.sign(&self.claims(changes)).unwrap();
        openid.find(&token, NOW).await.map(Option::unwrap)
    }
}

/// A user of a provider that was found.
async fn found(options: Options) -> OpenId {
    let openid = OpenId::start(&options).unwrap();
    while !openid.provider.is_found() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    openid
}

#[tokio::test]
async fn a_token_of_the_provider_names_its_user() {
    let world = world().await;
    let user = world.find(world.options(), &json!({"jti": "7"})).await;
    let user = user.unwrap();
    assert_eq!(user.name, format!("{}#jane", world.server.url()));
    assert!(user.groups.is_empty());
    assert_eq!(user.extra[user::CREDENTIAL_ID], ["JTI=7"]);
}

#[tokio::test]
async fn claims_and_prefixes_are_chosen() {
    let world = world().await;
    let options = Options {
        username_claim: "email".to_owned(),
        groups_claim: "roles".to_owned(),
        groups_prefix: "o:".to_owned(),
        required_claims: vec![("hd".to_owned(), "x".to_owned())],
        ..world.options()
    };
    let good = json!({"email": "j@x", "hd": "x", "roles": ["a", "b"]});
    let user = world.find(options.clone(), &good).await.unwrap();
    assert_eq!(user.name, "j@x", "mail addresses have no prefix");
    assert_eq!(user.groups, ["o:a", "o:b"]);
    let one = json!({"email": "j@x", "hd": "x", "roles": "a", "email_verified": true});
    let user = world.find(options.clone(), &one).await.unwrap();
    assert_eq!(user.groups, ["o:a"]);
    for (changes, words) in [
        (json!({"email_verified": false}), "email not verified"),
        (json!({"email_verified": "true"}), "email not verified"),
        (json!({"email": ""}), "names no user"),
        (json!({"email": 7}), "parse username claims"),
        (json!({"hd": "y"}), "Got = y, want = x"),
        (json!({"hd": ["x"]}), "parse claim hd"),
        (json!({"roles": [1]}), "parse groups claim"),
    ] {
        let mut claims = good.clone();
        for (key, value) in changes.as_object().unwrap() {
            claims[key] = value.clone();
        }
        let why = world.find(options.clone(), &claims).await.unwrap_err();
        assert!(why.contains(words), "{changes}: {why}");
    }
    let elsewhere = json!({"email": "j@x", "hd": "x", "_claim_names": {"roles": "s"}});
    let why = world.find(options.clone(), &elsewhere).await.unwrap_err();
    assert!(why.contains("distributed claims"), "{why}");
    let plain = Options {
        username_prefix: "-".to_owned(),
        ..world.options()
    };
    let user = world.find(plain, &json!({})).await.unwrap();
    assert_eq!(user.name, "jane");
}

#[tokio::test]
async fn tokens_for_others_and_of_other_times_are_refused() {
    let world = world().await;
    for (changes, words) in [
        (json!({"aud": "other"}), "expected audience"),
        (json!({"aud": ["other"]}), "expected audience"),
        (json!({"aud": null}), "expected audience"),
        (json!({"exp": NOW.seconds - 1}), "expired"),
        (json!({"exp": null}), "expired"),
        (json!({"exp": "never"}), "expired"),
        (json!({"nbf": NOW.seconds + 61}), "not valid yet"),
        (json!({"nbf": "now"}), "not valid yet"),
    ] {
        let why = world.find(world.options(), &changes).await.unwrap_err();
        assert!(why.contains(words), "{changes}: {why}");
    }
    let several = json!({"aud": ["other", "cluster"], "nbf": NOW.seconds + 60});
    world.find(world.options(), &several).await.unwrap();
    let rsa = Options {
        algorithms: vec!["RS256".to_owned()],
        ..world.options()
    };
    let why = world.find(rsa, &json!({})).await.unwrap_err();
    assert!(why.contains("unsupported algorithm"), "{why}");
}

#[tokio::test]
async fn a_token_of_another_issuer_is_for_somebody_else() {
    let world = world().await;
    let openid = found(world.options()).await;
    let token = world.key.sign(&json!({"iss": "https://other"})).unwrap();
    assert_eq!(openid.find(&token, NOW).await, Ok(None));
    assert_eq!(openid.find("no token", NOW).await, Ok(None));
    assert_eq!(
        world.fetched.load(Ordering::SeqCst),
        0,
        "nobody asks for keys"
    );
}

#[tokio::test]
async fn strange_keys_cause_one_fetch_and_new_ones_are_found() {
    let world = world().await;
    let openid = found(world.options()).await;
    let stranger = key();
    let forged = stranger.sign(&world.claims(&json!({}))).unwrap();
    for _ in 0..3 {
        openid.find(&forged, NOW).await.unwrap_err();
    }
    assert_eq!(world.fetched.load(Ordering::SeqCst), 1);
    let token = world.key.sign(&world.claims(&json!({}))).unwrap();
    openid.find(&token, NOW).await.unwrap();
    assert_eq!(world.fetched.load(Ordering::SeqCst), 1);

    // Another start finds the keys as they are then, and leaves out what it does not know.
    *world.keys.lock() = vec![json!({"kty": "oct", "k": "AA"}), stranger.public.jwk()];
    let openid = found(world.options()).await;
    openid.find(&forged, NOW).await.unwrap();
    openid.find(&token, NOW).await.unwrap_err();
}

#[tokio::test]
async fn until_the_provider_is_found_its_tokens_let_nobody_in() {
    let world = world().await;
    let options = Options {
        // The document says another one.
        issuer: format!("{}/", world.server.url()),
        ..world.options()
    };
    let openid = OpenId::start(&options).unwrap();
    let claims = json!({"iss": format!("{}/", world.server.url())});
    let token = world.key.sign(&claims).unwrap();
    let why = openid.find(&token, NOW).await.unwrap_err();
    assert_eq!(why, "oidc: authenticator not initialized");
}

#[test]
fn issuers_and_algorithms_are_checked() {
    let options = |issuer: &str, algorithm: &str| Options {
        issuer: issuer.to_owned(),
        client_id: "cluster".to_owned(),
        username_claim: "sub".to_owned(),
        algorithms: vec![algorithm.to_owned()],
        ..Options::default()
    };
    let ours = ["https://ours".to_owned()];
    options("https://a/b", "PS512").validate(&ours).unwrap();
    for (issuer, algorithm, words) in [
        ("https://ours", "RS256", "disallowed issuers"),
        ("http://a", "RS256", "URL scheme must be https"),
        ("https://u:p@a", "RS256", "username or password"),
        ("https://a?b", "RS256", "must not contain a query"),
        ("https://a#b", "RS256", "must not contain a fragment"),
        ("https://a", "HS256", "unsupported signing alg: \"HS256\""),
    ] {
        let why = options(issuer, algorithm).validate(&ours).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

/// Whoever sends a token with an unknown key and goes away must not keep the keys from the others.
#[tokio::test]
async fn a_client_that_goes_away_does_not_end_the_fetching_of_keys() {
    let world = world().await;
    let openid = found(world.options()).await;
    let token = world.key.sign(&world.claims(&json!({}))).unwrap();
    {
        let asking = openid.find(&token, NOW);
        let mut asking = std::pin::pin!(asking);
        let begun = std::future::poll_fn(|context| {
            use std::future::Future as _;
            std::task::Poll::Ready(asking.as_mut().poll(context).is_pending())
        });
        assert!(begun.await, "the keys are not there yet");
    }
    openid.find(&token, NOW).await.unwrap().unwrap();
    assert_eq!(world.fetched.load(Ordering::SeqCst), 1);
}

/// What becomes of a token by an issuer of a configuration.
async fn of_jwt(
    world: &World,
    change: impl FnOnce(&mut Jwt),
    claims: &Value,
) -> Result<User, String> {
    let mut jwt = world.options().jwt(String::new());
    change(&mut jwt);
    let openid = OpenId::open(jwt, vec!["ES256".to_owned()]).unwrap();
    while !openid.provider.is_found() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let token = world.key.sign(&world.claims(claims)).unwrap();
    openid.find(&token, NOW).await.map(Option::unwrap)
}

fn expression(source: &str) -> Mapping {
    Mapping {
        expression: source.to_owned(),
        ..Mapping::default()
    }
}

#[tokio::test]
async fn expressions_say_what_claims_mean() {
    let world = world().await;
    let claims = json!({"roles": "a,b,", "team": {"name": "x"}, "n": 7, "jti": "1"});
    let user = of_jwt(
        &world,
        |jwt| {
            jwt.claim_mappings = Mappings {
                username: expression("'my:' + claims.sub"),
                groups: expression("claims.roles.split(',')"),
                uid: expression("string(claims.n)"),
                extra: vec![
                    ExtraMapping {
                        key: "acme.io/team".to_owned(),
                        value_expression: "claims.team.name".to_owned(),
                    },
                    ExtraMapping {
                        key: "acme.io/none".to_owned(),
                        value_expression: "claims.?none.orValue('')".to_owned(),
                    },
                ],
            };
        },
        &claims,
    );
    let user = user.await.unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("my:jane", "7"));
    assert_eq!(user.groups, ["a", "b"]);
    assert_eq!(user.extra["acme.io/team"], ["x"]);
    assert_eq!(user.extra[user::CREDENTIAL_ID], ["JTI=1"]);
    assert_eq!(user.extra.len(), 2);
    for (source, why) in [
        ("claims.none", "no such key: none"),
        ("claims.n", "username claim expression must return a string"),
        ("''", "empty username via CEL expression is not allowed"),
    ] {
        let change = |jwt: &mut Jwt| jwt.claim_mappings.username = expression(source);
        let told = of_jwt(&world, change, &claims).await.unwrap_err();
        assert!(told.contains(why), "{told}");
    }
}

#[tokio::test]
async fn rules_about_claims_and_users_have_to_be_kept() {
    let world = world().await;
    let rule = |jwt: &mut Jwt, claims: &str, user: &str| {
        jwt.claim_validation_rules = vec![ClaimRule {
            expression: claims.to_owned(),
            message: "of claims".to_owned(),
            ..ClaimRule::default()
        }];
        jwt.user_validation_rules = vec![UserRule {
            expression: user.to_owned(),
            message: "of users".to_owned(),
        }];
    };
    let good = [
        "claims.exp - claims.iat < 3600",
        "!user.username.startsWith('system:')",
    ];
    let claims = json!({"iat": NOW.seconds - 60, "aud": ["other", "cluster"]});
    let found = of_jwt(&world, |jwt| rule(jwt, good[0], good[1]), &claims).await;
    found.unwrap();
    let told = of_jwt(
        &world,
        |jwt| rule(jwt, "claims.sub == 'joe'", good[1]),
        &claims,
    )
    .await;
    assert_eq!(
        told.unwrap_err(),
        "oidc: error evaluating claim validation expression: validation expression \
         'claims.sub == 'joe'' failed: of claims"
    );
    let told = of_jwt(
        &world,
        |jwt| rule(jwt, good[0], "user.groups.size() > 0"),
        &claims,
    )
    .await;
    assert_eq!(
        told.unwrap_err(),
        "oidc: error evaluating user info validation rule: validation expression \
         'user.groups.size() > 0' failed: of users"
    );
}

#[tokio::test]
async fn a_document_may_be_elsewhere() {
    let world = world().await;
    let elsewhere = Server::start({
        let issuer = world.server.url();
        move |parts: &Parts, _: Bytes| {
            assert_eq!(parts.uri.path(), "/document");
            let keys = format!("{issuer}/keys");
            Response::new(json!({"issuer": issuer, "jwks_uri": keys}).to_string())
        }
    })
    .await;
    let url = format!("{}/document", elsewhere.url());
    let change = |jwt: &mut Jwt| jwt.issuer.discovery_url = url;
    of_jwt(&world, change, &json!({})).await.unwrap();
}
