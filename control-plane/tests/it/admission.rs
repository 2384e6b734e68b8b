//! Every write passes admission, and admission can refuse every write.

use std::sync::{Arc, Mutex};

use apiserver::Config;
use apiserver::Server;
use apiserver::admission::{Attributes, Context, Plugin};
use apiserver::auth::Answer;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};
use testkit::Launch;
use tower::ServiceExt as _;

use crate::cluster::BINARY;

/// Records what it is asked to admit, and refuses what the test chooses.
#[derive(Default)]
struct Watchful {
    seen: Mutex<Vec<String>>,
    refuses: Mutex<Option<String>>,
}

impl Plugin for Watchful {
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
        let (kind, old) = (kind.plural, old.map_or("", |old| object::kind(old)));
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
            ..Config::default()
        };
        let server = Server::new(client, config);
        server.ready().await.unwrap();
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
    world.seen();
    for (method, path, body, expected) in writes {
        let operation = expected.split(' ').next().unwrap().to_owned();
        *world.plugin.refuses.lock().unwrap() = Some(operation);
        let (code, told) = world.ask(method, &path, body.clone()).await;
        assert_eq!(code, 403, "{method} {path}: {told}");
        assert!(
            told["message"].as_str().unwrap().contains("watchful"),
            "{told}"
        );
        assert!(world.seen().iter().any(|one| one == expected), "{expected}");
        *world.plugin.refuses.lock().unwrap() = None;
        let (code, told) = world.ask(method, &path, body).await;
        assert!(code.is_success(), "{method} {path}: {told}");
        let seen = world.seen();
        assert!(
            seen.iter().all(|one| one == expected),
            "{expected}\n{seen:?}"
        );
        assert!(!seen.is_empty());
    }
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
