//! Signed tokens compared with etcd: each server must accept the tokens that the other issues, and
//! refuse those that the other refuses.
#![expect(
    clippy::disallowed_methods,
    reason = "a test writes keys, and reads the clock that tokens are good by"
)]

use std::path::Path;
use std::time::{Duration, SystemTime};

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use aws_lc_rs::{hmac, rsa};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use serde_json::{Value, json};
use testkit::{Launch, Server, Tools};
use tonic::{Code, Streaming};

use super::ask::{Request, ask, call};
use super::cluster::{add_users, get, login, must, put};
use super::{CHEAP, client};
use crate::harness::subject;
use crate::usual::pages::samples;

const OLD: &str = "etcdserver: revision of auth store is old";
const AGAIN: Duration = Duration::from_millis(20);

/// Signs as the servers do.
enum Key {
    Secret(Box<hmac::Key>),
    Rsa(rsa::KeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Key {
    /// For a method, and its halves for files, the private one first.
    fn new(method: &str) -> (Key, [Vec<u8>; 2]) {
        let random = SystemRandom::new();
        match method {
            "HS256" => {
                let secret: [u8; 32] = aws_lc_rs::rand::generate(&random).unwrap().expose();
                let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
                (Key::Secret(Box::new(key)), [secret.to_vec(), Vec::new()])
            }
            "RS256" => {
                let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
                let private: Pkcs8V1Der<'_> = pair.as_der().unwrap();
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
                let files = pems(private.as_ref(), public.as_ref());
                (Key::Rsa(pair), files)
            }
            "ES256" => {
                let algorithm = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
                let private = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
                let pair = EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref()).unwrap();
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
                let files = pems(private.as_ref(), public.as_ref());
                (Key::Ec(pair), files)
            }
            "EdDSA" => {
                let private = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                let pair = Ed25519KeyPair::from_pkcs8(private.as_ref()).unwrap();
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
                let files = pems(private.as_ref(), public.as_ref());
                (Key::Ed(pair), files)
            }
            method => panic!("{method}"),
        }
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Key::Secret(key) => hmac::sign(key, text).as_ref().to_vec(),
            Key::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let encoding = &signature::RSA_PKCS1_SHA256;
                pair.sign(encoding, &random, text, &mut signature).unwrap();
                signature
            }
            Key::Ec(pair) => pair.sign(&random, text).unwrap().as_ref().to_vec(),
            Key::Ed(pair) => pair.sign(text).as_ref().to_vec(),
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let parts = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = parts.join(".");
        format!(
            "{text}.{}",
            URL_SAFE_NO_PAD.encode(self.sign(text.as_bytes()))
        )
    }
}

fn pems(private: &[u8], public: &[u8]) -> [Vec<u8>; 2] {
    [("PRIVATE KEY", private), ("PUBLIC KEY", public)]
        .map(|(tag, der)| pem::encode(&pem::Pem::new(tag, der)).into_bytes())
}

/// `--auth-token` with both halves of a key, or its only one.
fn flag(dir: &Path, method: &str, files: &[Vec<u8>; 2], ttl: &str) -> String {
    let mut flag = format!("--auth-token=jwt,sign-method={method},ttl={ttl}");
    for (name, file) in ["priv-key", "pub-key"].into_iter().zip(files) {
        if !file.is_empty() {
            let path = dir.join(format!("{method}-{name}"));
            std::fs::write(&path, file).unwrap();
            flag.push_str(&format!(",{name}={}", path.display()));
        }
    }
    flag
}

fn start(launch: Launch, flag: &str) -> Server {
    let started = launch.flag(CHEAP).flag(flag).start();
    started.unwrap_or_else(|error| panic!("{error}"))
}

/// What alice may, and may not, with each of the tokens, at both servers.
async fn same(clients: &[Client; 2], tokens: &[(String, String)]) {
    for (what, token) in tokens {
        for request in [
            get(b"a", false),
            put(b"a"),
            get(b"b", true),
            Request::Status,
        ] {
            let [etcd, stele] = clients;
            let etcd = ask(etcd, &request, Some(token)).await.shown;
            let stele = ask(stele, &request, Some(token)).await.shown;
            assert_eq!(etcd, stele, "{what}: {request:?}");
        }
    }
}

