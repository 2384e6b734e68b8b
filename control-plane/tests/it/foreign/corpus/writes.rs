//! Requests that write a kind, right and wrong in ways that all kinds share.

use machinery::object;
use machinery::protobuf;
use serde_json::{Value, json};

use super::bases::Bases;
use super::changed::stored_path;
use super::mutation::Mutation;
use super::reads::drawn;
use super::request::{APPLY, JSON, JSON_PATCH, Like, MERGE, Request, STRATEGIC};

const MINIMAL: &str = "minimal";
const UID: &str = "22222222-2222-2222-2222-222222222222";

pub(super) fn requests(bases: &Bases) -> Vec<Request> {
    let mut requests = creates(bases);
    requests.extend(of_metadata(bases));
    if bases.kind.has_verb("update") {
        requests.extend(updates(bases));
        requests.extend(patches(bases));
    }
    requests
}

/// The valid object with the least fields; reviews have one alone.
fn least(bases: &Bases) -> (String, Value) {
    let mut names = bases.objects.iter().map(|(name, _)| name);
    let name = names
        .clone()
        .find(|name| *name == MINIMAL)
        .or_else(|| names.next())
        .unwrap();
    (name.clone(), bases.made(name))
}

fn creates(bases: &Bases) -> Vec<Request> {
    let (of, least) = least(bases);
    let text = least.to_string();
    let collection = bases.collection();
    let post = |name: &str, query: &str| {
        let request = Request::new(
            format!("POST {name}"),
            "POST",
            &format!("{collection}?dryRun=All{query}"),
        );
        request.like(Like::Made(of.clone()))
    };
    let unknown = text.replacen('{', "{\"unknown\":1,", 1);
    let twice = text.replacen('{', "{\"kind\":\"Other\",", 1);
    let with = |mutation: Mutation| {
        let mut object = least.clone();
        mutation.apply(&mut object);
        object
    };
    let mut generated = with(Mutation::without("metadata name"));
    object::set(&mut generated, &["metadata", "generateName"], "gen-".into());
    let mut requests = vec![
        post("with a generated name", "").json(&generated),
        post("unknown field, strictly", "&fieldValidation=Strict").body(JSON, unknown.clone()),
        post("unknown field, warning", "&fieldValidation=Warn").body(JSON, unknown.clone()),
        post("unknown field, ignoring", "&fieldValidation=Ignore").body(JSON, unknown),
        post("field twice, strictly", "&fieldValidation=Strict").body(JSON, twice.clone()),
        post("field twice", "").body(JSON, twice),
        post("fieldValidation=Nope", "&fieldValidation=Nope").body(JSON, text.clone()),
        post("dryRun twice", "&dryRun=Nope").body(JSON, text.clone()),
        post("fieldManager with newline", "&fieldManager=a%0Ab").body(JSON, text.clone()),
        post(
            "fieldManager too long",
            &format!("&fieldManager={}", "m".repeat(200)),
        )
        .body(JSON, text.clone()),
        post("nothing", ""),
        post("empty text", "").body(JSON, ""),
        post("broken JSON", "").body(JSON, "{\"kind\":"),
        post("a list", "").body(JSON, "[]"),
        post("null", "").body(JSON, "null"),
        post("as text", "").body("text/plain", text.clone()),
        post("as YAML", "").body("application/yaml", text.clone()),
        post("as a patch", "").body(MERGE, text.clone()),
        post("other kind", "").json(&with(Mutation::at("kind", json!("Other")))),
        post("no kind", "").json(&with(Mutation::without("kind"))),
        post("other version", "").json(&with(Mutation::at("apiVersion", json!("v9")))),
        post("no version", "").json(&with(Mutation::without("apiVersion"))),
        post("no kind and version", "").json(&{
            let mut object = with(Mutation::without("kind"));
            Mutation::without("apiVersion").apply(&mut object);
            object
        }),
        post("pretty", "&pretty=true").json(&least),
        Request::new("POST to a name", "POST", &format!("{collection}/made")).json(&least),
    ];
    if let Ok(bytes) = protobuf::encode(&least) {
        requests.push(post("as protobuf", "").body(protobuf::MEDIA_TYPE, bytes));
    }
    if bases.kind.has_verb("update") {
        requests.push(post("what exists", "").json(&bases.base()));
        let path = format!("{collection}?dryRun=Nope");
        requests.push(Request::new("POST dryRun=Nope", "POST", &path).json(&least));
    }
    if bases.kind.namespaced() {
        let path = format!("{}?dryRun=All", bases.collection_in("elsewhere"));
        let name = "POST to another namespace";
        requests.push(Request::new(name, "POST", &path).json(&least));
    }
    requests.retain(|request| drawn(bases, &request.name));
    requests
}

