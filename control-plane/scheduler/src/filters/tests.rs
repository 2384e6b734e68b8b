use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;
use crate::core::{Core, Decision};
use crate::pod::HostPort;
use crate::tests::{asking, cache, info, node, on, pod};

/// The decision as text when these nodes, with these pods on them, are offered to the pod.
fn said(nodes: &[Node], there: &[Arc<Pod>], pod: &Arc<Pod>) -> String {
    let mut core = Core::new("default-scheduler", 1);
    let now = std::time::Duration::ZERO;
    core.namespace("default", Default::default(), now);
    core.namespace("team", [("team".to_owned(), "a".to_owned())].into(), now);
    nodes.iter().for_each(|node| core.node(node, now));
    there.iter().for_each(|pod| core.pod(pod.clone(), now));
    core.pod(pod.clone(), now);
    match core.next(now) {
        Some(Decision::Bind { node, .. }) => node,
        Some(Decision::Refuse { why, .. }) => {
            let text = why.to_string();
            let remedy = " no new claims to deallocate, preemption: ";
            let before = text.split_once(remedy).map(|(before, _)| before.to_owned());
            before.unwrap_or(text)
        }
        other => panic!("no decision about a node: {other:?}"),
    }
}

fn tainted(name: &str, effect: &str) -> Node {
    node(
        name,
        json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}}),
    )
}

fn labelled(name: &str, labels: Value) -> Node {
    node(name, json!({"metadata": {"labels": labels}}))
}

fn spec(name: &str, spec: Value) -> Arc<Pod> {
    pod(
        name,
        json!({"metadata": {"labels": {"app": name}}, "spec": spec}),
    )
}