/// Tokens that are wrong in one way each, and a few that are right.
fn forged(method: &str, key: &Key, revision: u64) -> Vec<(String, String)> {
    let header = json!({ "alg": method, "typ": "JWT" });
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let claims = json!({ "username": "alice", "revision": revision, "exp": now + 1000 });
    let with = |name: &str, value: Value| {
        let mut claims = claims.clone();
        claims[name] = value;
        key.token(&header, &claims)
    };
    let without = |name: &str| {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().remove(name);
        key.token(&header, &claims)
    };
    let good = key.token(&header, &claims);
    let (_, signature) = good.rsplit_once('.').unwrap();
    let mut tokens = vec![
        ("good", good.clone()),
        ("as a bearer", format!("Bearer {good}")),
        ("of another key", Key::new(method).0.token(&header, &claims)),
        ("no method", key.token(&json!({ "alg": "none" }), &claims)),
        (
            "another method",
            key.token(&json!({ "alg": "HS384" }), &claims),
        ),
        ("no header", key.token(&json!({}), &claims)),
        ("expired", with("exp", json!(now - 5))),
        (
            "expired as a fraction",
            with("exp", json!(now as f64 - 4.5)),
        ),
        (
            "expires as text",
            with("exp", json!((now + 1000).to_string())),
        ),
        ("expires in nothing", with("exp", Value::Null)),
        ("expires at zero", with("exp", json!(0))),
        ("never expires", without("exp")),
        ("not yet", with("nbf", json!(now + 1000))),
        ("now", with("nbf", json!(now - 5))),
        ("made in the future", with("iat", json!(now + 1000))),
        ("of nobody", without("username")),
        ("of a number", with("username", json!(7))),
        ("of an unknown", with("username", json!("mallory"))),
        ("of root", with("username", json!("root"))),
        ("of no revision", without("revision")),
        ("of revision zero", with("revision", json!(0))),
        ("of the past", with("revision", json!(revision - 1))),
        ("of the future", with("revision", json!(revision + 1))),
        (
            "of a fraction",
            with("revision", json!(revision as f64 + 0.5)),
        ),
        ("of a text", with("revision", json!(revision.to_string()))),
        ("claims nothing", key.token(&header, &json!({}))),
        ("claims a list", key.token(&header, &json!([1]))),
        ("cut", good[..good.len() - 4].to_owned()),
        ("unsigned", good.replace(signature, "")),
        ("two parts", good.rsplit_once('.').unwrap().0.to_owned()),
        ("four parts", format!("{good}.x")),
        ("nothing", String::new()),
    ];
    tokens.dedup_by(|a, b| a.1 == b.1);
    let named = tokens.into_iter();
    named
        .map(|(what, token)| (format!("{method}: {what}"), token))
        .collect()
}

/// As the servers count it.
fn auth_revision(server: &Server) -> u64 {
    samples(server)["etcd_debugging_auth_revision"] as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_signs_the_other_believes() {
    let Some(tools) = Tools::or_skip("signed tokens beside etcd's") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    for method in ["RS256", "ES256", "EdDSA", "HS256"] {
        let (key, files) = Key::new(method);
        // Of one method the tokens that servers hand out are to end; others are signed here.
        let is_short = method == "HS256";
        let flag = flag(
            dir.path(),
            method,
            &files,
            if is_short { "1s" } else { "5m" },
        );
        let servers = [Launch::etcd(&tools), subject::launch()].map(|launch| start(launch, &flag));
        let clients = [client(&servers[0]).await, client(&servers[1]).await];
        for client in &clients {
            add_users(client).await;
        }
        let revisions = servers.each_ref().map(auth_revision);
        assert_eq!(revisions[0], revisions[1]);
        same(&clients, &forged(method, &key, revisions[1])).await;
        let mut tokens = Vec::new();
        for client in &clients {
            tokens.push((
                "handed out".to_owned(),
                login(client, "alice", "alice").await,
            ));
        }
        if is_short {
            for (client, (_, token)) in clients.iter().zip(&tokens) {
                let refused = until_refused(client, token).await;
                assert_eq!(refused, (16, "etcdserver: invalid auth token".to_owned()));
            }
            continue;
        }
        same(&clients, &tokens).await;
        // Any change makes all tokens old, also in the middle of an answer.
        for client in &clients {
            let root = login(client, "root", "root").await;
            let stream = match method {
                "RS256" => Some(stream_of_much(client, &root).await),
                _ => None,
            };
            let name = "new".to_owned();
            must(
                client,
                Request::RoleAdd(pb::AuthRoleAddRequest { name }),
                Some(&root),
            )
            .await;
            let (_, text) = ask(client, &get(b"a", false), Some(&tokens[0].1))
                .await
                .shown
                .unwrap_err();
            assert_eq!(text, OLD);
            let Some(mut stream) = stream else {
                continue;
            };
            let ended = loop {
                match stream.message().await {
                    Ok(part) => assert!(part.is_some(), "the answer counts for good"),
                    Err(ended) => break ended,
                }
            };
            assert_eq!(
                (ended.code(), ended.message()),
                (Code::InvalidArgument, OLD)
            );
        }
        same(&clients, &tokens).await;
        assert_eq!(auth_revision(&servers[1]), revisions[1] + 1);
    }
}

/// Of more than fits into all that lies between a server and its client; its first part is read.
async fn stream_of_much(client: &Client, root: &str) -> Streaming<pb::RangeStreamResponse> {
    for key in 0..16_u8 {
        let put = pb::PutRequest {
            key: vec![b'm', key].into(),
            value: vec![key; 1 << 20].into(),
            ..Default::default()
        };
        must(client, Request::Put(put), Some(root)).await;
    }
    let range = pb::RangeRequest {
        key: "m".into(),
        range_end: "n".into(),
        ..Default::default()
    };
    let stream = client.kv().range_stream(call(range, Some(root))).await;
    let mut stream = stream.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    stream
}

async fn until_refused(client: &Client, token: &str) -> (i32, String) {
    loop {
        if let Err(refused) = ask(client, &get(b"a", true), Some(token)).await.shown {
            return refused;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
