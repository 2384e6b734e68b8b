//! CustomResourceDefinitions: what comes of them, with the real `kubectl` and over HTTP, through a
//! restart and with two apiservers on one store.

mod cleanups;

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::admission::unreadable::{damage, remove};
use crate::harness::cluster::{Cluster, WITHIN, apiserver, kubectl_or_skip};
use crate::requests::http::{Answer, Call};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/shop.example.com/v1/namespaces/default/widgets";
/// Between two looks at what is to become true.
const PAUSE: Duration = Duration::from_millis(5);

const MANIFEST: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.shop.example.com
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string, description: What it looks like.}
              count: {type: integer}
          status:
            type: object
            properties:
              count: {type: integer}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Count, type: integer, jsonPath: .spec.count}
"#;

const WIDGET: &str = r"
apiVersion: shop.example.com/v1
kind: Widget
metadata: {name: a}
spec: {color: red, count: 3}
";

/// A definition of one version with a status.
fn definition(kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.shop.example.com")},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version("v1", true)],
        },
    })
}

fn version(name: &str, storage: bool) -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": any}, "subresources": {"status": {}},
    })
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"color": "red"},
    })
}

/// Asks until the answer is what it should be.
fn until(call: impl Fn() -> Answer, good: impl Fn(&Answer) -> bool) -> Answer {
    let begin = Instant::now();
    loop {
        let answer = call();
        if good(&answer) {
            return answer;
        }
        let text = String::from_utf8_lossy(&answer.body);
        assert!(begin.elapsed() < WITHIN, "{} {text}", answer.code);
        thread::sleep(PAUSE);
    }
}