#[test]
fn each_filter_says_why_in_kube_schedulers_words() {
    let plain = pod("p", json!({}));
    let port =
        json!({"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]});
    let wants_ssd = spec("p", json!({"nodeSelector": {"disk": "ssd"}}));
    let gpu = json!({"containers": [{"name": "c", "resources": {"requests": {"x.com/gpu": "1"}}}]});
    type Pods = Vec<Arc<Pod>>;
    let cases: [(Node, Pods, Arc<Pod>, &str); 8] = [
        (
            node("a", json!({"spec": {"unschedulable": true}})),
            vec![],
            plain.clone(),
            "1 node(s) were unschedulable",
        ),
        (
            tainted("a", "NoSchedule"),
            vec![],
            plain.clone(),
            "1 node(s) had untolerated taint(s)",
        ),
        (
            tainted("a", "NoExecute"),
            vec![],
            plain.clone(),
            "1 node(s) had untolerated taint(s)",
        ),
        (
            node("a", json!({})),
            vec![],
            wants_ssd,
            "1 node(s) didn't match Pod's node affinity/selector",
        ),
        (
            node("a", json!({})),
            vec![on("a", &spec("q", port.clone()))],
            spec("p", port),
            "1 node(s) didn't have free ports for the requested pod ports",
        ),
        (
            node("a", json!({"status": {"allocatable": {"pods": "1"}}})),
            vec![on("a", &pod("q", json!({})))],
            plain,
            "1 Too many pods",
        ),
        (
            node("a", json!({})),
            vec![],
            asking("p", "5", "9Gi"),
            "1 Insufficient cpu, 1 Insufficient memory",
        ),
        (
            node("a", json!({})),
            vec![],
            spec("p", gpu),
            "1 Insufficient x.com/gpu",
        ),
    ];
    for (node, there, pod, why) in cases {
        let expected = format!("0/1 nodes are available: {why}.");
        assert_eq!(said(&[node], &there, &pod), expected);
    }
}

#[test]
fn a_pod_goes_where_the_features_that_it_needs_are_declared() {
    let declares = |names: Value| node("a", json!({"status": {"declaredFeatures": names}}));
    let exit = json!({"operator": "In", "values": [1]});
    let rule = json!({"action": "RestartAllContainers", "exitCodes": exit});
    let main = json!({"name": "main", "restartPolicy": "Never", "restartPolicyRules": [rule]});
    let restarts = spec("p", json!({"containers": [main]}));
    let refused = "0/1 nodes are available: 1 node(s) didn't match Pod's required features.";
    let all = json!([
        "ExtendWebSocketsToKubelet",
        "RestartAllContainersOnContainerExits"
    ]);
    assert_eq!(said(&[declares(all.clone())], &[], &restarts), "a");
    let other = declares(json!(["ExtendWebSocketsToKubelet"]));
    assert_eq!(said(&[other], &[], &restarts), refused);
    let own_users = spec("p", json!({"hostNetwork": true, "hostUsers": false}));
    assert_eq!(said(&[declares(all)], &[], &own_users), refused);
    let supports = declares(json!(["UserNamespacesHostNetworkSupport"]));
    assert_eq!(said(&[supports], &[], &own_users), "a");
}

#[test]
fn a_pod_refused_for_its_features_is_tried_when_the_node_declares_them() {
    let mut core = Core::new("default-scheduler", 1);
    let now = std::time::Duration::ZERO;
    core.node(&node("a", json!({})), now);
    core.pod(
        spec("p", json!({"hostNetwork": true, "hostUsers": false})),
        now,
    );
    assert!(matches!(core.next(now), Some(Decision::Refuse { .. })));
    let names = json!(["UserNamespacesHostNetworkSupport"]);
    core.node(
        &node("a", json!({"status": {"declaredFeatures": names}})),
        now,
    );
    let later = std::time::Duration::from_secs(60);
    assert!(matches!(core.next(later), Some(Decision::Bind { .. })));
}

#[test]
fn pods_that_name_the_same_disk_share_no_node_unless_they_only_read() {
    let with = |name: &str, source: &Value| {
        let mut volume = source.clone();
        volume["name"] = "v".into();
        spec(name, json!({"volumes": [volume]}))
    };
    let google = |reads: bool| json!({"gcePersistentDisk": {"pdName": "d", "readOnly": reads}});
    let amazon = json!({"awsElasticBlockStore": {"volumeID": "d", "readOnly": true}});
    let iscsi = |lun: i32, reads: bool| json!({"iscsi": {"targetPortal": "t", "iqn": "q", "lun": lun, "readOnly": reads}});
    let ceph = |monitors: Value, pool: &str| json!({"rbd": {"monitors": monitors, "image": "i", "pool": pool}});
    for (one, other, together) in [
        (google(true), google(true), true),
        (google(true), google(false), false),
        (amazon.clone(), amazon.clone(), false),
        (google(false), amazon, true),
        (iscsi(0, false), iscsi(1, true), false),
        (iscsi(0, true), iscsi(0, true), true),
        (ceph(json!(["a", "b"]), "p"), ceph(json!(["b"]), "p"), false),
        (ceph(json!(["a"]), "p"), ceph(json!(["b"]), "p"), true),
        (ceph(json!(["a"]), "p"), ceph(json!(["a"]), "q"), true),
    ] {
        let there = [on("a", &with("q", &one))];
        let found = said(&[node("a", json!({}))], &there, &with("p", &other));
        let expected = if together {
            "a"
        } else {
            "0/1 nodes are available: 1 node(s) had no available disk."
        };
        assert_eq!(found, expected, "{one} {other}");
    }
}

#[test]
fn reasons_of_many_nodes_are_counted_and_sorted_as_text() {
    let mut nodes: Vec<Node> = (0..10)
        .map(|at| tainted(&format!("t{at}"), "NoSchedule"))
        .collect();
    nodes.push(node("a", json!({})));
    nodes.push(node("b", json!({"spec": {"unschedulable": true}})));
    let mut core = Core::new("default-scheduler", 1);
    nodes
        .iter()
        .for_each(|node| core.node(node, Default::default()));
    core.pod(asking("p", "5", "1Gi"), Default::default());
    let Some(Decision::Refuse { why, .. }) = core.next(Default::default()) else {
        panic!("no node takes it");
    };
    // Five processors are more than the node has in total, so preemption would not help.
    assert_eq!(
        why.to_string(),
        "0/12 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, \
         10 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/12 nodes are available: \
         12 Preemption is not helpful for scheduling."
    );
}

#[test]
fn a_pod_that_never_preempts_is_told_so() {
    let node = node("a", json!({"spec": {"unschedulable": true}}));
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node, Default::default());
    core.pod(
        pod("p", json!({"spec": {"preemptionPolicy": "Never"}})),
        Default::default(),
    );
    let Some(Decision::Refuse { why, .. }) = core.next(Default::default()) else {
        panic!("no node takes it");
    };
    let expected = "0/1 nodes are available: 1 node(s) were unschedulable. \
                    no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(why.to_string(), expected);
}

#[test]
fn a_toleration_covers_a_taint_by_key_value_and_effect() {
    let taint: Taint =
        serde_json::from_value(json!({"key": "k", "value": "v", "effect": "NoSchedule"})).unwrap();
    for (toleration, covers) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "k", "operator": "Exists"}), true),
        (
            json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
            false,
        ),
        (json!({"key": "k", "value": "v"}), true),
        (
            json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}),
            true,
        ),
        (
            json!({"key": "k", "operator": "Equal", "value": "w"}),
            false,
        ),
        (json!({"key": "j", "operator": "Exists"}), false),
        (
            json!({"key": "k", "operator": "Sometimes", "value": "v"}),
            false,
        ),
    ] {
        let one: Toleration = serde_json::from_value(toleration.clone()).unwrap();
        assert_eq!(tolerated(&[one], &taint), covers, "{toleration}");
    }
    let cordoned = node("a", json!({"spec": {"unschedulable": true}}));
    let key = "node.kubernetes.io/unschedulable";
    let tolerant = spec(
        "p",
        json!({"tolerations": [{"key": key, "operator": "Exists"}]}),
    );
    assert_eq!(said(&[cordoned], &[], &tolerant), "a");
}

