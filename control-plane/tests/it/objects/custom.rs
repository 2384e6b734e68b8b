//! Resources that come and go while an apiserver runs. The apiserver is in this process, where its
//! catalogue can be changed; its clients reach it over plain HTTP.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::custom::{Column, Definition, Scale, Version};
use apiserver::{Config, Server};
use machinery::schema::{Names, Scope};
use serde_json::{Value, json};
use testkit::Launch;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::harness::cluster::{BINARY, WITHIN};
use crate::requests::http::{Answer, Call, Lines};

const POLL: Duration = Duration::from_millis(50);
const GROUP: &str = "shop.example.com";
const WIDGETS: &str = "/apis/shop.example.com/v1/namespaces/default/widgets";

/// An apiserver in this process on a store beside it.
struct Inside {
    address: String,
    server: Arc<Server>,
    runtime: Runtime,
    // Stopped last.
    _store: testkit::Server,
}

impl Inside {
    fn start() -> Inside {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let runtime = Runtime::new().unwrap();
        let (server, address) = runtime.block_on(async {
            let client = etcd_api::Client::connect(store.url()).await.unwrap();
            let server = Arc::new(Server::new(client, Config::default()));
            server.ready().await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let serving = Arc::clone(&server);
            tokio::spawn(async move { serving.serve(listener).await });
            (server, address)
        });
        Inside {
            address,
            server,
            runtime,
            _store: store,
        }
    }

    /// Runs the control loops as clients of the apiserver, until the end of the test.
    fn run_loops(&self) {
        let address = format!("http://{}", self.address);
        self.runtime.spawn(async move {
            let config = kube::Config::new(address.parse().unwrap());
            let client = kube::Client::try_from(config).unwrap();
            let config = controllers::Config {
                elect: None,
                root_ca: String::new(),
                signer: None,
                node_ranges: None,
                loops: controllers::Selection::default(),
            };
            controllers::run(client, config, std::future::pending()).await
        });
    }

    fn add(&self, definition: &Definition) {
        let added = self.runtime.block_on(self.server.add_resource(definition));
        added.unwrap();
    }

    fn remove(&self, plural: &str) {
        let removed = self.server.remove_resource(GROUP, plural);
        self.runtime.block_on(removed).unwrap();
    }

    fn call(&self, method: &str, path: &str) -> Call {
        Call::new(&self.address, method, path)
    }

    fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send()
    }

    fn post(&self, path: &str, object: &Value) -> Answer {
        self.call("POST", path).json(object).send()
    }

    fn patch(&self, path: &str, form: &str, patch: &Value) -> Answer {
        let media_type = format!("application/{form}-patch+json");
        let call = self.call("PATCH", path);
        call.body(&media_type, patch.to_string()).send()
    }

    fn watch(&self, path: &str) -> Lines {
        let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        self.call("GET", &format!("{path}?{query}")).stream()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.server.stop();
    }
}

fn definition(kind: &'static str, plural: &'static str, versions: Vec<Version>) -> Definition {
    Definition {
        group: GROUP.into(),
        names: Names {
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            plural: plural.into(),
            singular: Cow::Owned(kind.to_lowercase()),
            short_names: vec!["wd".into()],
            categories: vec!["all".into()],
        },
        scope: Scope::Namespaced,
        terminating: false,
        uid: String::new(),
        versions,
    }
}

fn version(name: &str, stored: bool) -> Version {
    Version {
        name: name.into(),
        served: true,
        stored,
        ..Version::default()
    }
}

fn widget(name: &str, color: &str) -> Value {
    json!({
        "apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"color": color, "nothing": null, "deep": [{"a": [1, 2.5, "x"]}]},
    })
}

