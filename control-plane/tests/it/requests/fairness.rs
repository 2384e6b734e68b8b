//! Priority and fairness: one user's load delays neither other users nor what keeps the cluster
//! alive.

use std::io::Read as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::harness::cluster::WITHIN;
use crate::requests::http::{Answer, Call};
use crate::requests::overload::begin;
use crate::users::security::Guarded;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Few seats, of which one user gets at most 14: one is the floor of the level, 13 are in the pool.
const FEW: [&str; 2] = [
    "--max-requests-inflight=14",
    "--max-mutating-requests-inflight=6",
];
const SEATS: usize = 14;
/// Twenty times as many requests as there are seats for them; as many fit into the queues.
const LOAD: usize = 20 * SEATS;

/// What the server is asked for that takes seconds: a state that is never reached.
fn future() -> String {
    format!("GET {MAPS}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan")
}

fn header(answer: &Answer, name: &str) -> String {
    let lines = answer.head.lines();
    let found = lines.filter_map(|line| line.split_once(": "));
    let mut found = found.filter(|(one, _)| one.eq_ignore_ascii_case(name));
    found
        .next()
        .map(|(_, value)| value.to_owned())
        .unwrap_or_default()
}

fn schema_of(answer: &Answer) -> String {
    header(answer, "X-Kubernetes-PF-FlowSchema-UID")
}

fn uid(cluster: &Guarded, plural: &str, name: &str) -> String {
    let object = cluster.ask("root", "GET", &format!("{GROUP}/{plural}/{name}"), None);
    object.expect(200)["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WITHIN, "waited in vain until {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// How many of these requests have an answer already.
fn answered(streams: &mut [TcpStream]) -> usize {
    let has_answer = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0; 1]), Ok(1))
    };
    streams
        .iter_mut()
        .filter_map(|stream| has_answer(stream).then_some(()))
        .count()
}

fn metrics(cluster: &Guarded) -> String {
    let answer = cluster.ask("root", "GET", "/metrics", None);
    String::from_utf8(answer.body).unwrap()
}

/// A request of jane waits in its queue.
fn waiting(cluster: &Guarded) -> usize {
    let name = "apiserver_flowcontrol_current_inqueue_requests";
    let labels = "flow_schema=\"global-default\",priority_level=\"global-default\"";
    let (text, line) = (metrics(cluster), format!("{name}{{{labels}}} "));
    let found = text.lines().find_map(|one| one.strip_prefix(&line));
    found.map_or(0, |value| value.parse().unwrap())
}

#[test]
fn a_noisy_user_delays_nobody_else() {
    let cluster = Guarded::start_with(&FEW);
    let rule = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    cluster.allow("everything", rule);
    let mut noisy: Vec<_> = (0..LOAD).map(|_| begin(&cluster, &future(), "")).collect();
    until("most of the load waits", || waiting(&cluster) >= LOAD / 2);
    // These have their own levels, so they need not wait for any of the load.
    for (who, path, schema) in [
        ("root", MAPS.to_owned(), "exempt"),
        ("joe", "/livez".to_owned(), "probes"),
        ("scheduler", format!("{LEASES}/x"), "system-leader-election"),
        ("node", format!("{LEASES}/x"), "system-node-high"),
        ("node", MAPS.to_owned(), "system-nodes"),
    ] {
        let answer = cluster.ask(who, "GET", &path, None);
        assert_ne!(answer.code, 429, "{who} {path}");
        assert_eq!(
            schema_of(&answer),
            uid(&cluster, "flowschemas", schema),
            "{who} {path}"
        );
    }
    // This one is in the level of the load, and is served before nearly all of it.
    let earlier = answered(&mut noisy);
    let answer = cluster.ask("joe", "GET", "/version", None);
    answer.expect(200);
    assert_eq!(
        schema_of(&answer),
        uid(&cluster, "flowschemas", "global-default")
    );
    let before = answered(&mut noisy) - earlier;
    assert!(before <= 3 * SEATS, "{before} of {LOAD} came first");
    // Those who go leave no place behind.
    drop(noisy);
    until("nobody waits", || waiting(&cluster) == 0);
}

#[test]
fn load_beyond_the_queues_is_refused() {
    let cluster = Guarded::start_with(&FEW);
    cluster.allow(
        "maps",
        json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]),
    );
    let noisy: Vec<_> = (0..LOAD + 6 * 50)
        .map(|_| begin(&cluster, &future(), ""))
        .collect();
    let name = "apiserver_flowcontrol_rejected_requests_total";
    let line = format!(
        "{name}{{flow_schema=\"global-default\",priority_level=\"global-default\",reason=\"queue-full\"}}"
    );
    until("the queues are full", || metrics(&cluster).contains(&line));
    let answer = cluster.ask("jane", "GET", MAPS, None);
    answer.refuses(
        429,
        "TooManyRequests",
        "Too many requests, please try again later.",
    );
    assert_eq!(header(&answer, "Retry-After"), "1");
    let level = header(&answer, "X-Kubernetes-PF-PriorityLevel-UID");
    assert_eq!(
        level,
        uid(&cluster, "prioritylevelconfigurations", "global-default")
    );
    drop(noisy);
}