fn condition(definition: &Value, kind: &str) -> (String, String) {
    let all = definition["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == kind));
    let text = |key: &str| {
        let text = found.and_then(|one| one[key].as_str());
        text.unwrap_or_default().to_owned()
    };
    (text("status"), text("reason"))
}

/// Waits until a condition of a definition has this status; returns the definition.
fn becomes(cluster: &Cluster, plural: &str, kind: &str, status: &str) -> Value {
    let path = format!("{DEFINITIONS}/{plural}.shop.example.com");
    let is = |answer: &Answer| condition(&answer.object(), kind).0 == status;
    until(|| cluster.get(&path), is).expect(200)
}

fn create(cluster: &Cluster, kind: &str, plural: &str) -> Value {
    let made = cluster.post(DEFINITIONS, &definition(kind, plural));
    made.expect(201);
    becomes(cluster, plural, "Established", "True")
}

#[test]
fn kubectl_defines_a_kind_uses_it_and_deletes_it_with_its_objects() {
    if !kubectl_or_skip("kubectl and a definition") {
        return;
    }
    let mut cluster = Cluster::start();
    let manifest = cluster.file("definition.yaml", MANIFEST);
    let widget = cluster.file("widget.yaml", WIDGET);
    let crd = "crd/widgets.shop.example.com";
    cluster.run(&["apply", "-f", &manifest]);
    cluster.run(&["wait", "--for=condition=Established", crd, "--timeout=60s"]);
    let listed = cluster.run(&["api-resources", "--api-group=shop.example.com"]);
    let line = listed.lines().find(|line| line.starts_with("widgets"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(
        words,
        ["widgets", "wd", "shop.example.com/v1", "true", "Widget"]
    );

    cluster.run(&["create", "-f", &widget]);
    let shown = cluster.run(&["get", "wd"]);
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [vec!["NAME", "COLOR", "COUNT"], vec!["a", "red", "3"]]
    );
    assert!(
        cluster
            .run(&["get", "all"])
            .contains("widget.shop.example.com/a")
    );
    cluster.run(&["scale", "wd/a", "--replicas=5"]);
    let path = ["get", "wd", "a", "-o", "jsonpath={.spec.count}"];
    assert_eq!(cluster.run(&path), "5");

    cluster.restart_apiserver();
    assert_eq!(cluster.run(&path), "5");
    cluster.run(&[
        "patch",
        "wd",
        "a",
        "--type=merge",
        "-p",
        r#"{"spec":{"color":"blue"}}"#,
    ]);

    cluster.run(&["delete", crd, "--timeout=60s"]);
    // kubectl remembers for a while that there was such a kind.
    let gone = cluster.refused(&["get", "wd"]);
    let not_there = "the server could not find the requested resource";
    assert!(gone.contains(not_there), "{gone}");
    cluster.run(&["apply", "-f", &manifest]);
    cluster.run(&["wait", "--for=condition=Established", crd, "--timeout=60s"]);
    assert_eq!(cluster.run(&["get", "wd", "-o", "name"]), "");
}

#[test]
fn a_definition_gets_its_defaults_and_its_status() {
    let cluster = Cluster::start();
    let mut wanted = definition("Widget", "widgets");
    wanted["status"] = json!({"storedVersions": ["v0"], "conditions": [
        {"type": "Established", "status": "True", "reason": "Mine"}]});
    let made = cluster.post(DEFINITIONS, &wanted);
    assert!(
        !made.head.to_ascii_lowercase().contains("warning:"),
        "{}",
        made.head
    );
    let made = made.expect(201);
    assert_eq!(made["spec"]["names"]["singular"], "widget");
    assert_eq!(made["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(condition(&made, "Established").0, "");
    assert!(made["metadata"].get("finalizers").is_none());

    let done = becomes(&cluster, "widgets", "Established", "True");
    let status = (
        condition(&done, "NamesAccepted"),
        condition(&done, "Established"),
    );
    let yes = |reason: &str| ("True".to_owned(), reason.to_owned());
    assert_eq!(status, (yes("NoConflicts"), yes("InitialNamesAccepted")));
    assert_eq!(done["status"]["acceptedNames"], done["spec"]["names"]);
    assert_eq!(done["metadata"]["generation"], 1);
    cluster.post(WIDGETS, &widget("a")).expect(201);
}

#[test]
fn wrong_definitions_and_changes_are_refused() {
    let cluster = Cluster::start();
    let refuses = |change: &dyn Fn(&mut Value), message: &str| {
        let mut wrong = definition("Widget", "widgets");
        change(&mut wrong);
        let answer = cluster.post(DEFINITIONS, &wrong);
        answer.refuses(422, "Invalid", message);
    };
    refuses(
        &|one| one["spec"]["preserveUnknownFields"] = true.into(),
        "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set \
         x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
    );
    refuses(
        &|one| {
            let service = json!({"namespace": "default", "name": "hook"});
            one["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v2"], "clientConfig": {"service": service}}});
        },
        "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\"]: must include at least \
         one of v1, v1beta1",
    );
    refuses(
        &|one| {
            let columns = json!([{"name": "A", "type": "text", "jsonPath": ".a"}]);
            one["spec"]["versions"][0]["additionalPrinterColumns"] = columns;
        },
        "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one \
         of boolean,date,integer,number,string",
    );
    refuses(
        &|one| {
            let scale = json!({"specReplicasPath": ".count", "statusReplicasPath": ".status.n"});
            one["spec"]["versions"][0]["subresources"]["scale"] = scale;
        },
        "scale.specReplicasPath: Invalid value: \".count\": should be a json path under .spec",
    );
    refuses(
        &|one| {
            one["metadata"]["name"] = "widgets.x-k8s.k8s.io".into();
            one["spec"]["group"] = "x-k8s.k8s.io".into();
        },
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups",
    );

    let made = create(&cluster, "Widget", "widgets");
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    let put = |change: &dyn Fn(&mut Value)| {
        let mut changed = made.clone();
        change(&mut changed);
        cluster.call("PUT", &path).json(&changed).send()
    };
    for (field, wrong, change) in [
        ("spec.scope", "\"Cluster\"", json!({"scope": "Cluster"})),
        (
            "spec.names.kind",
            "\"Gadget\"",
            json!({"names": {"kind": "Gadget"}}),
        ),
    ] {
        let refused = put(&|one| merge(&mut one["spec"], &change));
        let message = format!("{field}: Invalid value: {wrong}: field is immutable");
        refused.refuses(422, "Invalid", &message);
    }
    let without = put(&|one| one["spec"]["versions"] = json!([version("v2", true)]));
    without.refuses(
        422,
        "Invalid",
        "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions",
    );
    let unversioned = put(&|one| {
        drop(
            one["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("resourceVersion"),
        )
    });
    unversioned.refuses(422, "Invalid", "metadata.resourceVersion");
}

fn merge(object: &mut Value, change: &Value) {
    for (key, value) in change.as_object().unwrap() {
        if value.is_object() {
            merge(&mut object[key], value);
        } else {
            object[key] = value.clone();
        }
    }
}

/// Each definition has its own versions, and the group has all of them.
#[test]
fn a_group_prefers_the_newest_version_of_all_its_definitions() {
    let cluster = Cluster::start();
    create(&cluster, "Widget", "widgets");
    let mut newer = definition("Gadget", "gadgets");
    newer["spec"]["versions"] = json!([version("v2", true), version("v1beta1", false)]);
    cluster.post(DEFINITIONS, &newer).expect(201);
    becomes(&cluster, "gadgets", "Established", "True");
    let names = |group: &Value| -> Vec<String> {
        let versions = group["versions"].as_array().unwrap().iter();
        let name = |one: &Value| one["version"].as_str().unwrap().to_owned();
        versions.map(name).collect()
    };
    let path = "/apis/shop.example.com";
    let all = |answer: &Answer| names(&answer.object()).len() == 3;
    let group = until(|| cluster.get(path), all).object();
    assert_eq!(names(&group), ["v2", "v1", "v1beta1"]);
    assert_eq!(group["preferredVersion"]["version"], "v2");
}

#[test]
fn rules_in_cel_are_enforced() {
    let cluster = Cluster::start();
    let mut wanted = definition("Widget", "widgets");
    let version = &mut wanted["spec"]["versions"][0];
    version["subresources"] = json!({"status": {}});
    version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"count": {"type": "integer"}},
            "x-kubernetes-validations": [
                {"rule": "self.count > 1"},
                {"rule": "self.count >= oldSelf.count", "message": "count may not shrink"},
            ]},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "self.phase != 'Bad'", "fieldPath": ".phase",
                "messageExpression": "'phase ' + self.phase"}]}}});
    let mut broken = wanted.clone();
    let rules = &mut broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    rules["spec"]["x-kubernetes-validations"] = json!([{"rule": "self.cuont > 1"}]);
    let refused = cluster.post(DEFINITIONS, &broken).expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("compilation failed: ERROR: <input>:1:5: undefined field 'cuont'"),
        "{message}"
    );

    cluster.post(DEFINITIONS, &wanted).expect(201);
    becomes(&cluster, "widgets", "Established", "True");
    let one = |count: i64| {
        json!({"apiVersion": "shop.example.com/v1", "kind": "Widget",
        "metadata": {"name": "a"}, "spec": {"count": count}})
    };
    let refused = cluster.post(WIDGETS, &one(1)).expect(422);
    let causes = &refused["details"]["causes"];
    assert_eq!(
        causes[0]["message"],
        "Invalid value: failed rule: self.count > 1"
    );
    assert_eq!(causes[0]["field"], "spec");
    let made = cluster.post(WIDGETS, &one(5)).expect(201);
    let own = format!("{WIDGETS}/a");
    let mut smaller = made.clone();
    smaller["spec"]["count"] = 4.into();
    let refused = cluster.call("PUT", &own).json(&smaller).send().expect(422);
    let causes = &refused["details"]["causes"];
    assert_eq!(causes[0]["message"], "Invalid value: count may not shrink");
    let mut bad = made.clone();
    bad["status"] = json!({"phase": "Bad"});
    let refused = cluster
        .call("PUT", &format!("{own}/status"))
        .json(&bad)
        .send()
        .expect(422);
    let causes = &refused["details"]["causes"];
    assert_eq!(causes[0]["message"], "Invalid value: phase Bad");
    assert_eq!(causes[0]["field"], "status.phase");
}

