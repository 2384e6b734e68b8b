//! A server with a webhook beside it, and what tests ask them.

use std::net::SocketAddr;
use std::sync::Arc;

use apiserver::auth::User;
use apiserver::auth::authorize::{Mode, Modes};
use apiserver::setup::Configured;
use apiserver::{Config, Server};
use axum::body::{Body, BodyDataStream, to_bytes};
use futures_util::StreamExt as _;
use http::{HeaderMap, Request};
use serde_json::{Value, json};
use testkit::Launch;
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use super::server::Hook;
use crate::harness::cluster::BINARY;

pub(crate) const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

pub(crate) struct World {
    store: testkit::Server,
    server: Arc<Server>,
    pub(crate) hook: Hook,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn warnings(&self) -> Vec<&str> {
        let all = self.headers.get_all("Warning").iter();
        all.map(|one| one.to_str().unwrap()).collect()
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap()
    }
}

impl World {
    pub(crate) async fn start() -> World {
        World::with(Hook::start(&["127.0.0.1"]).await).await
    }

    pub(crate) async fn with(hook: Hook) -> World {
        World::configured(hook, Config::default()).await
    }

    /// A world in which roles and bindings decide about the users of [`World::ask_as`].
    pub(crate) async fn with_roles() -> World {
        World::set_up(Config {
            authorizer: Arc::new(Modes::new(&[Configured::Builtin(Mode::Rbac)]).unwrap()),
            ..Config::default()
        })
        .await
    }

    pub(crate) async fn set_up(config: Config) -> World {
        World::configured(Hook::start(&["127.0.0.1"]).await, config).await
    }

    pub(crate) async fn configured(hook: Hook, config: Config) -> World {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let client = etcd_api::Client::connect(store.url()).await.unwrap();
        let server = Arc::new(Server::new(client, config));
        server.ready().await;
        World {
            store,
            server,
            hook,
        }
    }

    /// Where connections get the same answers, as plain HTTP.
    pub(crate) async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::clone(&self.server);
        tokio::spawn(async move { server.serve(listener).await });
        address
    }

    /// Ends all watches and connections.
    pub(crate) fn stop(&self) {
        self.server.stop();
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(None, method, path, body).await
    }

    /// A request of this node.
    pub(crate) async fn ask_as_node(
        &self,
        node: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let user = User {
            name: format!("system:node:{node}"),
            groups: vec!["system:nodes".to_owned(), "system:authenticated".to_owned()],
            ..User::default()
        };
        self.send(Some(user), method, path, body).await
    }

    /// A request of the user with this name.
    pub(crate) async fn ask_as(
        &self,
        user: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let user = User {
            name: user.to_owned(),
            ..User::default()
        };
        self.send(Some(user), method, path, body).await
    }

    async fn send(&self, user: Option<User>, method: &str, path: &str, body: &Value) -> Answer {
        let media_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = request(method, path, ("Content-Type", media_type), body);
        if let Some(user) = user {
            request.extensions_mut().insert(user);
        }
        self.answer(request).await
    }

    /// A request with this header.
    pub(crate) async fn ask_with(
        &self,
        method: &str,
        path: &str,
        header: (&str, &str),
        body: &Value,
    ) -> Answer {
        self.answer(request(method, path, header, body)).await
    }

    /// A watch that begins with what there is and a bookmark.
    pub(crate) async fn watch(&self, path: &str) -> Events {
        let path = format!(
            "{path}watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &allowWatchBookmarks=true"
        );
        let request = request("GET", &path, ("Accept", "application/json"), &Value::Null);
        let response = self.server.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Events {
            body: response.into_body().into_data_stream(),
            read: Vec::new(),
        }
    }

    /// The value of a key of the store.
    pub(crate) async fn stored(&self, key: &str) -> Value {
        let client = etcd_api::Client::connect(self.store.url()).await.unwrap();
        let request = etcd_api::etcdserverpb::RangeRequest {
            key: key.as_bytes().to_vec().into(),
            ..Default::default()
        };
        let answer = client.kv().range(request).await.unwrap().into_inner();
        serde_json::from_slice(&answer.kvs[0].value).unwrap()
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let response = self.server.router().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            // Paths that are not served are answered in plain text.
            body: serde_json::from_slice(&body)
                .unwrap_or_else(|_| String::from_utf8_lossy(&body).into()),
        }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, body).await
    }

    /// Creates what the test needs.
    pub(crate) async fn given(&self, path: &str, body: &Value) {
        let answer = self.post(path, body).await;
        assert_eq!(answer.code, 201, "{path}: {}", answer.body);
    }

    /// Creates a configuration of one webhook for a path of the hook.
    pub(crate) async fn configure(&self, kind: &str, name: &str, path: &str, more: Value) {
        let answer = self.try_configure(kind, name, path, more).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        assert_eq!(answer.warnings(), [""; 0]);
    }

    pub(crate) async fn try_configure(
        &self,
        kind: &str,
        name: &str,
        path: &str,
        more: Value,
    ) -> Answer {
        let mut webhook = json!({
            "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "clientConfig": self.hook.config(path),
            "rules": [rule("*", "configmaps")],
        });
        merge(&mut webhook, &more);
        let configuration = json!({"kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": name}, "webhooks": [webhook]});
        let path = format!("{GROUP}/{}webhookconfigurations", kind.to_lowercase());
        self.post(&path, &configuration).await
    }
}

fn request(method: &str, path: &str, header: (&str, &str), body: &Value) -> Request<Body> {
    let body = match body {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string()),
    };
    let request = Request::builder().method(method).uri(path);
    request.header(header.0, header.1).body(body).unwrap()
}

/// The events of a watch, read as they arrive.
pub(crate) struct Events {
    body: BodyDataStream,
    read: Vec<u8>,
}

impl Events {
    /// The type and the object of the next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        let end = loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                break end;
            }
            self.read.extend(self.body.next().await?.unwrap());
        };
        let line: Vec<u8> = self.read.drain(..=end).collect();
        let mut event: Value = serde_json::from_slice(&line).unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        Some((kind, event["object"].take()))
    }
}

fn merge(into: &mut Value, more: &Value) {
    let into = into.as_object_mut().unwrap();
    into.extend(more.as_object().unwrap().clone());
}

pub(crate) fn rule(operation: &str, resource: &str) -> Value {
    json!({"operations": [operation], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": [resource]})
}

pub(crate) fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

pub(crate) fn label(key: &str) -> Value {
    json!([
        {"op": "test", "path": "/kind", "value": "ConfigMap"},
        {"op": "add", "path": "/metadata/labels", "value": {key: "yes"}},
    ])
}
