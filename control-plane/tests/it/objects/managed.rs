//! Server-side apply, and who owns which fields after every write.

use serde_json::{Value, json};

use crate::harness::cluster::{Cluster, kubectl_or_skip};
use crate::requests::http::Answer;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const APPLY: &str = "application/apply-patch+yaml";

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: 'nginx:1', ports: [{containerPort: 80}]}
";

fn apply(cluster: &Cluster, path: &str, body: &str) -> Answer {
    cluster.call("PATCH", path).body(APPLY, body).send()
}

fn put(cluster: &Cluster, path: &str, object: &Value) -> Answer {
    cluster.call("PUT", path).json(object).send()
}

/// The managers of an object: name, operation, subresource, fields.
fn managers(object: &Value) -> Vec<(String, String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |entry: &Value| {
        (
            text(&entry["manager"]),
            text(&entry["operation"]),
            text(&entry["subresource"]),
            entry["fieldsV1"].clone(),
        )
    };
    entries.into_iter().flatten().map(one).collect()
}

fn names(object: &Value) -> Vec<String> {
    let all = managers(object).into_iter();
    all.map(|(name, operation, subresource, _)| {
        format!("{name} {operation} {subresource}")
            .trim()
            .to_owned()
    })
    .collect()
}

#[test]
fn every_write_has_a_manager() {
    let cluster = Cluster::start();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "labels": {"a": "1"}}, "data": {"x": "1"}});
    let made = cluster
        .call("POST", MAPS)
        .header("User-Agent", "tool/1.0 (linux)")
        .json(&map)
        .send()
        .expect(201);
    let entry = &made["metadata"]["managedFields"][0];
    assert!(entry["time"].as_str().unwrap().ends_with('Z'), "{entry}");
    assert_eq!(entry["apiVersion"], "v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    let fields = json!({
        "f:data": {".": {}, "f:x": {}},
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
    });
    let expected = (
        "tool".to_owned(),
        "Update".to_owned(),
        String::new(),
        fields,
    );
    assert_eq!(managers(&made), [expected]);

    let path = format!("{MAPS}/m?fieldManager=other");
    let same = put(&cluster, &path, &map).expect(200);
    assert_eq!(same, made, "a write that changes nothing");
    let mut more = map.clone();
    more["data"]["y"] = "2".into();
    let more = put(&cluster, &path, &more).expect(200);
    assert_eq!(
        names(&more),
        ["other Update", "tool Update"].map(String::from)
    );
    let patch = r#"{"data":{"x":"3"}}"#;
    let patched = cluster
        .call("PATCH", &format!("{MAPS}/m?fieldManager=third"))
        .body("application/merge-patch+json", patch)
        .send()
        .expect(200);
    let all = managers(&patched);
    let of_third = all.iter().find(|one| one.0 == "third").unwrap();
    assert_eq!(of_third.3, json!({"f:data": {"f:x": {}}}));
    let of_tool = all.iter().find(|one| one.0 == "tool").unwrap();
    assert_eq!(of_tool.3["f:data"], json!({}), "it lost x");

    for reset in [json!([]), json!([{}])] {
        let mut object = map.clone();
        object["metadata"]["managedFields"] = reset;
        object["data"]["z"] = "1".into();
        let path = format!("{MAPS}/m?fieldManager=reset");
        put(&cluster, &path, &object).expect(200);
        let read = cluster.get(&format!("{MAPS}/m")).expect(200);
        assert!(managers(&read).is_empty(), "{read}");
    }
    let long = format!("{MAPS}/m?fieldManager={}", "x".repeat(129));
    put(&cluster, &long, &map).refuses(422, "Invalid", "fieldManager: Too long");
}

#[test]
fn the_oldest_managers_become_one() {
    let cluster = Cluster::start();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
        "data": {"first": "1"}});
    cluster.post(MAPS, &map).expect(201);
    let mut last = Value::Null;
    for n in 0..14 {
        let path = format!("{MAPS}/m?fieldManager=m{n}");
        let patch = format!(r#"{{"data":{{"k{n}":"1"}}}}"#);
        let call = cluster.call("PATCH", &path);
        last = call
            .body("application/merge-patch+json", patch)
            .send()
            .expect(200);
    }
    let all = names(&last);
    assert_eq!(all.len(), 10, "{all:?}");
    assert!(
        all.contains(&"ancient-changes Update".to_owned()),
        "{all:?}"
    );
}