#[test]
fn a_conflict_of_names_is_told_and_ends_with_its_cause() {
    let cluster = Cluster::start();
    let mut first = definition("Widget", "widgets");
    first["spec"]["names"]["shortNames"] = json!(["w"]);
    cluster.post(DEFINITIONS, &first).expect(201);
    becomes(&cluster, "widgets", "Established", "True");
    let mut second = definition("Wheel", "wheels");
    second["spec"]["names"]["shortNames"] = json!(["w"]);
    cluster.post(DEFINITIONS, &second).expect(201);
    let refused = becomes(&cluster, "wheels", "NamesAccepted", "False");
    let no = |reason: &str| ("False".to_owned(), reason.to_owned());
    assert_eq!(
        condition(&refused, "NamesAccepted"),
        no("ShortNamesConflict")
    );
    assert_eq!(condition(&refused, "Established"), no("NotAccepted"));
    cluster.get("/apis/shop.example.com/v1/wheels").missing();

    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    cluster.call("DELETE", &path).send().expect(200);
    becomes(&cluster, "wheels", "Established", "True");
    cluster.get("/apis/shop.example.com/v1/wheels").expect(200);
}

#[test]
fn a_definition_waits_for_its_objects_and_lets_no_new_ones_in() {
    let cluster = Cluster::start();
    create(&cluster, "Widget", "widgets");
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.post(WIDGETS, &held).expect(201);
    for number in 0..40 {
        cluster
            .post(WIDGETS, &widget(&format!("w{number}")))
            .expect(201);
    }
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    let marked = cluster.call("DELETE", &path).send().expect(200);
    let cleanup = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    assert_eq!(marked["metadata"]["finalizers"], cleanup);
    assert_eq!(
        condition(&marked, "Terminating").1,
        "InstanceDeletionPending"
    );

    // All but the one that is held go; nothing comes.
    let alone = |answer: &Answer| answer.object()["items"].as_array().unwrap().len() == 1;
    let left = until(|| cluster.get(WIDGETS), alone).expect(200);
    assert_eq!(left["items"][0]["metadata"]["name"], "held");
    let reason = |answer: &Answer| {
        condition(&answer.object(), "Terminating").1 == "InstanceDeletionInProgress"
    };
    until(|| cluster.get(&path), reason);
    let refused = cluster.post(WIDGETS, &widget("new"));
    let why = "create not allowed while custom resource definition is terminating";
    refused.refuses(403, "Forbidden", why);
    let discovered = cluster.get("/apis/shop.example.com/v1").expect(200);
    let verbs = json!(["delete", "deletecollection", "get", "list", "watch"]);
    assert_eq!(discovered["resources"][0]["verbs"], verbs);

    let release = json!({"metadata": {"finalizers": null}});
    let patch = cluster.call("PATCH", &format!("{WIDGETS}/held"));
    let patch = patch.body("application/merge-patch+json", release.to_string());
    patch.send().expect(200);
    until(|| cluster.get(&path), |answer| answer.code == 404);
    until(|| cluster.get(WIDGETS), |answer| answer.code == 404);
}

