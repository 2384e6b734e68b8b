//! Every write passes admission, and admission can refuse every write.

pub(crate) mod classes;
pub(crate) mod nodes;
pub(crate) mod owners;
pub(crate) mod pod_security;
pub(crate) mod policies;
pub(crate) mod protection;
pub(crate) mod quotas;
pub(crate) mod unreadable;
pub(crate) mod webhooks;

use std::sync::{Arc, Mutex};

use apiserver::Config;
use apiserver::Server;
use apiserver::admission::{Attributes, Context, Plugin};
use apiserver::auth::Answer;
use apiserver::auth::authenticate::jwt::Key;
use apiserver::auth::authenticate::token::Issuer;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};
use testkit::Launch;
use tower::ServiceExt as _;

use crate::harness::cluster::BINARY;

/// Records what it is asked to admit, and refuses what the test chooses.
#[derive(Default)]
struct Watchful {
    seen: Mutex<Vec<String>>,
    refuses: Mutex<Option<String>>,
}

impl Plugin for Watchful {
    fn name(&self) -> &'static str {
        "Watchful"
    }

    fn handles(&self, _: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        _: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> Answer<'a, ()> {
        let Attributes {
            operation,
            kind,
            subresource,
            name,
            old,
            ..
        } = *attributes;
        let (kind, old) = (kind.plural(), old.map_or("", |old| object::kind(old)));
        let what = format!(
            "{operation} {kind}/{subresource} {name}: {} from {old}",
            object::kind(object)
        );
        let refused = self.refuses.lock().unwrap().as_deref() == Some(operation);
        if !attributes.user.name.is_empty() {
            self.seen.lock().unwrap().push(what);
        }
        let answer = if refused {
            Err(Status::forbidden("", kind, name, "watchful"))
        } else {
            Ok(())
        };
        Box::pin(async { answer })
    }
}

struct World {
    _store: testkit::Server,
    server: Server,
    plugin: Arc<Watchful>,
}

impl World {
    async fn start() -> World {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let client = etcd_api::Client::connect(store.url()).await.unwrap();
        let plugin = Arc::new(Watchful::default());
        let config = Config {
            plugins: vec![plugin.clone()],
            issuer: Some(Arc::new(issuer())),
            ..Config::default()
        };
        let server = Server::new(client, config);
        server.ready().await;
        World {
            _store: store,
            server,
            plugin,
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let media_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = match body {
            Value::Null => Body::empty(),
            body => Body::from(body.to_string()),
        };
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("Content-Type", media_type)
            .body(body)
            .unwrap();
        let response = self.server.router().oneshot(request).await.unwrap();
        let code = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (code, serde_json::from_slice(&body).unwrap())
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.plugin.seen.lock().unwrap())
    }
}

fn issuer() -> Issuer {
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let name = "https://kubernetes.default.svc".to_owned();
    Issuer::new(name.clone(), vec![name], Key::from_pem(&key).unwrap())
}

/// One write: its method, path and body, and what admission is asked about it.
type Write = (&'static str, String, Value, &'static str);