#[test]
fn a_kind_comes_is_used_like_any_other_and_goes() {
    let inside = Inside::start();
    inside.get(WIDGETS).missing();
    inside.add(&definition("Widget", "widgets", vec![version("v1", true)]));

    let groups = inside.get("/apis").expect(200);
    let last = groups["groups"].as_array().unwrap().last().unwrap();
    assert_eq!(last["name"], GROUP);
    let resources = inside.get("/apis/shop.example.com/v1").expect(200);
    let listed = &resources["resources"][0];
    assert_eq!(
        (&listed["name"], &listed["kind"]),
        (&json!("widgets"), &json!("Widget"))
    );
    assert_eq!(
        (&listed["shortNames"], &listed["namespaced"]),
        (&json!(["wd"]), &json!(true))
    );
    let whole = inside
        .call("GET", "/apis")
        .header(
            "Accept",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        )
        .send()
        .expect(200);
    let last = whole["items"].as_array().unwrap().last().unwrap();
    assert_eq!(last["versions"][0]["resources"][0]["resource"], "widgets");

    let mut watch = inside.watch("/apis/shop.example.com/v1/widgets");
    assert_eq!(watch.next().unwrap()["type"], "BOOKMARK");
    let made = inside.post(WIDGETS, &widget("a", "red")).expect(201);
    assert_eq!(made["spec"], widget("a", "red")["spec"]);
    assert_eq!(made["metadata"]["generation"], 1);
    let added = watch.next().unwrap();
    assert_eq!((&added["type"], &added["object"]), (&json!("ADDED"), &made));
    inside.post(WIDGETS, &widget("a", "red")).refuses(
        409,
        "AlreadyExists",
        "widgets.shop.example.com \"a\" already exists",
    );

    let one = format!("{WIDGETS}/a");
    let patch = json!({"spec": {"color": "blue", "deep": null}});
    let patched = inside.patch(&one, "merge", &patch).expect(200);
    assert_eq!(patched["spec"]["color"], "blue");
    assert!(patched["spec"].get("deep").is_none());
    assert_eq!(patched["metadata"]["generation"], 2);
    assert_eq!(watch.next().unwrap()["object"], patched);
    assert_eq!(inside.patch(&one, "strategic-merge", &patch).code, 415);
    let mut stale = made.clone();
    stale["spec"]["color"] = "green".into();
    let replaced = inside.call("PUT", &one).json(&stale).send();
    replaced.refuses(409, "Conflict", "the object has been modified");
    let list = inside.get("/apis/shop.example.com/v1/widgets").expect(200);
    assert_eq!(
        (&list["kind"], &list["items"]),
        (&json!("WidgetList"), &json!([patched]))
    );

    inside.call("DELETE", &one).send().expect(200);
    assert_eq!(watch.next().unwrap()["type"], "DELETED");
    inside.post(WIDGETS, &widget("b", "red")).expect(201);
    assert_eq!(watch.next().unwrap()["type"], "ADDED");

    inside.remove("widgets");
    let end = watch.next().unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(404))
    );
    assert!(watch.next().is_none());
    inside.get(WIDGETS).missing();
    inside.post(WIDGETS, &widget("c", "red")).missing();
    let groups = inside.get("/apis").expect(200);
    assert!(!groups.to_string().contains(GROUP));

    // What was stored is there again when the kind is, and nothing older.
    inside.add(&definition("Widget", "widgets", vec![version("v1", true)]));
    let list = inside.get(WIDGETS).expect(200);
    let names: Vec<_> = list["items"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0]["metadata"]["name"], "b");
}

#[test]
fn a_plural_of_ours_in_another_group_is_no_service() {
    let inside = Inside::start();
    inside.add(&definition("Widget", "services", vec![version("v1", true)]));
    let path = "/apis/shop.example.com/v1/namespaces/default/services";
    let made = inside.post(path, &widget("a", "red")).expect(201);
    // Neither address nor type, and no status: what the client sent.
    assert_eq!(made["spec"], widget("a", "red")["spec"]);
    assert!(made.get("status").is_none());
    // A service may be made by a PUT; this is none.
    let put = inside
        .call("PUT", &format!("{path}/b"))
        .json(&widget("b", "red"));
    put.send()
        .refuses(404, "NotFound", "services.shop.example.com \"b\" not found");
    let unversioned = inside
        .call("PUT", &format!("{path}/a"))
        .json(&widget("a", "blue"));
    unversioned
        .send()
        .refuses(422, "Invalid", "metadata.resourceVersion: Invalid value");
    inside
        .get(&format!("{path}?fieldSelector=spec.clusterIP%3Dx"))
        .refuses(400, "BadRequest", "is not a known field selector");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = inside
        .call("GET", path)
        .header("Accept", table)
        .send()
        .expect(200);
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let columns: Vec<_> = columns.map(|column| column["name"].clone()).collect();
    assert_eq!(columns, ["Name", "Age"]);
    let services = inside.get("/api/v1/services").expect(200);
    assert_eq!(
        services["items"].as_array().unwrap().len(),
        1,
        "kubernetes alone"
    );
    let deleted = inside
        .call("DELETE", &format!("{path}/a"))
        .send()
        .expect(200);
    assert_eq!(deleted["status"], "Success");
}

