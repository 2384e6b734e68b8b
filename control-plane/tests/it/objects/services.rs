//! Node ports of services: which are drawn, claimed, kept and given up.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use apiserver::auth::authorize::{Mode, Modes};
use apiserver::setup::Configured;
use apiserver::{Config, Server};
use axum::body::Body;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use http::Request;
use machinery::protobuf;
use serde_json::{Value, json};
use testkit::Launch;
use tower::ServiceExt as _;

use crate::harness::cluster::{BINARY, Cluster, WITHIN, apiserver};
use crate::requests::http::{Answer, Call};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn ports(service: &Value) -> Vec<i64> {
    let ports = service["spec"]["ports"].as_array().unwrap();
    let ports = ports.iter().map(|port| port["nodePort"].as_i64());
    ports.map(Option::unwrap_or_default).collect()
}

/// Replaces the specification of a service.
fn put(cluster: &Cluster, name: &str, spec: Value) -> Answer {
    let call = cluster.call("PUT", &format!("{SERVICES}/{name}"));
    call.json(&service(name, spec)).send()
}

#[test]
fn addresses_come_from_every_range_that_is_ready() {
    const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
    let cluster = Cluster::start();
    let first = cluster.get(&format!("{RANGES}/kubernetes")).expect(200);
    let ready = &first["status"]["conditions"][0];
    assert_eq!([&ready["type"], &ready["status"]], ["Ready", "True"]);

    let spec = |address: &str| json!({"clusterIP": address, "ports": [{"port": 80}]});
    let outside = cluster.post(SERVICES, &service("a", spec("10.200.0.10")));
    outside.expect(422);
    let range = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "second"}, "spec": {"cidrs": ["10.200.0.0/24"]},
    });
    cluster.post(RANGES, &range).expect(201);
    let inside = cluster.post(SERVICES, &service("a", spec("10.200.0.10")));
    assert_eq!(inside.expect(201)["spec"]["clusterIP"], "10.200.0.10");

    // A control loop says that it must not be used any more.
    let refused = json!({"status": {"conditions": [{
        "type": "Ready", "status": "False", "reason": "Terminating", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let status = cluster.call("PATCH", &format!("{RANGES}/second/status"));
    let status = status.body("application/merge-patch+json", refused.to_string());
    status.send().expect(200);
    cluster
        .post(SERVICES, &service("b", spec("10.200.0.11")))
        .expect(422);
}

/// A cluster of one family gets a second one at a restart: services get addresses of it only when they
/// ask for them.
#[test]
fn a_cluster_gets_a_second_family() {
    const BOTH: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10::/112";
    const RANGE: &str = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
    let cluster = Cluster::start();
    let spec = |policy: &str| json!({"ipFamilyPolicy": policy, "ports": [{"port": 80}]});
    let refused = cluster.post(SERVICES, &service("a", spec("RequireDualStack")));
    refused.refuses(422, "Invalid", "not configured for dual-stack services");
    let made = cluster.post(SERVICES, &service("a", spec("PreferDualStack")));
    let made = made.expect(201)["spec"].clone();
    assert_eq!(made["ipFamilies"], json!(["IPv4"]));

    let (mut second, address) = apiserver(&cluster.store.url(), &[BOTH]);
    let call = |method: &str, path: &str| Call::new(&address, method, path);
    let range = call("GET", RANGE).send().expect(200);
    let wanted = json!(["10.96.0.0/16", "fd00:10::/112"]);
    assert_eq!(range["spec"]["cidrs"], wanted);
    let path = format!("{SERVICES}/a");
    let put = |policy| call("PUT", &path).json(&service("a", spec(policy))).send();
    // Without families it asks for those that there are.
    let same = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let same = call("PATCH", &path).body("application/merge-patch+json", same);
    assert_eq!(
        same.send().expect(200)["spec"]["ipFamilies"],
        json!(["IPv4"])
    );
    let upgraded = put("RequireDualStack").expect(200)["spec"].clone();
    assert_eq!(upgraded["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(upgraded["clusterIPs"][0], made["clusterIP"]);
    let six = upgraded["clusterIPs"][1].as_str().unwrap().to_owned();
    assert!(six.starts_with("fd00:10::"), "{upgraded}");
    let held = format!("{ADDRESSES}/{six}");
    let reserved = call("GET", &held).send().expect(200);
    let family = &reserved["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"];
    assert_eq!(family, "IPv6");

    // The next start repairs a reservation that is lost.
    call("DELETE", &held).send().expect(200);
    second.kill().unwrap();
    second.wait().unwrap();
    let (mut third, address) = apiserver(&cluster.store.url(), &[BOTH]);
    let call = |method: &str, path: &str| Call::new(&address, method, path);
    let repaired = call("GET", &held).send().expect(200);
    assert_eq!(repaired["spec"]["parentRef"]["name"], "a");
    let single = service("a", spec("SingleStack"));
    let downgraded = call("PUT", &path).json(&single).send().expect(200);
    assert_eq!(downgraded["spec"]["clusterIPs"], json!([made["clusterIP"]]));
    assert_eq!(call("GET", &held).send().code, 404);
    third.kill().unwrap();
    third.wait().unwrap();
}

#[test]
fn every_address_of_a_small_range_is_given_out() {
    const RANGES: &str = "--service-cluster-ip-range=10.97.0.0/29,fd00:10::/125";
    let launch = Launch::program(BINARY).subcommand("store");
    let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let (mut server, address) = apiserver(&store.url(), &[RANGES]);
    let call = |method: &str, path: &str| Call::new(&address, method, path);
    let create = |name: &str| {
        let spec = json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"],
            "ports": [{"port": 80}]});
        call("POST", SERVICES).json(&service(name, spec)).send()
    };
    let held = || {
        let all = call("GET", "/apis/networking.k8s.io/v1/ipaddresses").send();
        all.expect(200)["items"].as_array().unwrap().len()
    };
    // One of the six belongs to this server.
    for name in ["a", "b", "c", "d", "e"] {
        create(name).expect(201);
    }
    assert_eq!(held(), 11);
    let why = "failed to allocate a serviceIP for Service \"f\": range is full";
    create("f").refuses(500, "InternalError", why);
    assert_eq!(
        held(),
        11,
        "the first one of the last service is given back"
    );
    call("DELETE", &format!("{SERVICES}/c")).send().expect(200);
    create("f").expect(201);
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn one_node_port_serves_two_protocols() {
    let cluster = Cluster::start();
    let dns = json!([
        {"name": "udp", "port": 53, "protocol": "UDP", "nodePort": 30_053},
        {"name": "tcp", "port": 53, "protocol": "TCP", "nodePort": 30_053},
    ]);
    let spec = json!({"type": "NodePort", "ports": dns});
    let made = cluster.post(SERVICES, &service("a", spec.clone()));
    assert_eq!(ports(&made.expect(201)), [30_053, 30_053]);
    let updated = put(&cluster, "a", spec).expect(200);
    assert_eq!(ports(&updated), [30_053, 30_053]);
    // One number is drawn for both, and one that is named counts for the other.
    let drawn = json!({"type": "NodePort", "ports": [
        {"name": "udp", "port": 53, "protocol": "UDP"},
        {"name": "tcp", "port": 53, "protocol": "TCP"},
        {"name": "web", "port": 80},
        {"name": "log", "port": 514, "protocol": "UDP"},
        {"name": "logs", "port": 514, "protocol": "TCP", "nodePort": 30_514},
    ]});
    let drawn = cluster.post(SERVICES, &service("b", drawn)).expect(201);
    let [udp, tcp, web, log, logs] = ports(&drawn)[..] else {
        panic!("{drawn}")
    };
    assert!(udp == tcp && udp != web && udp != 30_053, "{drawn}");
    assert_eq!([log, logs], [30_514, 30_514]);
}

#[test]
fn a_balancer_without_node_ports_keeps_those_that_it_names() {
    let cluster = Cluster::start();
    let spec = |port: i64| {
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [
            {"name": "a", "port": 80, "nodePort": port},
            {"name": "b", "port": 81},
        ]})
    };
    let made = cluster.post(SERVICES, &service("a", spec(30_001)));
    assert_eq!(ports(&made.expect(201)), [30_001, 0]);
    let labelled = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let patch = |body: String| {
        let call = cluster.call("PATCH", &format!("{SERVICES}/a"));
        call.body("application/merge-patch+json", body).send()
    };
    assert_eq!(ports(&patch(labelled).expect(200)), [30_001, 0]);
    // What it names is claimed like any other.
    let taken = cluster.post(SERVICES, &service("b", spec(30_001)));
    taken.refuses(422, "Invalid", "provided port is already allocated");
    let outside = cluster.post(SERVICES, &service("b", spec(80)));
    outside.refuses(422, "Invalid", "provided port is not in the valid range");
    // A balancer that ends to want node ports keeps what it has.
    let wants = json!({"type": "LoadBalancer", "ports": [{"port": 80}]});
    let wants = cluster.post(SERVICES, &service("c", wants)).expect(201);
    let declines = json!({"spec": {"allocateLoadBalancerNodePorts": false}}).to_string();
    let call = cluster.call("PATCH", &format!("{SERVICES}/c"));
    let declined = call.body("application/merge-patch+json", declines).send();
    assert_eq!(ports(&declined.expect(200)), ports(&wants));
}

#[test]
fn a_health_check_port_is_claimed_like_a_node_port() {
    let cluster = Cluster::start();
    let balancer = |own: i64, health: i64| {
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": health, "ports": [{"port": 80, "nodePort": own}]})
    };
    let made = cluster.post(SERVICES, &service("a", balancer(30_001, 30_002)));
    let made = made.expect(201);
    assert_eq!(made["spec"]["healthCheckNodePort"], 30_002);
    let claimed = "failed to allocate requested HealthCheck NodePort";
    for (own, health) in [
        (30_003, 30_001),
        (30_003, 30_002),
        (30_003, 80),
        (30_003, 30_003),
    ] {
        let refused = cluster.post(SERVICES, &service("b", balancer(own, health)));
        refused.refuses(500, "InternalError", claimed);
    }
    let other = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_002}]});
    let other = cluster.post(SERVICES, &service("b", other));
    other.refuses(422, "Invalid", "provided port is already allocated");
    // What was refused holds nothing.
    let made = cluster.post(SERVICES, &service("b", balancer(30_003, 30_004)));
    made.expect(201);
}