#[test]
fn ports_conflict_by_number_protocol_and_address() {
    let port = |ip: &str, protocol: &str, port| HostPort {
        ip: ip.into(),
        protocol: protocol.into(),
        port,
    };
    let base = port("", "TCP", 80);
    assert!(base.conflicts(&port("10.0.0.1", "TCP", 80)));
    assert!(port("10.0.0.1", "TCP", 80).conflicts(&port("10.0.0.1", "TCP", 80)));
    assert!(!port("10.0.0.2", "TCP", 80).conflicts(&port("10.0.0.1", "TCP", 80)));
    assert!(!base.conflicts(&port("", "UDP", 80)));
    assert!(!base.conflicts(&port("", "TCP", 81)));
}

#[test]
fn pods_bound_to_a_node_by_affinity_look_only_there() {
    let to = |names: Value| {
        let field = json!({"key": "metadata.name", "operator": "In", "values": names});
        spec(
            "p",
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchFields": [field]}]},
            }}}),
        )
    };
    let nodes = [
        node("a", json!({})),
        tainted("b", "NoSchedule"),
        node("c", json!({})),
    ];
    assert_eq!(said(&nodes, &[], &to(json!(["c"]))), "c");
    assert_eq!(
        said(&nodes, &[], &to(json!(["b"]))),
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), \
         2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    );
    let field = |name| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let both = spec(
        "p",
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [field("a"), field("b")]}]},
        }}}),
    );
    let expected = "0/3 nodes are available: pod affinity terms conflict. not found";
    assert_eq!(said(&nodes, &[], &both), expected);
}

fn spread(name: &str, constraint: Value) -> Arc<Pod> {
    let mut constraint = constraint;
    constraint["whenUnsatisfiable"] = "DoNotSchedule".into();
    constraint["topologyKey"] = "zone".into();
    constraint["labelSelector"] = json!({"matchLabels": {"app": "web"}});
    pod(
        name,
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"topologySpreadConstraints": [constraint]},
        }),
    )
}

#[test]
fn spread_keeps_domains_within_the_skew() {
    let zone = |name, zone: &str| labelled(name, json!({"zone": zone}));
    let nodes = [zone("a", "x"), zone("b", "y"), node("c", json!({}))];
    let web = |name| spread(name, json!({"maxSkew": 1}));
    let there = [on("a", &web("1"))];
    assert_eq!(
        said(&nodes, &there, &web("p")),
        "b",
        "x has one more already"
    );
    let cordoned = node(
        "b",
        json!({
            "metadata": {"labels": {"zone": "y"}}, "spec": {"unschedulable": true},
        }),
    );
    let nodes = [zone("a", "x"), cordoned, node("c", json!({}))];
    assert_eq!(
        said(&nodes, &there, &web("p")),
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, \
         1 node(s) didn't match pod topology spread constraints (missing required label), \
         1 node(s) were unschedulable."
    );
    let two = spread("p", json!({"maxSkew": 2}));
    assert_eq!(said(&nodes, &there, &two), "a");
    // With fewer domains than `minDomains`, the emptiest counts as empty.
    let only_x = [zone("a", "x")];
    assert_eq!(said(&only_x, &there, &web("p")), "a");
    let at_least_two = spread("p", json!({"maxSkew": 1, "minDomains": 2}));
    let refused = said(&only_x, &there, &at_least_two);
    assert!(
        refused.contains("1 node(s) didn't match pod topology spread"),
        "{refused}"
    );
}