#[test]
fn built_in_objects_exist_and_come_back() {
    let cluster = Guarded::start();
    let root = |method: &str, path: &str, object: Option<&Value>| {
        cluster.ask("root", method, &format!("{GROUP}{path}"), object)
    };
    let names = |plural: &str| -> Vec<String> {
        let list = root("GET", plural, None).expect(200);
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let levels = "catch-all exempt global-default leader-election node-high system workload-high workload-low";
    assert_eq!(names("/prioritylevelconfigurations").join(" "), levels);
    assert_eq!(names("/flowschemas").len(), 11);
    for name in ["catch-all", "probes"] {
        let path = format!("/flowschemas/{name}");
        let before = uid(&cluster, "flowschemas", name);
        root("DELETE", &path, None).expect(200);
        until("the schema is back", || {
            let answer = root("GET", &path, None);
            answer.code == 200 && answer.object()["metadata"]["uid"] != before.as_str()
        });
    }
    let mut changed = root("GET", "/flowschemas/exempt", None).expect(200);
    changed["spec"]["matchingPrecedence"] = 7.into();
    let answer = root("PUT", "/flowschemas/exempt", Some(&changed));
    answer.refuses(
        422,
        "Invalid",
        "spec of 'exempt' must equal the fixed value",
    );

    let table = |plural: &str| {
        let call = Call::new(&cluster.address, "GET", &format!("{GROUP}/{plural}"));
        let call = call.header("Authorization", "Bearer root-token");
        let call = call.header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table = call.send().expect(200);
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        let columns: Vec<_> = columns
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect();
        let rows = table["rows"].as_array().unwrap().clone();
        let row = rows
            .into_iter()
            .find(|row| row["cells"][0] == "global-default");
        (columns.join(" "), row.unwrap()["cells"].clone())
    };
    let (columns, mut cells) = table("flowschemas");
    assert_eq!(
        columns,
        "Name PriorityLevel MatchingPrecedence DistinguisherMethod Age MissingPL"
    );
    until("the status is written", || {
        table("flowschemas").1[5] == "False"
    });
    cells[4] = "".into();
    cells[5] = "".into();
    assert_eq!(
        cells,
        json!(["global-default", "global-default", 9900, "ByUser", "", ""])
    );
    let (columns, mut cells) = table("prioritylevelconfigurations");
    assert_eq!(
        columns,
        "Name Type NominalConcurrencyShares Queues HandSize QueueLengthLimit Age"
    );
    cells[6] = "".into();
    assert_eq!(
        cells,
        json!(["global-default", "Limited", 20, 128, 6, 50, ""])
    );
}

#[test]
fn a_new_schema_takes_the_next_request() {
    let cluster = Guarded::start();
    let version = "flowcontrol.apiserver.k8s.io/v1";
    let path = format!("{GROUP}/flowschemas");
    let schema = json!({"apiVersion": version, "kind": "FlowSchema", "metadata": {"name": "of-jane"},
        "spec": {"matchingPrecedence": 50, "priorityLevelConfiguration": {"name": "of-jane"},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": "jane"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}});
    let made = cluster
        .ask("root", "POST", &path, Some(&schema))
        .expect(201);
    // Without its level it takes none.
    let condition = || {
        let found = cluster
            .ask("root", "GET", &format!("{path}/of-jane"), None)
            .expect(200);
        found["status"]["conditions"][0]["status"].clone()
    };
    until("the schema is said to be dangling", || {
        condition() == "True"
    });
    let jane = || cluster.ask("jane", "GET", "/version", None);
    assert_eq!(
        schema_of(&jane()),
        uid(&cluster, "flowschemas", "global-default")
    );
    let level = json!({"apiVersion": version, "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "of-jane"}, "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}}});
    let levels = format!("{GROUP}/prioritylevelconfigurations");
    cluster
        .ask("root", "POST", &levels, Some(&level))
        .expect(201);
    assert_eq!(
        schema_of(&jane()),
        made["metadata"]["uid"].as_str().unwrap()
    );
    until("the schema has its level", || condition() == "False");
    let text = metrics(&cluster);
    let labels = "flow_schema=\"of-jane\",priority_level=\"of-jane\"";
    let dispatched = format!("apiserver_flowcontrol_dispatched_requests_total{{{labels}}} 1");
    assert!(text.contains(&dispatched), "{text}");
    let limit = "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"of-jane\"} 12";
    assert!(text.contains(limit), "{text}");
    let waits = "apiserver_flowcontrol_request_wait_duration_seconds_count{execute=\"true\",";
    assert!(text.contains(&format!("{waits}{labels}}} 1")), "{text}");
    let debug = "/debug/api_priority_and_fairness/dump_priority_levels";
    let dump = cluster.ask("root", "GET", debug, None);
    let dump = String::from_utf8(dump.body).unwrap();
    assert!(
        dump.lines().any(|line| line.starts_with("of-jane,")),
        "{dump}"
    );
}

#[test]
fn without_priority_and_fairness_requests_are_counted_only() {
    let cluster = Guarded::start_with(&[
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=3",
    ]);
    cluster.allow(
        "maps",
        json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]),
    );
    let noisy: Vec<_> = (0..10).map(|_| begin(&cluster, &future(), "")).collect();
    until("the slots are taken", || {
        metrics(&cluster)
            .contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 4")
    });
    let answer = cluster.ask("jane", "GET", MAPS, None);
    answer.refuses(429, "TooManyRequests", "too many requests");
    assert_eq!(schema_of(&answer), "");
    drop(noisy);
}
