//! A webhook for tests: an HTTPS server with a certificate of its own, whose answers a test writes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// What a webhook does with a question.
type Behaviour = Arc<dyn Fn(&Value) -> Reply + Send + Sync>;

/// What a webhook answers.
pub(crate) enum Reply {
    /// The response of a review. It gets the uid of its question.
    Review(Value),
    /// A code and a body.
    Raw(u16, String),
    /// That the write is allowed, once the test says so.
    Later(Arc<Notify>),
    /// Nothing, ever.
    Silence,
    /// That this protocol is spoken from here on: every byte is sent back.
    Echo(&'static str),
}

/// A running webhook; it stops when it is dropped.
pub(crate) struct Hook {
    pub(crate) address: SocketAddr,
    /// The certificate of whoever signed the server's, in PEM and base64.
    pub(crate) bundle: String,
    state: Arc<State>,
    accepting: AbortHandle,
}

#[derive(Default)]
struct State {
    behaviours: Mutex<HashMap<String, Behaviour>>,
    /// The path and query of each call, and its request.
    calls: Mutex<Vec<(String, Value)>>,
    /// Whom requests were for, as the server in front of this one says.
    users: Mutex<Vec<String>>,
    /// The headers of the last call that asked for another protocol.
    headers: Mutex<HeaderMap>,
    connections: AtomicUsize,
}

impl Hook {
    /// A webhook with a certificate of an authority for these names.
    pub(crate) async fn start(names: &[&str]) -> Hook {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = authority.self_signed(&key).unwrap();
        let issuer = Issuer::from_params(&authority, &key);
        let own = KeyPair::generate().unwrap();
        let leaf = params(names).signed_by(&own, &issuer).unwrap();
        Hook::serving(leaf.der().clone(), &own, &root.pem()).await
    }

    /// A webhook whose certificate is its own authority, as `openssl req -x509` makes them.
    pub(crate) async fn self_signed(names: &[&str]) -> Hook {
        let mut params = params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Hook::serving(certificate.der().clone(), &key, &certificate.pem()).await
    }

    async fn serving(
        certificate: rustls::pki_types::CertificateDer<'static>,
        key: &KeyPair,
        authority: &str,
    ) -> Hook {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let accepting = tokio::spawn(accept(listener, Arc::new(config), Arc::clone(&state)));
        Hook {
            address,
            bundle: STANDARD.encode(authority),
            state,
            accepting: accepting.abort_handle(),
        }
    }

    /// Says what a path does with its questions.
    pub(crate) fn on(&self, path: &str, does: impl Fn(&Value) -> Reply + Send + Sync + 'static) {
        let mut all = self.state.behaviours.lock().unwrap();
        all.insert(path.to_owned(), Arc::new(does));
    }

    /// A `clientConfig` for one of its paths.
    pub(crate) fn config(&self, path: &str) -> Value {
        let url = format!("https://{}{path}", self.address);
        json!({"url": url, "caBundle": self.bundle})
    }

    /// The calls since the last look: path and query, and the request.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.state.calls.lock().unwrap())
    }

    /// The users that the server in front of this one named since the last look.
    pub(crate) fn users(&self) -> Vec<String> {
        std::mem::take(&mut self.state.users.lock().unwrap())
    }

    /// The headers of the last call that asked for another protocol.
    pub(crate) fn headers(&self) -> HeaderMap {
        self.state.headers.lock().unwrap().clone()
    }

    /// The paths that were called since the last look.
    pub(crate) fn paths(&self) -> Vec<String> {
        let calls = self.calls().into_iter();
        calls
            .map(|(path, _)| path.split('?').next().unwrap().to_owned())
            .collect()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

/// Allows the write.
pub(crate) fn allow(_: &Value) -> Reply {
    Reply::Review(json!({"allowed": true}))
}

/// Allows the write and patches its object.
pub(crate) fn patch(operations: &Value) -> Reply {
    let patch = STANDARD.encode(operations.to_string());
    Reply::Review(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

async fn accept(listener: TcpListener, config: Arc<ServerConfig>, state: Arc<State>) {
    let acceptor = TlsAcceptor::from(config);
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            // A client that does not trust the server ends the handshake.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            state.connections.fetch_add(1, Ordering::SeqCst);
            let service =
                Router::new().fallback(move |request| answer(Arc::clone(&state), request));
            let builder = auto::Builder::new(TokioExecutor::new());
            let service = TowerToHyperService::new(service);
            let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            // It fails when the client goes away.
            let _ = serving.await;
        });
    }
}

async fn answer(state: Arc<State>, mut request: Request<Body>) -> Response<Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, body) = request.into_parts();
    if parts.headers.contains_key("Upgrade") {
        *state.headers.lock().unwrap() = parts.headers.clone();
    }
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    // Documents are asked for without a body.
    let review: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    // A review of a token is its own question.
    let question = review.get("request").unwrap_or(&review).clone();
    let call = parts.uri.to_string();
    if let Some(user) = parts.headers.get("X-Remote-User") {
        let user = user.to_str().unwrap().to_owned();
        state.users.lock().unwrap().push(user);
    }
    state.calls.lock().unwrap().push((call, question.clone()));
    let behaviour = state
        .behaviours
        .lock()
        .unwrap()
        .get(parts.uri.path())
        .cloned();
    let reply = match behaviour {
        Some(behaviour) => behaviour(&question),
        None => Reply::Raw(404, "404 page not found".into()),
    };
    let reply = match reply {
        Reply::Later(said) => {
            said.notified().await;
            allow(&Value::Null)
        }
        other => other,
    };
    let (code, body) = match reply {
        Reply::Echo(protocol) => {
            tokio::spawn(async move {
                let (mut from, mut to) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
            let response = Response::builder().status(101);
            let response = response.header("Connection", "Upgrade");
            return response
                .header("Upgrade", protocol)
                .body(Body::empty())
                .unwrap();
        }
        Reply::Raw(code, body) => (code, body),
        Reply::Silence | Reply::Later(_) => std::future::pending().await,
        Reply::Review(mut response) => {
            if response.get("uid").is_none() {
                response["uid"] = review["request"]["uid"].clone();
            }
            let review = json!({"kind": review["kind"], "apiVersion": review["apiVersion"],
                "response": response});
            (200, review.to_string())
        }
    };
    let response = Response::builder().status(code);
    let response = response.header("Content-Type", "application/json");
    response.body(Body::from(body)).unwrap()
}