#[test]
fn a_change_of_versions_keeps_the_objects_and_the_watches() {
    let cluster = Cluster::start();
    let made = create(&cluster, "Widget", "widgets");
    cluster.post(WIDGETS, &widget("a")).expect(201);
    let path = format!(
        "{WIDGETS}?watch=true&sendInitialEvents=true\
        &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = cluster.call("GET", &path).stream();
    assert_eq!(watch.event(), ("ADDED".into(), "a".into()));
    assert_eq!(watch.event().0, "BOOKMARK");

    // v2 is stored from here on; v1 goes on being served.
    let mut changed = made.clone();
    changed["spec"]["versions"] = json!([version("v1", false), version("v2", true)]);
    let put = cluster.call("PUT", &format!("{DEFINITIONS}/widgets.shop.example.com"));
    let changed = put.json(&changed).send().expect(200);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(changed["metadata"]["generation"], 2);
    let newer = WIDGETS.replace("/v1/", "/v2/");
    until(|| cluster.get(&newer), |answer| answer.code == 200);
    let old = cluster.get(&format!("{newer}/a")).expect(200);
    assert_eq!(old["apiVersion"], "shop.example.com/v2");
    let mut object = widget("b");
    object["apiVersion"] = "shop.example.com/v2".into();
    cluster.post(&newer, &object).expect(201);
    let event = watch.next().unwrap();
    assert_eq!(event["object"]["metadata"]["name"], "b");
    assert_eq!(event["object"]["apiVersion"], "shop.example.com/v1");
    let stored = |name: &str| {
        let key = format!("/registry/shop.example.com/widgets/default/{name}");
        let value = cluster.in_store(async |client| {
            let request = etcd_api::etcdserverpb::RangeRequest {
                key: key.into_bytes().into(),
                ..Default::default()
            };
            let answer = client.kv().range(request).await.unwrap().into_inner();
            answer.kvs[0].value.clone()
        });
        serde_json::from_slice::<Value>(&value).unwrap()["apiVersion"].clone()
    };
    assert_eq!(
        (stored("a"), stored("b")),
        (json!("shop.example.com/v1"), json!("shop.example.com/v2"))
    );
    // A write that changes nothing migrates the object, a dry run does not, and then none does.
    let put = |query: &str| {
        let call = cluster.call("PUT", &format!("{newer}/a{query}"));
        let put = call.json(&old).send().expect(200);
        put["metadata"]["resourceVersion"].clone()
    };
    put("?dryRun=All");
    assert_eq!(stored("a"), "shop.example.com/v1");
    let migrated = put("");
    assert_ne!(migrated, old["metadata"]["resourceVersion"]);
    assert_eq!(stored("a"), "shop.example.com/v2");
    let again = cluster.get(&format!("{newer}/a")).expect(200);
    let call = cluster.call("PUT", &format!("{newer}/a"));
    assert_eq!(call.json(&again).send().expect(200), again);
    // Then the old version may go.
    let mut done = cluster
        .get(&format!("{DEFINITIONS}/widgets.shop.example.com"))
        .expect(200);
    done["status"]["storedVersions"] = json!(["v2"]);
    let path = format!("{DEFINITIONS}/widgets.shop.example.com/status");
    let mut done = cluster.call("PUT", &path).json(&done).send().expect(200);
    assert_eq!(done["status"]["storedVersions"], json!(["v2"]));
    done["spec"]["versions"] = json!([version("v2", true)]);
    let put = cluster.call("PUT", &format!("{DEFINITIONS}/widgets.shop.example.com"));
    put.json(&done).send().expect(200);
}

/// A second apiserver on the store of a cluster.
struct Second {
    address: String,
    child: Child,
}

impl Second {
    fn beside(cluster: &Cluster) -> Second {
        let (child, address) = apiserver(&cluster.store.url(), &[]);
        Second { address, child }
    }

    fn get(&self, path: &str) -> Answer {
        Call::new(&self.address, "GET", path).send()
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_apiservers_serve_the_same_kinds() {
    let mut cluster = Cluster::start();
    create(&cluster, "Widget", "widgets");
    let second = Second::beside(&cluster);
    // It was defined before the second came, which is ready only when it serves it.
    second.get(WIDGETS).expect(200);
    create(&cluster, "Gadget", "gadgets");
    let gadgets = "/apis/shop.example.com/v1/gadgets";
    until(|| second.get(gadgets), |answer| answer.code == 200);
    cluster.post(WIDGETS, &widget("a")).expect(201);
    let list = second.get(WIDGETS).expect(200);
    assert_eq!(list["items"][0]["metadata"]["name"], "a");

    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    let deleted = Call::new(&second.address, "DELETE", &path).send();
    deleted.expect(200);
    until(|| cluster.get(WIDGETS), |answer| answer.code == 404);
    until(|| second.get(WIDGETS), |answer| answer.code == 404);
    until(|| second.get(&path), |answer| answer.code == 404);

    cluster.restart_apiserver();
    cluster.get(WIDGETS).missing();
    cluster.get(gadgets).expect(200);
}

/// A definition with a schema that has defaults and limits.
fn strict_definition() -> Value {
    let mut wanted = definition("Widget", "widgets");
    wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": ["color"], "properties": {
                "color": {"type": "string", "enum": ["red", "blue"]},
                "count": {"type": "integer", "default": 1, "maximum": 5},
            }},
            "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
        },
    });
    wanted
}