#[test]
fn an_update_keeps_node_ports_by_the_names_of_their_ports() {
    let cluster = Cluster::start();
    let node_port = |ports: Value| json!({"type": "NodePort", "ports": ports});
    let made = node_port(json!([{"port": 80, "nodePort": 30_001}]));
    cluster.post(SERVICES, &service("a", made)).expect(201);
    let moved = put(&cluster, "a", node_port(json!([{"port": 8080}])));
    assert_eq!(ports(&moved.expect(200)), [30_001]);
    // A node port that another port names now is not kept.
    let given = node_port(json!([
        {"name": "other", "port": 81, "nodePort": 30_001},
        {"name": "web", "port": 80},
    ]));
    let given = ports(&put(&cluster, "a", given).expect(200));
    assert!(
        given[0] == 30_001 && given[1] > 30_000 && given[1] != 30_001,
        "{given:?}"
    );
    // Two ports may exchange what they have.
    let exchanged = node_port(json!([
        {"name": "other", "port": 81, "nodePort": given[1]},
        {"name": "web", "port": 80, "nodePort": given[0]},
    ]));
    let exchanged = put(&cluster, "a", exchanged).expect(200);
    assert_eq!(ports(&exchanged), [given[1], given[0]]);
}

#[test]
fn a_service_that_is_not_written_holds_nothing() {
    let cluster = Cluster::start();
    let spec = |port: i64| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let mut versioned = service("a", spec(30_001));
    versioned["metadata"]["resourceVersion"] = "7".into();
    let refused = cluster.post(SERVICES, &versioned);
    refused.refuses(500, "", "resourceVersion should not be set");
    let addresses = cluster.get("/apis/networking.k8s.io/v1/ipaddresses");
    let addresses = addresses.expect(200)["items"].clone();
    let held = |address: &&Value| address["spec"]["parentRef"]["name"] == "a";
    assert_eq!(addresses.as_array().unwrap().iter().find(held), None);
    cluster
        .post(SERVICES, &service("b", spec(30_001)))
        .expect(201);
    // A dry run that is refused has chosen its ports.
    let dry = format!("{SERVICES}?dryRun=All");
    let exists = cluster.post(&dry, &service("b", spec(30_002)));
    exists.refuses(409, "AlreadyExists", "already exists");
    cluster
        .post(SERVICES, &service("c", spec(30_002)))
        .expect(201);
}

