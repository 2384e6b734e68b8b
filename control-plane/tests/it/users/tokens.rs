//! Users whom somebody else vouches for: a webhook that knows tokens, an OpenID provider, secrets
//! with bootstrap tokens, and a proxy that names users in headers.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use apiserver::auth::authenticate::jwt::Key;
use apiserver::auth::pki::{Identity, Pki};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::time::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::Launch;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::admission::webhooks::server::{Hook, Reply};
use crate::harness::cluster::{BINARY, WITHIN, apiserver, apiserver_with};
use crate::requests::http::{Answer, Call};

const MYSELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const POLL: Duration = Duration::from_millis(50);
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

/// A store and an apiserver; stopped when dropped.
struct Served {
    _store: testkit::Server,
    apiserver: Child,
    address: String,
}

impl Served {
    /// An apiserver with these flags, to which the owner shows a token.
    fn start(home: &TempDir, flags: &[&str]) -> Served {
        let tokens = file(home, "tokens.csv", "root-token,root,1,\"system:masters\"\n");
        let tokens = format!("--token-auth-file={tokens}");
        Served::by(apiserver, &[&[&*tokens], flags].concat())
    }

    fn by(start: impl FnOnce(&str, &[&str]) -> (Child, String), flags: &[&str]) -> Served {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let (apiserver, address) = start(&store.url(), flags);
        Served {
            _store: store,
            apiserver,
            address,
        }
    }

    fn ask(&self, token: &str, path: &str, object: &Value) -> Answer {
        let call = Call::new(&self.address, "POST", path);
        let call = call.header("Authorization", &format!("Bearer {token}"));
        call.json(object).send()
    }

    /// Whom the server takes the bearer of a token for.
    fn who(&self, token: &str) -> Answer {
        self.ask(token, MYSELF, &myself())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.apiserver.kill();
        let _ = self.apiserver.wait();
    }
}

fn file(home: &TempDir, name: &str, text: &str) -> String {
    let path = home.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn myself() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
}

fn user(answer: &Answer) -> Value {
    answer.expect(201)["status"]["userInfo"].clone()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp {
        seconds: since.unwrap().as_secs().try_into().unwrap(),
        nanos: 0,
    }
}