#[test]
fn configurations_are_merged_and_conflicts_are_told() {
    let cluster = Cluster::start();
    let path = format!("{DEPLOYMENTS}/web");
    apply(&cluster, &path, WEB).refuses(422, "Invalid", "fieldManager: Required value");
    let by = |manager: &str| format!("{path}?fieldManager={manager}");
    let made = apply(&cluster, &by("a"), WEB).expect(201);
    assert_eq!(names(&made), ["a Apply"].map(String::from));
    assert_eq!(made["spec"]["template"]["spec"]["restartPolicy"], "Always");
    let again = apply(&cluster, &by("a"), WEB).expect(200);
    assert_eq!(again, made, "nothing changed");

    let three =
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3}}";
    let conflict = apply(&cluster, &by("b"), three);
    let text = "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas";
    conflict.refuses(409, "Conflict", text);
    assert_eq!(
        conflict.object()["details"]["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"a\"",
            "field": ".spec.replicas"}])
    );
    let dry = format!("{}&force=true&dryRun=All", by("b"));
    assert_eq!(
        apply(&cluster, &dry, three).expect(200)["spec"]["replicas"],
        3
    );
    let forced = apply(&cluster, &format!("{}&force=true", by("b")), three).expect(200);
    assert_eq!(forced["spec"]["replicas"], 3);
    assert_eq!(forced["metadata"]["generation"], 2);

    // Who no longer names a field gives it up; nobody else owns the port.
    let less = WEB
        .replace("  replicas: 2\n", "")
        .replace(", ports: [{containerPort: 80}]", "");
    let less = apply(&cluster, &by("a"), &less).expect(200);
    assert_eq!(less["spec"]["replicas"], 3, "b owns it");
    let container = &less["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container.get("ports"), None, "{container}");

    let twice = WEB.replace(
        "ports: [{containerPort: 80}]",
        "ports: [{containerPort: 80}, {containerPort: 80, protocol: TCP}]",
    );
    apply(&cluster, &by("a"), &twice).refuses(500, "", "duplicate entries for key");
    let managed = WEB.replace("labels: {app: web}}\nspec", "managedFields: [{}]}\nspec");
    let why = "metadata.managedFields must be nil";
    apply(&cluster, &by("a"), &managed).refuses(400, "BadRequest", why);
    let unknown = WEB.replace("  replicas: 2", "  replicaz: 2");
    let why = ".spec.replicaz: field not declared in schema";
    apply(&cluster, &by("a"), &unknown).refuses(500, "", why);
    let other = WEB.replace("apps/v1", "v1");
    let why = "invalid object type: /v1, Kind=Deployment";
    apply(&cluster, &by("a"), &other).refuses(400, "BadRequest", why);
    let uid = WEB.replace("{name: web,", "{name: new, uid: x,");
    let path = format!("{DEPLOYMENTS}/new?fieldManager=a");
    apply(&cluster, &path, &uid).refuses(409, "Conflict", "uid mismatch");
    let cbor = cluster
        .call("PATCH", &by("a"))
        .body("application/apply-patch+cbor", "x");
    cbor.send().refuses(415, "UnsupportedMediaType", "415");
}

#[test]
fn status_and_scale_have_managers_of_their_own() {
    let cluster = Cluster::start();
    let path = format!("{DEPLOYMENTS}/web");
    apply(&cluster, &format!("{path}?fieldManager=a"), WEB).expect(201);
    let status = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, \
        spec: {replicas: 9}, status: {replicas: 1, observedGeneration: 1}}";
    let wrote = format!("{path}/status?fieldManager=c");
    let wrote = apply(&cluster, &wrote, status).expect(200);
    assert_eq!(wrote["spec"]["replicas"], 2);
    assert_eq!(wrote["status"]["replicas"], 1);
    let all = managers(&wrote);
    let of_status = all.iter().find(|one| one.2 == "status").unwrap();
    assert_eq!(
        of_status.3,
        json!({"f:status": {"f:observedGeneration": {}, "f:replicas": {}}})
    );

    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 5}});
    let scaled = format!("{path}/scale?fieldManager=hpa");
    assert_eq!(
        put(&cluster, &scaled, &scale).expect(200)["spec"]["replicas"],
        5
    );
    let read = cluster.get(&path).expect(200);
    let all = managers(&read);
    let of_scale = all.iter().find(|one| one.2 == "scale").unwrap();
    assert_eq!(of_scale.3, json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(of_scale.0, "hpa");
    let why = "conflict with \"hpa\" with subresource \"scale\" using apps/v1: .spec.replicas";
    apply(&cluster, &format!("{path}?fieldManager=a"), WEB).refuses(409, "Conflict", why);
    let four = "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, \
        spec: {replicas: 4}}";
    let by_apply = format!("{path}/scale?fieldManager=s&force=true");
    assert_eq!(
        apply(&cluster, &by_apply, four).expect(200)["spec"]["replicas"],
        4
    );
    let read = cluster.get(&path).expect(200);
    assert!(names(&read).contains(&"s Apply scale".to_owned()), "{read}");
}