/// Changes of metadata: what they are called, and paths with values.
fn metadata_changes() -> Vec<Mutation> {
    let owner = |fields: Value| {
        let mut owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": UID});
        owner
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        owner
    };
    let at = |path: &str, value: Value| Mutation::at(&format!("metadata {path}"), value);
    vec![
        Mutation::without("metadata"),
        Mutation::at("metadata", json!({})),
        Mutation::at("metadata", json!("x")),
        Mutation::without("metadata name"),
        at("name", json!("")),
        at("name", json!("Bad_Name")),
        at("name", json!("x".repeat(254))),
        at("name", json!("-a")),
        at("name", json!("a/b")),
        at("name", json!("1a.b:c")),
        at("namespace", json!("elsewhere")),
        at("resourceVersion", json!("1")),
        at("resourceVersion", json!("x")),
        at("uid", json!(UID)),
        at("generation", json!(7)),
        at("selfLink", json!("/x")),
        at("creationTimestamp", json!("2020-01-01T00:00:00Z")),
        at("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
        at("deletionGracePeriodSeconds", json!(5)),
        at("labels", json!({"bad key!": "v"})),
        at("labels", json!({"a": "bad value!"})),
        at("labels", json!({"a/b/c": "", "": "v"})),
        at("labels", json!({"k": "v".repeat(64)})),
        at("annotations", json!({"bad key!": "v"})),
        at("annotations", json!({"a": "x".repeat(262_200)})),
        at("finalizers", json!(["bad finalizer!"])),
        at("finalizers", json!(["nodomain"])),
        at("finalizers", json!(["orphan", "foregroundDeletion"])),
        at("ownerReferences", json!([{}])),
        at("ownerReferences", json!([owner(json!({"uid": ""}))])),
        at(
            "ownerReferences",
            json!([owner(json!({"apiVersion": "a/b/c"}))]),
        ),
        at("ownerReferences", json!([owner(json!({"kind": "Event"}))])),
        at(
            "ownerReferences",
            json!([
                owner(json!({"controller": true})),
                owner(json!({"controller": true, "name": "q"}))
            ]),
        ),
        at("managedFields", json!([{"operation": "Nope"}])),
        at(
            "managedFields",
            json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
        ),
    ]
}

fn of_metadata(bases: &Bases) -> Vec<Request> {
    let (of, least) = least(bases);
    let mut requests = Vec::new();
    for change in metadata_changes() {
        let name = format!("POST {}", change.name());
        if drawn(bases, &name) {
            let mut object = least.clone();
            change.apply(&mut object);
            let path = format!("{}?dryRun=All", bases.collection());
            let request = Request::new(name, "POST", &path).json(&object);
            requests.push(request.like(Like::Made(of.clone())));
        }
        let name = format!("PUT {}", change.name());
        if bases.kind.has_verb("update") && drawn(bases, &name) {
            let mut object = bases.current();
            change.apply(&mut object);
            let path = stored_path(bases, "?dryRun=All");
            requests.push(Request::new(name, "PUT", &path).json(&object));
        }
    }
    requests
}

fn updates(bases: &Bases) -> Vec<Request> {
    let base = bases.current();
    let with = |path: &str, value: Value| {
        let mut object = base.clone();
        Mutation::at(path, value).apply(&mut object);
        object
    };
    let path = stored_path(bases, "?dryRun=All");
    let put = |name: &str| Request::new(format!("PUT {name}"), "PUT", &path);
    let missing = format!("{}/missing?dryRun=All", bases.collection());
    let mut requests = vec![
        put("as it is").json(&base),
        put("another name").json(&with("metadata name", json!("another"))),
        put("another version").json(&with("apiVersion", json!("v9"))),
        put("another kind").json(&with("kind", json!("Other"))),
        put("an unknown field").json(&with("unknown", json!(1))),
        put("nothing"),
        Request::new("PUT missing", "PUT", &missing).json(&with("metadata name", json!("missing"))),
        Request::new("PUT to the collection", "PUT", &bases.collection()).json(&base),
        Request::new(
            "PUT dryRun=Nope",
            "PUT",
            &stored_path(bases, "?dryRun=Nope"),
        )
        .json(&base),
        Request::new(
            "PUT an unknown field, strictly",
            "PUT",
            &format!("{path}&fieldValidation=Strict"),
        )
        .json(&with("unknown", json!(1))),
    ];
    for one in bases.kind.subresources() {
        if !one.verbs.contains(&"update") {
            let path = stored_path(bases, &format!("/{}?dryRun=All", one.name));
            if !["exec", "attach", "portforward", "proxy", "log"].contains(&one.name) {
                let name = format!("PUT {} where it has no update", one.name);
                requests.push(Request::new(name, "PUT", &path).json(&base));
            }
            continue;
        }
        if one.name == "scale" {
            for replicas in [json!(5), json!(-1), json!("x"), Value::Null] {
                let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                    "metadata": {"name": object::name(&base)}, "spec": {"replicas": replicas}});
                let path = stored_path(bases, "/scale?dryRun=All");
                let name = format!("PUT scale to {replicas}");
                requests.push(Request::new(name, "PUT", &path).json(&scale));
            }
        }
    }
    requests.retain(|request| drawn(bases, &request.name));
    requests
}