#[test]
fn a_status_without_finalizers_does_not_end_a_deletion() {
    let inside = Inside::start();
    let with_status = Version {
        status: true,
        ..version("v1", true)
    };
    inside.add(&definition("Widget", "widgets", vec![with_status]));
    let mut held = widget("held", "red");
    held["metadata"]["finalizers"] = json!(["shop.example.com/held"]);
    inside.post(WIDGETS, &held).expect(201);
    let one = format!("{WIDGETS}/held");
    let going = inside.call("DELETE", &one).send().expect(200);
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    let mut told = going;
    told["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("finalizers");
    told["status"] = json!({"phase": "Going"});
    let status = inside.call("PUT", &format!("{one}/status")).json(&told);
    let mut told = status.send().expect(200);
    let left = inside.get(&one).expect(200);
    assert_eq!(
        left["metadata"]["finalizers"],
        held["metadata"]["finalizers"]
    );
    assert_eq!(left["status"]["phase"], "Going");
    // The same in the object itself ends it.
    told["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("finalizers");
    inside.call("PUT", &one).json(&told).send().expect(200);
    assert_eq!(inside.get(&one).code, 404);
}

#[test]
fn versions_share_objects_and_definitions_say_what_is_shown_and_written() {
    let inside = Inside::start();
    let rich = Version {
        status: true,
        scale: Some(Scale {
            spec_replicas: ".spec.count".into(),
            status_replicas: ".status.count".into(),
            label_selector: ".status.selector".into(),
        }),
        columns: Some(vec![
            column("Color", "string", ".spec.color"),
            column("Count", "integer", ".spec.count"),
            column(
                "Ready",
                "string",
                ".status.conditions[?(@.type==\"Ready\")].status",
            ),
        ]),
        selectable: vec![".spec.color".into()],
        ..version("v1", true)
    };
    let older = Version {
        served: true,
        ..version("v1beta1", false)
    };
    inside.add(&definition("Widget", "widgets", vec![older, rich]));
    let group = inside.get("/apis/shop.example.com").expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");

    let mut red = widget("red", "red");
    red["status"] = json!({"count": 7});
    red["spec"]["count"] = 3.into();
    let made = inside.post(WIDGETS, &red).expect(201);
    assert!(made.get("status").is_none());
    inside.post(WIDGETS, &widget("blue", "blue")).expect(201);
    let mut reported = made.clone();
    reported["spec"]["color"] = "green".into();
    reported["metadata"]["labels"] = json!({"a": "b"});
    reported["status"] = json!({
        "count": 2, "selector": "app=x", "conditions": [{"type": "Ready", "status": "True"}],
    });
    let put = inside.call("PUT", &format!("{WIDGETS}/red/status"));
    let reported = put.json(&reported).send().expect(200);
    assert_eq!(reported["spec"]["color"], "red");
    assert!(reported["metadata"].get("labels").is_none());
    assert_eq!(
        (
            &reported["status"]["count"],
            &reported["metadata"]["generation"]
        ),
        (&json!(2), &json!(1))
    );

    let scale = inside.get(&format!("{WIDGETS}/red/scale")).expect(200);
    assert_eq!(scale["spec"]["replicas"], 3);
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=x"}));
    let more = json!({"spec": {"replicas": 5}});
    inside
        .patch(&format!("{WIDGETS}/red/scale"), "merge", &more)
        .expect(200);
    let scaled = inside.get(&format!("{WIDGETS}/red")).expect(200);
    assert_eq!(
        (&scaled["spec"]["count"], &scaled["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );

    let selected = inside
        .get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dred"))
        .expect(200);
    assert_eq!(selected["items"], json!([scaled]));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = inside
        .call("GET", WIDGETS)
        .header("Accept", table)
        .send()
        .expect(200);
    assert_eq!(table["rows"][1]["cells"], json!(["red", "red", 5, "True"]));
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["blue", "blue", null, null])
    );

    let older = "/apis/shop.example.com/v1beta1/namespaces/default/widgets";
    let seen = inside.get(&format!("{older}/red")).expect(200);
    assert_eq!(seen["apiVersion"], "shop.example.com/v1beta1");
    assert_eq!(seen["spec"], scaled["spec"]);
    inside.get(&format!("{older}/red/status")).missing();
    let mut written = seen.clone();
    written["spec"]["count"] = 6.into();
    inside
        .call("PUT", &format!("{older}/red"))
        .json(&written)
        .send()
        .expect(200);
    assert_eq!(
        inside.get(&format!("{WIDGETS}/red")).expect(200)["spec"]["count"],
        6
    );
    let wrong = inside.post(older, &widget("c", "red"));
    wrong.refuses(400, "BadRequest", "does not match the expected API version");

    let protobuf = inside
        .call("GET", WIDGETS)
        .header("Accept", "application/vnd.kubernetes.protobuf");
    assert_eq!(protobuf.send().code, 406);
    let accepting = |path: &str, form: &str| {
        let call = inside.call("GET", path).header("Accept", form);
        call.send()
    };
    let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let only = format!("only the following media types are accepted: {all}");
    accepting(WIDGETS, "text/html").refuses(406, "NotAcceptable", &only);
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let one = format!("{WIDGETS}/red");
    accepting(&one, metadata).expect(200);
    accepting(WIDGETS, list).expect(200);
    let why = "the requested object is a list (*unstructured.UnstructuredList)";
    accepting(WIDGETS, metadata).refuses(406, "NotAcceptable", why);
    accepting(&one, list).refuses(500, "", "content is not a list");
    let body = inside
        .call("POST", WIDGETS)
        .body("application/vnd.kubernetes.protobuf", "k8s\0");
    assert_eq!(body.send().code, 415);
}

fn column(name: &str, kind: &str, path: &str) -> Column {
    Column {
        name: name.into(),
        kind: kind.into(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        json_path: path.into(),
    }
}

#[test]
fn a_definition_that_takes_the_place_of_ours_or_makes_no_sense_is_refused() {
    let inside = Inside::start();
    let refused = |definition: &Definition| {
        let added = inside
            .runtime
            .block_on(inside.server.add_resource(definition));
        added.unwrap_err()
    };
    let good = || definition("Widget", "widgets", vec![version("v1", true)]);
    let deployments = Definition {
        group: "networking.k8s.io".into(),
        ..definition("Ingress", "ingresses", vec![version("v9", true)])
    };
    assert_eq!(refused(&deployments).reason, "AlreadyExists");
    for wrong in [
        Definition {
            group: "shop".into(),
            ..good()
        },
        Definition {
            versions: vec![version("v1", false)],
            ..good()
        },
        Definition {
            versions: vec![version("v1", true), version("v1", false)],
            ..good()
        },
        definition("Widget", "wid/gets", vec![version("v1", true)]),
        definition(
            "Widget",
            "widgets",
            vec![Version {
                columns: Some(vec![column("A", "string", ".a[?(@.b>1)")]),
                ..version("v1", true)
            }],
        ),
        definition(
            "Widget",
            "widgets",
            vec![Version {
                selectable: vec![".a[0]".into()],
                ..version("v1", true)
            }],
        ),
    ] {
        assert_eq!(refused(&wrong).code, 422, "{wrong:?}");
    }
    inside.get(WIDGETS).missing();
}

#[test]
fn loops_collect_objects_of_a_kind_that_comes_while_they_run_and_empty_its_namespaces() {
    let inside = Inside::start();
    inside.run_loops();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    inside.post("/api/v1/namespaces", &namespace).expect(201);
    // The loops are at work once there is an account.
    let account = "/api/v1/namespaces/n/serviceaccounts/default";
    until(|| inside.get(account).code == 200);
    inside.add(&definition("Widget", "widgets", vec![version("v1", true)]));
    let widgets = "/apis/shop.example.com/v1/namespaces/n/widgets";
    let maps = "/api/v1/namespaces/n/configmaps";
    let owner = inside.post(widgets, &widget("owner", "red")).expect(201);
    let references = json!([{
        "apiVersion": owner["apiVersion"], "kind": "Widget", "name": "owner",
        "uid": owner["metadata"]["uid"],
    }]);
    let mut owned = widget("owned", "red");
    owned["metadata"]["ownerReferences"] = references.clone();
    inside.post(widgets, &owned).expect(201);
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
    map["metadata"]["ownerReferences"] = references;
    inside.post(maps, &map).expect(201);
    inside.post(widgets, &widget("free", "red")).expect(201);
    inside
        .call("DELETE", &format!("{widgets}/owner"))
        .send()
        .expect(200);
    until(|| inside.get(&format!("{widgets}/owned")).code == 404);
    until(|| inside.get(&format!("{maps}/map")).code == 404);
    inside.get(&format!("{widgets}/free")).expect(200);

    // One more kind just before the namespace goes.
    inside.add(&definition("Gadget", "gadgets", vec![version("v1", true)]));
    let gadgets = "/apis/shop.example.com/v1/namespaces/n/gadgets";
    let mut gadget = widget("g", "red");
    gadget["kind"] = "Gadget".into();
    inside.post(gadgets, &gadget).expect(201);
    inside
        .call("DELETE", "/api/v1/namespaces/n")
        .send()
        .expect(200);
    until(|| inside.get("/api/v1/namespaces/n").code == 404);
    for path in [widgets, gadgets] {
        assert_eq!(inside.get(path).expect(200)["items"], json!([]), "{path}");
    }
    inside.remove("gadgets");
    inside.get(gadgets).missing();
}

/// Waits until something is true.
fn until(holds: impl Fn() -> bool) {
    let end = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < end, "it takes too long");
        std::thread::sleep(POLL);
    }
}

/// Objects are written all the while kinds come and go: no watch misses one, none shows one twice.
#[test]
fn a_kind_that_comes_while_its_objects_are_written_shows_each_of_them_once() {
    const COUNT: usize = 200;
    let inside = Inside::start();
    let good = definition("Widget", "widgets", vec![version("v1", true)]);
    inside.add(&good);
    let writer = {
        let address = inside.address.clone();
        std::thread::spawn(move || {
            for number in 0..COUNT {
                // Refused while the kind is away: tried until it is there.
                let object = widget(&format!("w{number}"), "red");
                let post = || Call::new(&address, "POST", WIDGETS).json(&object).send();
                while ![201, 409].contains(&post().code) {}
            }
        })
    };
    while !writer.is_finished() {
        inside.remove("widgets");
        inside.add(&good);
        let mut seen = Vec::new();
        let mut watch = inside.watch(WIDGETS);
        let name = |event: &Value| {
            event["object"]["metadata"]["name"]
                .as_str()
                .map(str::to_owned)
        };
        loop {
            let event = watch.next().unwrap();
            if event["type"] == "BOOKMARK" {
                break;
            }
            seen.push(name(&event).unwrap());
        }
        let once: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(once.len(), seen.len());
        let known = seen.len();
        while seen.len() < COUNT && seen.len() < known + 5 {
            let event = watch.next().unwrap();
            // One writer makes them in this order: each is the next one.
            let next = format!("w{}", seen.len());
            assert_eq!(name(&event), Some(next.clone()), "{seen:?}");
            seen.push(next);
        }
    }
    writer.join().unwrap();
    let list = inside.get(WIDGETS).expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), COUNT);
}