#[test]
fn an_update_that_is_refused_gives_its_address_back() {
    let cluster = Cluster::start();
    let outside = json!({"type": "ExternalName", "externalName": "a.example.com"});
    cluster.post(SERVICES, &service("a", outside)).expect(201);
    let held = "/apis/networking.k8s.io/v1/ipaddresses/10.96.7.9";
    let inside = |port: i64| json!({"clusterIP": "10.96.7.9", "ports": [{"port": port}]});
    let refused = put(&cluster, "a", inside(0));
    refused.refuses(422, "Invalid", "must be between 1 and 65535");
    assert_eq!(cluster.get(held).code, 404);
    put(&cluster, "a", inside(80)).expect(200);
    let parent = &cluster.get(held).expect(200)["spec"]["parentRef"];
    assert_eq!([&parent["resource"], &parent["name"]], ["services", "a"]);
}

#[test]
fn two_apiservers_give_no_port_to_two_services() {
    const ROUNDS: i64 = 30;
    let cluster = Cluster::start();
    let (mut second, second_address) = apiserver(&cluster.store.url(), &[]);
    let addresses = [cluster.address.clone(), second_address];
    let node_port = |named: Option<i64>| {
        let mut port = json!({"port": 80});
        if let Some(named) = named {
            port["nodePort"] = named.into();
        }
        json!({"type": "NodePort", "ports": [port]})
    };
    let together = Barrier::new(addresses.len());
    // Both servers are asked for the same port at once, and then to draw one.
    let ask = |at: usize| {
        let mut named = Vec::new();
        let mut drawn = Vec::new();
        for round in 0..ROUNDS {
            let create = |name: &str, spec: Value| {
                let call = Call::new(&addresses[at], "POST", SERVICES);
                call.json(&service(&format!("{name}-{round}-{at}"), spec))
                    .send()
            };
            together.wait();
            let answer = create("named", node_port(Some(30_000 + round)));
            if answer.code == 201 {
                named.push(30_000 + round);
            } else {
                answer.refuses(422, "Invalid", "provided port is already allocated");
            }
            drawn.extend(ports(&create("drawn", node_port(None)).expect(201)));
        }
        (named, drawn)
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| ask(1));
        (ask(0), other.join().unwrap())
    });
    let mut named = [one.0, other.0].concat();
    named.sort_unstable();
    assert_eq!(named, Vec::from_iter(30_000..30_000 + ROUNDS));
    let drawn = [one.1, other.1].concat();
    let different: BTreeSet<&i64> = drawn.iter().collect();
    assert_eq!(different.len(), drawn.len(), "{drawn:?}");

    // What one server has given back, the other one gives out.
    let all = Call::new(&addresses[0], "DELETE", SERVICES).send();
    assert_eq!(all.code, 200, "{}", String::from_utf8_lossy(&all.body));
    let call = Call::new(&addresses[1], "POST", SERVICES);
    let again = call.json(&service("again", node_port(Some(30_000)))).send();
    assert_eq!(ports(&again.expect(201)), [30_000]);
    let kept = cluster.in_store(async |client| {
        let request = RangeRequest {
            key: b"/registry/ranges/servicenodeports".to_vec().into(),
            ..Default::default()
        };
        let found = client.kv().range(request).await.unwrap().into_inner();
        protobuf::decode(&found.kvs[0].value).unwrap()
    });
    // As Kubernetes writes it, so that its own apiserver can share the store.
    assert_eq!(
        [&kept["kind"], &kept["range"]],
        ["RangeAllocation", "30000-32767"]
    );
    assert_eq!(kept["data"], "AQ==", "only the first port is taken");
    second.kill().unwrap();
    second.wait().unwrap();
}