#[test]
fn objects_are_pruned_defaulted_and_validated_by_their_schema() {
    let cluster = Cluster::start();
    cluster.post(DEFINITIONS, &strict_definition()).expect(201);
    becomes(&cluster, "widgets", "Established", "True");
    let mut object = widget("a");
    object["spec"]["size"] = 3.into();
    let made = cluster.post(WIDGETS, &object).expect(201);
    assert_eq!(made["spec"], json!({"color": "red", "count": 1}));
    let ask = |validation: &str| {
        let path = format!("{WIDGETS}?fieldValidation={validation}&dryRun=All");
        let mut object = object.clone();
        object["metadata"]["name"] = "b".into();
        cluster.post(&path, &object)
    };
    let unknown = "strict decoding error: unknown field \"spec.size\"";
    ask("Strict").refuses(400, "BadRequest", unknown);
    let warned = ask("Warn");
    assert!(warned.head.contains("unknown field"), "{}", warned.head);
    warned.expect(201);

    let patch = |path: &str, patch: Value| {
        let call = cluster.call("PATCH", path);
        call.body("application/merge-patch+json", patch.to_string())
            .send()
    };
    let one = format!("{WIDGETS}/a");
    let wrong = patch(&one, json!({"spec": {"color": "green", "count": 9}}));
    wrong.refuses(422, "Invalid", "spec.color: Unsupported value: \"green\"");
    let status = wrong.expect(422);
    assert_eq!(
        status["details"]["causes"].as_array().unwrap().len(),
        2,
        "{status}"
    );
    assert_eq!(
        (&status["details"]["kind"], &status["details"]["name"]),
        (&json!("Widget"), &json!("a"))
    );
    let wrong = patch(&format!("{one}/status"), json!({"status": {"count": "x"}}));
    wrong.refuses(422, "Invalid", "status.count");
    let reported = patch(
        &format!("{one}/status"),
        json!({"status": {"count": 2, "more": 1}}),
    );
    let reported = reported.expect(200);
    assert_eq!(reported["status"], json!({"count": 2}));
    assert_eq!(reported["metadata"]["generation"], 1);

    // A default that comes later is there when the object is read.
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    let mut changed = cluster.get(&path).expect(200);
    let schema = &mut changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["shape"] =
        json!({"type": "string", "default": "round"});
    cluster.call("PUT", &path).json(&changed).send().expect(200);
    let round = |answer: &Answer| answer.object()["spec"]["shape"] == "round";
    until(|| cluster.get(&one), round);
    let list = cluster.get(WIDGETS).expect(200);
    assert_eq!(list["items"][0]["spec"]["shape"], "round");
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    let cluster = Cluster::start();
    let mut wanted = strict_definition();
    let schema = &mut wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]
        .as_object_mut()
        .unwrap()
        .remove("type");
    let field = "spec.validation.openAPIV3Schema.properties[spec].type: Required value";
    cluster
        .post(DEFINITIONS, &wanted)
        .refuses(422, "Invalid", field);
}