fn patches(bases: &Bases) -> Vec<Request> {
    let base = bases.base();
    let path = stored_path(bases, "?dryRun=All");
    let at = |name: &str, path: &str, media_type: &str, body: Value| {
        Request::new(format!("PATCH {name}"), "PATCH", path).body(media_type, body.to_string())
    };
    let patch = |name: &str, media_type: &str, body: Value| at(name, &path, media_type, body);
    let typed = |mut object: Value| {
        object::set_type(&mut object, &bases.kind.api_version(), bases.kind.kind());
        object
    };
    let applied = |query: &str| stored_path(bases, &format!("?dryRun=All{query}"));
    let name = object::name(&base);
    let labelled = typed(json!({"metadata": {"name": name, "labels": {"corpus": "mine"}}}));
    let missing = format!("{}/missing?dryRun=All", bases.collection());
    let new = format!("{}/made?dryRun=All&fieldManager=corpus", bases.collection());
    let mut requests = vec![
        patch("merge nothing", MERGE, json!({})),
        patch(
            "merge a label",
            MERGE,
            json!({"metadata": {"labels": {"a": "b", "corpus": null}}}),
        ),
        patch(
            "merge a name",
            MERGE,
            json!({"metadata": {"name": "another"}}),
        ),
        patch("merge a uid", MERGE, json!({"metadata": {"uid": UID}})),
        patch(
            "merge a version",
            MERGE,
            json!({"metadata": {"resourceVersion": "1"}}),
        ),
        patch("merge an unknown field", MERGE, json!({"unknown": 1})),
        patch("merge a list", MERGE, json!([])),
        patch("merge a kind", MERGE, json!({"kind": "Other"})),
        at("merge by force", &applied("&force=true"), MERGE, json!({})),
        at(
            "merge strictly",
            &applied("&fieldValidation=Strict"),
            MERGE,
            json!({"unknown": 1}),
        ),
        at("merge missing", &missing, MERGE, json!({})),
        patch(
            "json test",
            JSON_PATCH,
            json!([{"op": "test", "path": "/metadata/name", "value": "x"}]),
        ),
        patch(
            "json nope",
            JSON_PATCH,
            json!([{"op": "nope", "path": "/a"}]),
        ),
        patch(
            "json remove",
            JSON_PATCH,
            json!([{"op": "remove", "path": "/missing/x"}]),
        ),
        patch(
            "json copy",
            JSON_PATCH,
            json!([{"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/copy"}]),
        ),
        patch(
            "json move",
            JSON_PATCH,
            json!([{"op": "move", "from": "/metadata/labels/corpus", "path": "/metadata/labels/moved"}]),
        ),
        patch("json object", JSON_PATCH, json!({"op": "add"})),
        patch(
            "strategic delete",
            STRATEGIC,
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
        ),
        patch(
            "strategic replace",
            STRATEGIC,
            json!({"metadata": {"labels": {"$patch": "replace", "a": "b"}}}),
        ),
        patch(
            "strategic nope",
            STRATEGIC,
            json!({"metadata": {"$patch": "nope"}}),
        ),
        patch(
            "strategic finalizers",
            STRATEGIC,
            json!({"metadata": {"finalizers": ["example.com/x"], "$deleteFromPrimitiveList/finalizers": ["example.com/hold"]}}),
        ),
        patch("as text", "text/plain", json!({})),
        patch("as JSON", JSON, json!({})),
        at(
            "apply",
            &applied("&fieldManager=corpus"),
            APPLY,
            labelled.clone(),
        ),
        at(
            "apply by force",
            &applied("&fieldManager=corpus&force=true"),
            APPLY,
            labelled.clone(),
        ),
        at(
            "apply without a manager",
            &applied(""),
            APPLY,
            labelled.clone(),
        ),
        at(
            "apply without a kind",
            &applied("&fieldManager=corpus"),
            APPLY,
            json!({"metadata": {"name": name}}),
        ),
        at(
            "apply another name",
            &applied("&fieldManager=corpus"),
            APPLY,
            typed(json!({"metadata": {"name": "another"}})),
        ),
        at(
            "apply another kind",
            &applied("&fieldManager=corpus"),
            APPLY,
            json!({"apiVersion": "v1", "kind": "Other", "metadata": {"name": name}}),
        ),
        at(
            "apply an unknown field",
            &applied("&fieldManager=corpus"),
            APPLY,
            typed(json!({"metadata": {"name": name}, "unknown": 1})),
        ),
        at(
            "apply managed fields",
            &applied("&fieldManager=corpus"),
            APPLY,
            typed(json!({"metadata": {"name": name, "managedFields": [{"manager": "x"}]}})),
        ),
        at("apply a new object", &new, APPLY, least(bases).1).like(Like::Made(least(bases).0)),
        Request::new(
            "PATCH apply broken YAML",
            "PATCH",
            &applied("&fieldManager=corpus"),
        )
        .body(APPLY, "a: [b"),
        Request::new("PATCH merge broken JSON", "PATCH", &path).body(MERGE, "{\"a\":"),
    ];
    if bases.kind.subresource("status").is_some() {
        let status = stored_path(bases, "/status?dryRun=All");
        let body = json!({"metadata": {"labels": {"a": "b"}}, "status": {}});
        requests.push(at("merge a label through status", &status, MERGE, body));
        requests.push(at(
            "merge an unknown status",
            &status,
            MERGE,
            json!({"status": {"unknown": 1}}),
        ));
    }
    requests.retain(|request| drawn(bases, &request.name));
    requests
}