/// A range that cannot be made keeps services from getting addresses, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn roles_and_flow_control_do_not_wait_for_the_range_of_services() {
    let launch = Launch::program(BINARY).subcommand("store");
    let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let client = etcd_api::Client::connect(store.url()).await.unwrap();
    let damaged = PutRequest {
        key: b"/registry/servicecidrs/kubernetes".to_vec().into(),
        value: b"no object".to_vec().into(),
        ..Default::default()
    };
    client.kv().put(damaged).await.unwrap();
    let config = Config {
        authorizer: Arc::new(Modes::new(&[Configured::Builtin(Mode::Rbac)]).unwrap()),
        ..Config::default()
    };
    let server = Server::new(client, config);
    let begun = Instant::now();
    for path in [
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/probes",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin",
    ] {
        let get = || Request::get(path).body(Body::empty()).unwrap();
        while server.router().oneshot(get()).await.unwrap().status() != 200 {
            assert!(begun.elapsed() < WITHIN, "{path}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[test]
fn an_address_is_never_that_of_two_services() {
    const ROUNDS: usize = 30;
    let cluster = Cluster::start();
    let spec = json!({"clusterIP": "10.96.7.9", "ports": [{"port": 80}]});
    let made = service("a", spec);
    cluster.post(SERVICES, &made).expect(201);
    // As in Kubernetes, the address says so before the name does.
    let again = cluster.post(SERVICES, &made);
    again.refuses(422, "Invalid", "provided IP is already allocated");
    let held = "/apis/networking.k8s.io/v1/ipaddresses/10.96.7.9";
    let path = format!("{SERVICES}/a");
    for _ in 0..ROUNDS {
        // It is created again while the old one gives back what it had.
        std::thread::scope(|scope| {
            let deleted = scope.spawn(|| cluster.call("DELETE", &path).send().expect(200));
            while cluster.post(SERVICES, &made).code != 201 {}
            deleted.join().unwrap();
        });
        assert_eq!(cluster.get(held).code, 200, "its address is free");
    }
}