#[test]
fn kubectl_explains_a_kind_and_checks_its_objects() {
    if !kubectl_or_skip("kubectl explain and a definition") {
        return;
    }
    let cluster = Cluster::start();
    let manifest = cluster.file("definition.yaml", MANIFEST);
    cluster.run(&["apply", "-f", &manifest]);
    let crd = "crd/widgets.shop.example.com";
    cluster.run(&["wait", "--for=condition=Established", crd, "--timeout=60s"]);
    let explained = cluster.run(&["explain", "widget.spec.color"]);
    assert!(explained.contains("FIELD: color <string>"), "{explained}");
    assert!(explained.contains("What it looks like."), "{explained}");
    let index = cluster.get("/openapi/v3").expect(200);
    let url = &index["paths"]["apis/shop.example.com/v1"]["serverRelativeURL"];
    let document = cluster.get(url.as_str().unwrap()).expect(200);
    let schema = &document["components"]["schemas"]["com.example.shop.v1.Widget"];
    assert_eq!(
        schema["properties"]["spec"]["properties"]["count"]["type"],
        "integer"
    );

    let widget = cluster.file("widget.yaml", WIDGET);
    cluster.run(&["apply", "-f", &widget]);
    let wrong = cluster.file(
        "wrong.yaml",
        &WIDGET.replace("count: 3", "count: many, size: 1"),
    );
    let refused = cluster.refused(&["apply", "-f", &wrong]);
    assert!(refused.contains("spec.size"), "{refused}");
    let wrong = cluster.file("wrong.yaml", &WIDGET.replace("count: 3", "count: many"));
    let refused = cluster.refused(&["apply", "-f", &wrong]);
    assert!(refused.contains("spec.count: Invalid value"), "{refused}");
}

/// A server that starts then does not know the definition, but nobody has deleted it.
#[test]
fn a_definition_that_cannot_be_read_keeps_its_api_service() {
    const KEY: &str =
        "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.shop.example.com";
    let service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.shop.example.com";
    let mut cluster = Cluster::start();
    create(&cluster, "Widget", "widgets");
    let found = |answer: &Answer| answer.code == 200;
    let made = until(|| cluster.get(service), found).expect(200);
    damage(&cluster, KEY);
    cluster.restart_apiserver_in_place();
    let kept = cluster.get(service).expect(200);
    assert_eq!(kept["metadata"]["uid"], made["metadata"]["uid"]);
    remove(&cluster, KEY);
    until(|| cluster.get(service), |answer| answer.code == 404);
}
