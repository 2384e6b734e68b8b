//! What users see first: the format of responses, warnings, and repeated requests.

use etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest};
use serde_json::{Value, json};

use crate::harness::cluster::{Cluster, kubectl_or_skip};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[test]
fn json_is_for_people_where_people_ask() {
    let cluster = Cluster::start();
    cluster.post(MAPS, &map("a")).expect(201);
    let one = format!("{MAPS}/a");
    for path in [&*one, MAPS, "/api/v1/namespaces/default/configmaps/none"] {
        let plain = cluster.get(path).body;
        assert_eq!(plain.last(), Some(&b'\n'), "{path}");
        assert_eq!(
            plain.iter().filter(|byte| **byte == b'\n').count(),
            1,
            "{path}"
        );
    }
    let text = |body: Vec<u8>| String::from_utf8(body).unwrap();
    let plain = text(cluster.get(&one).body);
    let begins = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#;
    assert!(plain.starts_with(begins), "{plain}");
    let begins =
        "{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"";
    let curl = cluster
        .call("GET", &one)
        .header("User-Agent", "curl/8.5.0")
        .send();
    let asked = cluster.get(&format!("{one}?pretty=true"));
    for answer in [curl, asked] {
        assert_eq!(
            answer.object(),
            serde_json::from_str::<Value>(&plain).unwrap()
        );
        let shown = text(answer.body);
        assert!(shown.starts_with(begins), "{shown}");
    }
    let not = cluster.call("GET", &format!("{one}?pretty=0"));
    let not = not.header("User-Agent", "curl/8.5.0").send();
    assert_eq!(text(not.body), plain);
    // Some documents are always for people.
    for (path, begins) in [
        (
            "/version",
            "{\n  \"major\": \"1\",\n  \"minor\": \"36\",\n  \"emulationMajor\"",
        ),
        ("/", "{\n  \"paths\": [\n    \"/"),
    ] {
        let plain = text(cluster.get(path).body);
        assert!(plain.starts_with(begins) && plain.ends_with('}'), "{plain}");
        let asked = cluster.get(&format!("{path}?pretty=1")).body;
        assert_eq!(text(asked), plain);
    }
    // A watch sends one line per event, even with `pretty=true`.
    let path = format!("{MAPS}?watch=1&resourceVersion=0&pretty=true");
    let mut watch = cluster.call("GET", &path).stream();
    assert_eq!(watch.next().unwrap()["type"], "ADDED");
}

/// As Kubernetes answers: the path has one media type, and only its name counts.
#[test]
fn the_version_is_json_or_nothing() {
    let cluster = Cluster::start();
    let accepting = |form: &str| {
        cluster
            .call("GET", "/version")
            .header("Accept", form)
            .send()
    };
    for form in [
        "application/json",
        "*/*",
        "text/html, application/json;q=0.5",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    ] {
        assert_eq!(accepting(form).expect(200)["major"], "1", "{form}");
    }
    let why = "406: Not Acceptable\n\nAvailable representations: application/json";
    for form in ["image/png", "application/*", "text/plain"] {
        let answer = accepting(form);
        answer.refuses(406, "NotAcceptable", why);
        assert_eq!(answer.object()["details"], json!({}));
    }
    let yaml = String::from_utf8(accepting("application/yaml").body).unwrap();
    assert!(yaml.contains("\nreason: NotAcceptable\n"), "{yaml}");
    assert_eq!(accepting("application/vnd.kubernetes.protobuf").code, 406);
}

#[test]
fn a_version_on_a_new_object_is_refused_where_it_would_be_stored() {
    let cluster = Cluster::start();
    let mut object = map("a");
    object["metadata"]["resourceVersion"] = "7".into();
    let why = "resourceVersion should not be set on objects to be created";
    cluster.post(MAPS, &object).refuses(500, "", why);
    let dry = format!("{MAPS}?dryRun=All");
    let shown = cluster.post(&dry, &object).expect(201);
    assert_eq!(shown["metadata"]["resourceVersion"], "7");
    object["metadata"]["name"] = "A_b".into();
    cluster
        .post(MAPS, &object)
        .refuses(422, "Invalid", "metadata.name: Invalid value: \"A_b\"");
    assert_eq!(cluster.get(&format!("{MAPS}/a")).code, 404);
    // What is no number, or 0, counts as none.
    let texts = ["0", "00", "+7", "abc", "18446744073709551616"];
    for (at, text) in texts.iter().enumerate() {
        object["metadata"] = json!({"name": format!("b{at}"), "resourceVersion": text});
        let shown = cluster.post(&dry, &object).expect(201);
        assert_eq!(shown["metadata"]["resourceVersion"], *text);
        let made = cluster.post(MAPS, &object).expect(201);
        let got = cluster.get(&format!("{MAPS}/b{at}")).expect(200);
        assert_eq!(got, made);
        let version = got["metadata"]["resourceVersion"].as_str().unwrap();
        assert!(version.parse::<u64>().unwrap() > 1, "{version}");
    }
}