#[test]
fn spread_counts_nodes_by_its_policies() {
    let tainted_y = node(
        "b",
        json!({
            "metadata": {"labels": {"zone": "y"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        }),
    );
    let nodes = [labelled("a", json!({"zone": "x"})), tainted_y];
    let there = [on("a", &spread("1", json!({"maxSkew": 1})))];
    let ignoring = spread("p", json!({"maxSkew": 1}));
    assert!(said(&nodes, &there, &ignoring).contains("topology spread"));
    let honoring = spread("p", json!({"maxSkew": 1, "nodeTaintsPolicy": "Honor"}));
    assert_eq!(said(&nodes, &there, &honoring), "a");
}

fn near(kind: &str, app: &str, extra: Value) -> Value {
    let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}});
    for (key, value) in extra.as_object().unwrap() {
        term[key] = value.clone();
    }
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[test]
fn affinity_to_pods_holds_by_domain_and_lets_the_first_of_a_kind_in() {
    let zone = |name, zone: &str| labelled(name, json!({"zone": zone}));
    let nodes = [zone("a", "x"), zone("b", "y")];
    let db = on("b", &spec("db", json!({})));
    let near_db = spec("web", near("podAffinity", "db", json!({})));
    assert_eq!(said(&nodes, std::slice::from_ref(&db), &near_db), "b");
    let expected = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.";
    assert_eq!(said(&nodes, &[], &near_db), expected);
    let near_own = spec("web", near("podAffinity", "web", json!({})));
    assert_eq!(said(&nodes[..1], &[], &near_own), "a");

    let far_from_db = spec("web", near("podAntiAffinity", "db", json!({})));
    assert_eq!(said(&nodes, std::slice::from_ref(&db), &far_from_db), "a");
    let expected = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.";
    assert_eq!(said(&nodes[1..], &[db], &far_from_db), expected);
    let hermit = on(
        "a",
        &spec("hermit", near("podAntiAffinity", "web", json!({}))),
    );
    let web = spec("web", json!({}));
    assert_eq!(said(&nodes, std::slice::from_ref(&hermit), &web), "b");
    assert_eq!(
        said(&nodes[..1], &[hermit], &web),
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    );
}

#[test]
fn affinity_to_pods_of_other_namespaces_must_name_them() {
    let nodes = [labelled("a", json!({"zone": "x"}))];
    let mut db = Pod::clone(&on("a", &spec("db", json!({}))));
    db.metadata.namespace = Some("team".into());
    let db = [Arc::new(db)];
    let web = |extra| spec("web", near("podAffinity", "db", extra));
    assert!(said(&nodes, &db, &web(json!({}))).contains("pod affinity rules"));
    assert_eq!(
        said(&nodes, &db, &web(json!({"namespaces": ["team"]}))),
        "a"
    );
    let by_labels = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
    assert_eq!(said(&nodes, &db, &web(by_labels)), "a");
    assert_eq!(
        said(&nodes, &db, &web(json!({"namespaceSelector": {}}))),
        "a"
    );
    let wrong = json!({"namespaceSelector": {"matchLabels": {"team": "b"}}});
    assert!(said(&nodes, &db, &web(wrong)).contains("pod affinity rules"));
}

#[test]
fn pods_that_end_or_are_elsewhere_do_not_count_for_spread() {
    let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let mut ended = serde_json::to_value(&*spread("1", json!({"maxSkew": 1}))).unwrap();
    ended = machinery::patch::merge(&ended, &ending);
    let ended: Arc<Pod> = Arc::new(serde_json::from_value(ended).unwrap());
    let nodes = [
        labelled("a", json!({"zone": "x"})),
        labelled("b", json!({"zone": "y"})),
    ];
    let cache = cache(&nodes, &[on("a", &ended)]);
    let pod = info(&spread("p", json!({"maxSkew": 1})));
    let prepared = Prepared::new(&cache, &pod, Needs::default());
    let a = cache.node("a").unwrap();
    assert_eq!(prepared.check(&Claims::default(), &pod, a), Ok(()));
}
