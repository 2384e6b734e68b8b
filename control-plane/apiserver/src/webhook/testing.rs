//! Small servers for tests of clients.
#![expect(
    clippy::disallowed_methods,
    reason = "files of other programs, in a temporary directory"
)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// A running server; it stops when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    accepting: AbortHandle,
}

impl Server {
    /// Answers each request with what `answer` makes of it.
    pub(crate) async fn start(
        answer: impl Fn(&Parts, Bytes) -> Response<String> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(answer);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = Arc::clone(&answer);
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let answer = answer(&parts, body);
                        Ok::<_, Infallible>(answer.map(|text| Full::new(Bytes::from(text))))
                    }
                });
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        Server {
            address,
            accepting: accepting.abort_handle(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A webhook that gives the answers of a test, one after another.
pub(crate) struct Scripted {
    script: Arc<Script>,
    server: Server,
}

#[derive(Default)]
struct Script {
    answers: Mutex<Vec<(u16, Value)>>,
    asked: Mutex<Vec<Value>>,
}

impl Scripted {
    pub(crate) async fn start() -> Scripted {
        let script = Arc::<Script>::default();
        let shared = Arc::clone(&script);
        let server = Server::start(move |_, body| {
            let question = serde_json::from_slice(&body).unwrap();
            shared.asked.lock().push(question);
            let (code, answer) = shared.answers.lock().remove(0);
            let response = Response::builder().status(code);
            response.body(answer.to_string()).unwrap()
        })
        .await;
        Scripted { script, server }
    }

    /// A kubeconfig that leads to it.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let file = folder.join("webhook.yaml");
        let text = format!(
            "clusters:\n- name: c\n  cluster:\n    server: {}/review\ncontexts:\n- name: c\n  context:\n    \
             cluster: c\ncurrent-context: c\n",
            self.server.url()
        );
        std::fs::write(&file, text).unwrap();
        file
    }

    /// The next answer: its status code and its body.
    pub(crate) fn answers(&self, code: u16, body: Value) {
        self.script.answers.lock().push((code, body));
    }

    /// All that it was asked.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.script.asked.lock().clone()
    }
}