#[test]
fn what_the_body_of_a_scale_says_twice_is_told() {
    let cluster = Cluster::start();
    let web = format!("{DEPLOYMENTS}/web");
    apply(&cluster, &format!("{web}?fieldManager=a"), WEB).expect(201);
    let scale = |query: &str, media_type: &str, body: &str| {
        let call = cluster.call("PATCH", &format!("{web}/scale?{query}"));
        call.body(media_type, body).send()
    };
    let twice = "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, \
                 spec: {replicas: 3, replicas: 4}}";
    // What the apply says of it comes first.
    scale("fieldManager=s&fieldValidation=Strict", APPLY, twice).refuses(
        409,
        "Conflict",
        "Apply failed with 1 conflict",
    );
    let force = "fieldManager=s&force=true";
    let strict = scale(&format!("{force}&fieldValidation=Strict"), APPLY, twice);
    let why = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:";
    strict.refuses(400, "BadRequest", why);
    let ignored = scale(&format!("{force}&fieldValidation=Ignore"), APPLY, twice);
    ignored.expect(200);
    assert!(!ignored.head.contains("299 - "), "{}", ignored.head);
    let merge = "application/merge-patch+json";
    let sent = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "web"}, "spec": {"replicas": 4}, "foo": 1});
    for (warned, warning) in [
        (
            scale(force, APPLY, twice),
            r#"299 - "line 1: key \"replicas\" already set in map""#,
        ),
        (
            scale("", merge, r#"{"spec":{"replicas":3,"replicas":4}}"#),
            r#"299 - "duplicate field \"spec.replicas\"""#,
        ),
        (
            put(&cluster, &format!("{web}/scale"), &sent),
            r#"299 - "unknown field \"foo\"""#,
        ),
    ] {
        assert_eq!(warned.expect(200)["spec"]["replicas"], 4);
        assert!(warned.head.contains(warning), "{}", warned.head);
    }
}

#[test]
fn custom_resources_are_applied_in_all_their_versions() {
    let cluster = Cluster::start();
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "items": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object",
                    "required": ["name"], "properties": {
                    "name": {"type": "string"}, "value": {"type": "string"}}}},
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing",
                "listKind": "ThingList"},
            "versions": [version("v1", true), version("v2", false)]},
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.post(definitions, &definition).expect(201);
    cluster.run(&[
        "wait",
        "--for=condition=Established",
        "crd/things.example.com",
    ]);
    let path = |version: &str, manager: &str| {
        format!("/apis/example.com/{version}/namespaces/default/things/t?fieldManager={manager}")
    };
    let thing = |version: &str, rest: &str| {
        format!("{{apiVersion: example.com/{version}, kind: Thing, metadata: {{name: t}}, {rest}}}")
    };
    let one = thing("v1", "spec: {size: 1, items: [{name: a, value: '1'}]}");
    let made = apply(&cluster, &path("v1", "a"), &one).expect(201);
    assert_eq!(
        managers(&made)[0].3,
        json!({"f:spec": {"f:items": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {},
            "f:value": {}}}, "f:size": {}}})
    );
    let two = thing(
        "v2",
        "spec: {items: [{name: b, value: '2'}]}, status: {phase: X}",
    );
    let merged = apply(&cluster, &path("v2", "b"), &two).expect(200);
    assert_eq!(merged["spec"]["items"].as_array().unwrap().len(), 2);
    assert_eq!(merged.get("status"), None);
    let taken = thing("v2", "spec: {items: [{name: a, value: '3'}]}");
    let why = "conflict with \"a\": .spec.items[name=\"a\"].value";
    apply(&cluster, &path("v2", "b"), &taken).refuses(409, "Conflict", why);
    let less = thing("v2", "spec: {size: 1}");
    let less = apply(&cluster, &path("v2", "a"), &less).expect(200);
    let items = less["spec"]["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "a gave up its item: {items:?}");
}