#[test]
fn a_pod_can_be_sent_again_as_it_was_made() {
    let cluster = Cluster::start();
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
    cluster
        .post("/apis/scheduling.k8s.io/v1/priorityclasses", &class)
        .expect(201);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"priorityClassName": "high", "containers": [{"name": "c", "image": "i"}]}});
    let made = cluster.post(PODS, &pod).expect(201);
    assert_eq!(made["spec"]["priority"], 1000);
    let again = cluster
        .call("PUT", &format!("{PODS}/p"))
        .json(&pod)
        .send()
        .expect(200);
    assert_eq!(again, made);
    let mut other = pod;
    other["spec"]["priority"] = 5.into();
    let told = cluster
        .call("PUT", &format!("{PODS}/p"))
        .json(&other)
        .send();
    assert_eq!(told.code, 422);
}

#[test]
fn what_has_no_effect_is_kept_with_a_warning() {
    let cluster = Cluster::start();
    let group = "/apis/apiregistration.k8s.io/v1/apiservices";
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.example.com"}, "spec": {"group": "example.com", "version": "v1",
        "groupPriorityMinimum": 1000, "versionPriority": 15}});
    let answer = cluster.post(group, &service);
    answer.expect(201);
    let head = answer.head.to_ascii_lowercase();
    for words in [
        "warning: 299 - \"this server keeps",
        "requests are not passed on to it",
    ] {
        assert!(head.contains(words), "{head}");
    }
    let plain = cluster.post(MAPS, &map("a"));
    assert!(!plain.head.to_ascii_lowercase().contains("warning:"));
    let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let path = format!("{group}/v1.example.com");
    let patched = cluster.call("PATCH", &path);
    let patched = patched.body("application/merge-patch+json", label).send();
    assert!(
        patched.head.to_ascii_lowercase().contains("warning: 299"),
        "{}",
        patched.head
    );
}

#[test]
fn kubectl_creates_lists_and_shows_events_without_their_names() {
    if !kubectl_or_skip("kubectl with lists and events") {
        return;
    }
    let cluster = Cluster::start();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("a"), map("b")]});
    let file = cluster.file("list.json", &list.to_string());
    let told = cluster.run(&["create", "-f", &file]);
    assert_eq!(told, "configmap/a created\nconfigmap/b created\n");
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "unsaid"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested", "message": "it was", "type": "Normal"});
    cluster
        .post("/api/v1/namespaces/default/events", &event)
        .expect(201);
    let plain = cluster.run(&["get", "events"]);
    assert!(plain.starts_with("LAST SEEN "), "{plain}");
    assert!(!plain.contains("unsaid"), "{plain}");
    let wide = cluster.run(&["get", "events", "-o", "wide"]);
    assert!(wide.contains("unsaid"), "{wide}");
    assert_eq!(
        cluster.run(&["get", "events", "-o", "name"]),
        "event/unsaid\n"
    );
}

#[test]
fn a_list_does_not_hide_what_it_cannot_read() {
    let cluster = Cluster::start();
    cluster.post(MAPS, &map("a")).expect(201);
    let key = b"/registry/configmaps/default/bad";
    let write = |value: Option<&[u8]>| {
        cluster.in_store(async |client| {
            let key = key.to_vec().into();
            match value {
                Some(value) => {
                    let request = PutRequest {
                        key,
                        value: value.to_vec().into(),
                        ..Default::default()
                    };
                    drop(client.kv().put(request).await.unwrap());
                }
                None => {
                    let request = DeleteRangeRequest {
                        key,
                        ..Default::default()
                    };
                    drop(client.kv().delete_range(request).await.unwrap());
                }
            }
        });
    };
    write(Some(b"no object"));
    for path in [
        MAPS,
        "/api/v1/configmaps",
        "/api/v1/namespaces/default/configmaps/bad",
    ] {
        let told = cluster.get(path).expect(500);
        assert!(
            told["message"]
                .as_str()
                .unwrap()
                .contains("/registry/configmaps/default/bad"),
            "{told}"
        );
    }
    cluster
        .get("/api/v1/namespaces/kube-system/configmaps")
        .expect(200);
    cluster.get(&format!("{MAPS}/a")).expect(200);
    write(None);
    let all = cluster.get(MAPS).expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
}

#[test]
fn an_event_is_found_by_who_reports_it() {
    let cluster = Cluster::start();
    let path = "/api/v1/namespaces/default/events";
    let event = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "Tested", "message": "it was", "type": "Normal"})
    };
    let (mut old, mut new) = (event("old"), event("new"));
    old["source"] = json!({"component": "tester"});
    new["reportingComponent"] = "tester".into();
    new["reportingInstance"] = "one".into();
    new["action"] = "Test".into();
    new["eventTime"] = "2026-01-01T00:00:00.000000Z".into();
    for event in [&old, &new, &event("other")] {
        cluster.post(path, event).expect(201);
    }
    let found = cluster
        .get(&format!("{path}?fieldSelector=source%3Dtester"))
        .expect(200);
    let items = found["items"].as_array().unwrap().iter();
    let names: Vec<&str> = items
        .map(|one| one["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["new", "old"]);
}

#[test]
fn a_review_is_no_table() {
    let cluster = Cluster::start();
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let asked = cluster
        .call("POST", path)
        .header("Accept", table)
        .json(&review)
        .send();
    assert_eq!(asked.code, 406);
}