/// Kubernetes' control loop signs such tokens; here the test does.
#[test]
fn the_token_of_a_secret_is_good_and_its_use_is_recorded() {
    let home = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let flags = [
        format!(
            "--service-account-signing-key-file={}",
            file(&home, "sa.key", &key)
        ),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
    ];
    let served = Served::start(&home, &[&flags[0], &flags[1]]);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts";
    let account = served.ask("root-token", accounts, &account).expect(201);
    let claim = |key: &str| format!("kubernetes.io/serviceaccount/{key}");
    let token = Key::from_pem(&key).unwrap().sign(&json!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:kube-system:robot",
        claim("namespace"): "kube-system",
        claim("secret.name"): "robot",
        claim("service-account.name"): "robot",
        claim("service-account.uid"): account["metadata"]["uid"],
    }));
    let token = token.unwrap();
    assert_eq!(served.who(&token).code, 401, "there is no secret yet");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "robot", "annotations": {"kubernetes.io/service-account.name": "robot"},
        },
        "data": {"token": STANDARD.encode(&token)},
    });
    served.ask("root-token", SECRETS, &secret).expect(201);
    let robot = user(&served.who(&token));
    assert_eq!(robot["username"], "system:serviceaccount:kube-system:robot");

    let get = |path: &str| {
        let call = Call::new(&served.address, "GET", path);
        let call = call.header("Authorization", "Bearer root-token");
        call.send().expect(200)
    };
    let label = "kubernetes.io/legacy-token-last-used";
    let begun = Instant::now();
    while get(&format!("{SECRETS}/robot"))["metadata"]["labels"][label].is_null() {
        assert!(begun.elapsed() < WITHIN, "the use is recorded");
        sleep(POLL);
    }
    let since = "kube-apiserver-legacy-service-account-token-tracking";
    let since = get(&format!(
        "/api/v1/namespaces/kube-system/configmaps/{since}"
    ));
    assert!(since["data"]["since"].is_string(), "{since}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_vouches_for_tokens() {
    let hook = Hook::start(&["127.0.0.1"]).await;
    hook.on("/review", |review| {
        let token = review["spec"]["token"].as_str().unwrap();
        let status = match token {
            "of-jane" => json!({"authenticated": true, "user": {"username": "jane"}}),
            _ => json!({"authenticated": false}),
        };
        let answer = json!({"apiVersion": "authentication.k8s.io/v1beta1", "kind": "TokenReview",
            "status": status});
        Reply::Raw(200, answer.to_string())
    });
    let home = tempfile::tempdir().unwrap();
    let config = format!(
        "clusters:\n- name: c\n  cluster:\n    server: https://{}/review\n    \
         certificate-authority-data: {}\ncontexts:\n- name: c\n  context:\n    cluster: c\n\
         current-context: c\n",
        hook.address, hook.bundle
    );
    let config = file(&home, "webhook.yaml", &config);
    let flag = format!("--authentication-token-webhook-config-file={config}");
    let served = Served::start(&home, &[&flag]);
    for _ in 0..2 {
        let jane = user(&served.who("of-jane"));
        assert_eq!(jane["username"], "jane");
        assert_eq!(jane["groups"], json!(["system:authenticated"]));
        assert_eq!(served.who("of-nobody").code, 401);
    }
    assert_eq!(hook.calls().len(), 2, "answers are kept");
    // Who is known without the webhook causes no question.
    assert_eq!(user(&served.who("root-token"))["username"], "root");
    assert_eq!(hook.calls().len(), 0);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": "of-jane"}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let reviewed = served.ask("root-token", path, &review).expect(201);
    assert_eq!(reviewed["status"]["user"]["username"], "jane");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_openid_provider_vouches_for_tokens() {
    let hook = Hook::start(&["127.0.0.1"]).await;
    let issuer = format!("https://{}", hook.address);
    let key = Key::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let document = json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")});
    hook.on("/.well-known/openid-configuration", move |_| {
        Reply::Raw(200, document.to_string())
    });
    let keys = json!({"keys": [key.public.jwk()]});
    hook.on("/keys", move |_| Reply::Raw(200, keys.to_string()));
    let home = tempfile::tempdir().unwrap();
    let bundle = String::from_utf8(STANDARD.decode(&hook.bundle).unwrap()).unwrap();
    let served = Served::start(
        &home,
        &[
            &format!("--oidc-issuer-url={issuer}"),
            "--oidc-client-id=cluster",
            "--oidc-signing-algs=ES256",
            "--oidc-groups-claim=groups",
            "--oidc-groups-prefix=o:",
            &format!("--oidc-ca-file={}", file(&home, "ca.pem", &bundle)),
        ],
    );
    let token = |audience: &str| {
        let claims = json!({"iss": issuer, "aud": audience, "sub": "jane",
            "exp": now().seconds + 600, "groups": ["devs"]});
        key.sign(&claims).unwrap()
    };
    let good = token("cluster");
    let begun = std::time::Instant::now();
    // The provider is looked for in the background.
    let answer = loop {
        let answer = served.who(&good);
        if answer.code != 401 || begun.elapsed() > WITHIN {
            break answer;
        }
    };
    let jane = user(&answer);
    assert_eq!(jane["username"], format!("{issuer}#jane"));
    assert_eq!(jane["groups"], json!(["o:devs", "system:authenticated"]));
    assert_eq!(served.who(&token("other")).code, 401);
}

#[test]
fn a_secret_vouches_for_a_bootstrap_token() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(&home, &["--enable-bootstrap-token-auth"]);
    let token = "abcdef.0123456789abcdef";
    assert_eq!(served.who(token).code, 401);
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true"}});
    served.ask("root-token", SECRETS, &secret).expect(201);
    // Another request of the owner waits for the caches.
    let listed = Call::new(&served.address, "GET", SECRETS);
    let listed = listed.header("Authorization", "Bearer root-token").send();
    listed.expect(200);
    let node = user(&served.who(token));
    assert_eq!(node["username"], "system:bootstrap:abcdef");
    let groups = json!(["system:bootstrappers", "system:authenticated"]);
    assert_eq!(node["groups"], groups);
    assert_eq!(served.who("abcdef.0123456789abcdeg").code, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_names_users_if_its_certificate_allows_that() {
    let home = tempfile::tempdir().unwrap();
    let proxies = Pki::open(&home.path().join("proxies"), &[], now()).unwrap();
    let ours = home.path().join("ours");
    let served = Served::by(
        apiserver_with,
        &[
            &format!("--admin-kubeconfig={}", home.path().join("admin").display()),
            &format!("--cert-dir={}", ours.display()),
            &format!(
                "--requestheader-client-ca-file={}",
                home.path().join("proxies/ca.crt").display()
            ),
            "--requestheader-allowed-names=front",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ],
    );
    let pki = Pki::open(&ours, &[], now()).unwrap();
    let headers = "X-Remote-User: jane\r\nX-Remote-Group: system:masters\r\n";
    let ask = async |identity: &Identity, method: &str, path: &str, body: &str| {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}");
        let request = format!(
            "{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        over_tls(&served.address, &ours.join("ca.crt"), identity, &request).await
    };
    let front = proxies.client("front", "", now()).unwrap();
    let named = ask(&front, "POST", MYSELF, &myself().to_string()).await;
    assert!(named.contains("\"username\":\"jane\""), "{named}");
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let published = ask(&front, "GET", map, "").await;
    for words in ["requestheader-client-ca-file", "[\\\"front\\\"]"] {
        assert!(published.contains(words), "{published}");
    }
    let other = proxies.client("other", "", now()).unwrap();
    let refused = ask(&other, "POST", MYSELF, &myself().to_string()).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let client = pki.client("front", "", now()).unwrap();
    let itself = ask(&client, "POST", MYSELF, &myself().to_string()).await;
    assert!(itself.contains("\"username\":\"front\""), "{itself}");
}

/// Sends a request as `identity` to a server that `authority` has signed.
async fn over_tls(address: &str, authority: &Path, identity: &Identity, request: &str) -> String {
    let mut roots = RootCertStore::empty();
    let authority = std::fs::read(authority).unwrap();
    let pem = |pem: &[u8]| CertificateDer::from_pem_slice(pem).unwrap();
    roots.add(pem(&authority)).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![pem(identity.certificate.as_bytes())], key)
        .unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The server may end the connection without a farewell.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}