#[test]
fn an_object_that_is_too_large_with_its_managers_is_stored_without_them() {
    let cluster = Cluster::start();
    let map = |entries: usize| {
        let data = (0..entries).map(|at| (format!("k{at:06}"), Value::from("")));
        let data: serde_json::Map<_, _> = data.collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
    };
    let made = cluster.post(MAPS, &map(1)).expect(201);
    assert_eq!(names(&made), ["unknown Update"]);
    let path = format!("{MAPS}/a");
    // Some 12 bytes an entry, and 16 for its manager, where the store takes 1.5 MiB.
    let large = put(&cluster, &path, &map(80_000)).expect(200);
    assert_eq!(names(&large), [""; 0]);
    assert_eq!(cluster.get(&path).expect(200)["data"], map(80_000)["data"]);
    cluster.call("DELETE", &path).send().expect(200);
    let made = cluster.post(MAPS, &map(80_000)).expect(201);
    assert_eq!(names(&made), [""; 0]);
    cluster.call("DELETE", &path).send().expect(200);
    let refused = cluster.post(MAPS, &map(200_000));
    assert_eq!(refused.code, 413, "{}", refused.body.len());
}

#[test]
fn kubectl_applies_on_the_server() {
    if !kubectl_or_skip("kubectl apply --server-side") {
        return;
    }
    let cluster = Cluster::start();
    let file = cluster.file("web.yaml", WEB);
    let first = cluster.run(&["apply", "--server-side", "-f", &file]);
    assert_eq!(first, "deployment.apps/web serverside-applied\n");
    let version = [
        "get",
        "deploy",
        "web",
        "-o",
        "jsonpath={.metadata.resourceVersion}",
    ];
    let before = cluster.run(&version);
    cluster.run(&["apply", "--server-side", "-f", &file]);
    cluster.run(&["diff", "--server-side", "-f", &file]);
    assert_eq!(cluster.run(&version), before);

    cluster.run(&["scale", "deploy", "web", "--replicas=7"]);
    let refused = cluster.refused(&["apply", "--server-side", "-f", &file]);
    assert!(refused.contains("conflict with \"kubectl\""), "{refused}");
    assert!(refused.contains(".spec.replicas"), "{refused}");
    let force = ["apply", "--server-side", "--force-conflicts", "-f", &file];
    cluster.run(&force);
    let replicas = ["get", "deploy", "web", "-o", "jsonpath={.spec.replicas}"];
    assert_eq!(cluster.run(&replicas), "2");
}

#[test]
fn kubectl_migrates_from_client_side_apply() {
    if !kubectl_or_skip("kubectl's migration to server-side apply") {
        return;
    }
    let cluster = Cluster::start();
    let file = cluster.file("web.yaml", WEB);
    cluster.run(&["apply", "-f", &file]);
    let show = [
        "get",
        "deploy",
        "web",
        "--show-managed-fields",
        "-o",
        "json",
    ];
    let object =
        |cluster: &Cluster| -> Value { serde_json::from_str(&cluster.run(&show)).unwrap() };
    assert_eq!(
        names(&object(&cluster)),
        ["kubectl-client-side-apply Update"].map(String::from)
    );
    let changed = cluster.file("web.yaml", &WEB.replace("nginx:1", "nginx:2"));
    cluster.run(&["apply", "--server-side", "-f", &changed]);
    let migrated = object(&cluster);
    assert_eq!(
        migrated["spec"]["template"]["spec"]["containers"][0]["image"],
        "nginx:2"
    );
    let all = names(&migrated);
    assert!(all.contains(&"kubectl Apply".to_owned()), "{all:?}");
    // A field that the file drops is removed: server-side apply owns it by now.
    let less = WEB.replace(", ports: [{containerPort: 80}]", "");
    let less = cluster.file("web.yaml", &less);
    cluster.run(&["apply", "--server-side", "-f", &less]);
    let container = &object(&cluster)["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container.get("ports"), None, "{container}");
}