impl World {
    /// Sends each write twice: it fails while admission refuses it, and then passes. Both times
    /// the chain is asked as expected, and about nothing else.
    async fn pass(&self, writes: impl IntoIterator<Item = Write>) {
        self.seen();
        for (method, path, body, expected) in writes {
            let operation = expected.split(' ').next().unwrap().to_owned();
            *self.plugin.refuses.lock().unwrap() = Some(operation);
            let (code, told) = self.ask(method, &path, body.clone()).await;
            assert_eq!(code, 403, "{method} {path}: {told}");
            assert!(
                told["message"].as_str().unwrap().contains("watchful"),
                "{told}"
            );
            assert!(self.seen().iter().any(|one| one == expected), "{expected}");
            *self.plugin.refuses.lock().unwrap() = None;
            let (code, told) = self.ask(method, &path, body).await;
            assert!(code.is_success(), "{method} {path}: {told}");
            let seen = self.seen();
            assert!(
                seen.iter().all(|one| one == expected),
                "{expected}\n{seen:?}"
            );
            assert!(!seen.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_passes_the_one_chain() {
    let world = World::start().await;
    let node = json!({"kind": "Node", "metadata": {"name": "n"}});
    let pod = json!({"kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let set = json!({"kind": "ReplicaSet", "metadata": {"name": "s"}, "spec": spec});
    let (pods, sets) = (
        "/api/v1/namespaces/default/pods",
        "/apis/apps/v1/namespaces/default/replicasets",
    );
    let one = format!("{pods}/p");
    let status = json!({"status": {"phase": "Running"}});
    let binding = json!({"kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}});
    let eviction = json!({"kind": "Eviction", "metadata": {"name": "p"}});
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let writes = [
        (
            "POST",
            "/api/v1/nodes".to_owned(),
            node,
            "CREATE nodes/ n: Node from ",
        ),
        (
            "POST",
            pods.to_owned(),
            pod.clone(),
            "CREATE pods/ p: Pod from ",
        ),
        ("PATCH", one.clone(), label, "UPDATE pods/ p: Pod from Pod"),
        (
            "POST",
            format!("{one}/binding"),
            binding,
            "CREATE pods/binding p: Binding from ",
        ),
        (
            "PATCH",
            format!("{one}/status"),
            status,
            "UPDATE pods/status p: Pod from Pod",
        ),
        (
            "POST",
            sets.to_owned(),
            set,
            "CREATE replicasets/ s: ReplicaSet from ",
        ),
        (
            "PATCH",
            format!("{sets}/s/scale"),
            json!({"spec": {"replicas": 2}}),
            "UPDATE replicasets/scale s: Scale from Scale",
        ),
        (
            "POST",
            format!("{one}/eviction"),
            eviction,
            "CREATE pods/eviction p: Eviction from ",
        ),
        (
            "DELETE",
            format!("{sets}/s"),
            Value::Null,
            "DELETE replicasets/ s:  from ReplicaSet",
        ),
        (
            "DELETE",
            pods.to_owned(),
            Value::Null,
            "DELETE pods/ p:  from Pod",
        ),
        (
            "DELETE",
            "/api/v1/nodes/n".to_owned(),
            Value::Null,
            "DELETE nodes/ n:  from Node",
        ),
    ];
    world.pass(writes).await;
}

/// The verbs that are written as paths, and those that replace a part of an object.
#[tokio::test(flavor = "multi_thread")]
async fn every_subresource_passes_the_one_chain() {
    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let world = World::start().await;
    let core = "/api/v1/namespaces/default";
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
    let endpoints = json!({"kind": "Endpoints", "metadata": {"name": "e"}});
    let account = json!({"kind": "ServiceAccount", "metadata": {"name": "a"}});
    let token = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "spec": {}});
    let space = json!({"kind": "Namespace", "metadata": {"name": "x"}});
    let pod = json!({"kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let binding = json!({"kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}});
    let condition = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
    let review = json!({"kind": "SelfSubjectAccessReview"});
    for (path, body) in [
        (format!("{core}/configmaps"), &map),
        (format!("{core}/serviceaccounts"), &account),
        ("/api/v1/namespaces".to_owned(), &space),
        (format!("{core}/pods"), &pod),
    ] {
        let (code, told) = world.ask("POST", &path, body.clone()).await;
        assert_eq!(code, 201, "{told}");
    }
    let mut changed = map;
    changed["data"]["a"] = "c".into();
    let writes: [Write; 9] = [
        (
            "PUT",
            format!("{core}/configmaps/m"),
            changed,
            "UPDATE configmaps/ m: ConfigMap from ConfigMap",
        ),
        (
            "PUT",
            format!("{core}/endpoints/e"),
            endpoints,
            "CREATE endpoints/ e: Endpoints from ",
        ),
        (
            "POST",
            format!("{core}/serviceaccounts/a/token"),
            token,
            "CREATE serviceaccounts/token a: TokenRequest from ",
        ),
        (
            "POST",
            format!("{core}/bindings"),
            binding,
            "CREATE bindings/ p: Binding from ",
        ),
        (
            "PATCH",
            format!("{core}/pods/p/resize"),
            json!({"metadata": {}}),
            "UPDATE pods/resize p: Pod from Pod",
        ),
        (
            "POST",
            REQUESTS.to_owned(),
            crate::users::security::signing_request("r", "devs", "example.com/signer"),
            "CREATE certificatesigningrequests/ r: CertificateSigningRequest from ",
        ),
        (
            "PATCH",
            format!("{REQUESTS}/r/approval"),
            json!({"status": {"conditions": condition}}),
            "UPDATE certificatesigningrequests/approval r: \
             CertificateSigningRequest from CertificateSigningRequest",
        ),
        (
            "PUT",
            "/api/v1/namespaces/x/finalize".to_owned(),
            json!({"kind": "Namespace", "metadata": {"name": "x"}, "spec": {}}),
            "UPDATE namespaces/finalize x: Namespace from Namespace",
        ),
        (
            "DELETE",
            format!("{core}/configmaps"),
            Value::Null,
            "DELETE configmaps/ m:  from ConfigMap",
        ),
    ];
    world.pass(writes).await;
    // A review is not stored, and yet admission is asked.
    *world.plugin.refuses.lock().unwrap() = Some("CREATE".into());
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, told) = world.ask("POST", path, review).await;
    assert_eq!(code, 403, "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_leaves_no_trace() {
    let world = World::start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "a"}});
    let (code, made) = world.ask("POST", path, map).await;
    assert_eq!(code, 201);
    *world.plugin.refuses.lock().unwrap() = Some("DELETE".into());
    for path in [path.to_owned(), format!("{path}/a")] {
        let (code, told) = world.ask("DELETE", &path, Value::Null).await;
        assert_eq!(code, 403, "{told}");
    }
    let (code, found) = world.ask("GET", &format!("{path}/a"), Value::Null).await;
    assert_eq!((code.as_u16(), &found), (200, &made));
}
