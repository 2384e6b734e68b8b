use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;
use crate::affinity::Labels;
use crate::tests::{asking, cache, info, node, on, pod};

fn one_node(
    node: Node,
    there: &[Arc<Pod>],
    pod: &Arc<Pod>,
    of: fn(&PodInfo, &NodeInfo) -> i64,
) -> i64 {
    let name = node.metadata.name.clone().unwrap();
    let cache = cache(&[node], there);
    of(&info(pod), cache.node(&name).unwrap())
}

#[test]
fn least_allocated_is_the_mean_share_that_is_left() {
    // 4 processors and 8 GiB: (4-1)/4 = 75 and (8-4)/8 = 50.
    let a = || node("a", json!({}));
    assert_eq!(
        one_node(a(), &[], &asking("p", "1", "4Gi"), least_allocated),
        62
    );
    // With 1 and 2 GiB there: (4-2)/4 = 50 and (8-6)/8 = 25.
    let there = [on("a", &asking("q", "1", "2Gi"))];
    assert_eq!(
        one_node(a(), &there, &asking("p", "1", "4Gi"), least_allocated),
        37
    );
    // A container without requests counts 100m and 200 MiB: 97 (97.5) and 97 (97.6).
    assert_eq!(
        one_node(a(), &[], &pod("p", json!({})), least_allocated),
        97
    );
    assert_eq!(
        one_node(a(), &[], &asking("p", "5", "9Gi"), least_allocated),
        0
    );
}

#[test]
fn balance_is_75_when_nothing_changes_and_more_when_it_gets_better() {
    let a = || node("a", json!({}));
    assert_eq!(one_node(a(), &[], &asking("p", "1", "2Gi"), balance), 75);
    // Empty is perfect; 50 % against 0 % is 25 off: 50 + (50 + 75 - 100) / 2 = 62.
    assert_eq!(one_node(a(), &[], &asking("p", "2", "0"), balance), 62);
    // 50 % against 0 % before, 50 % each after: 50 + (50 + 100 - 75) / 2 = 87.
    let there = [on("a", &asking("q", "2", "0"))];
    assert_eq!(one_node(a(), &there, &asking("p", "0", "4Gi"), balance), 87);
}

#[test]
fn soft_taints_are_counted_and_the_most_tainted_gets_nothing() {
    let soft = |name: &str, keys: &[&str]| {
        let taints = keys
            .iter()
            .map(|key| json!({"key": key, "effect": "PreferNoSchedule"}));
        node(
            name,
            json!({"spec": {"taints": taints.collect::<Vec<Value>>()}}),
        )
    };
    let nodes = [
        soft("a", &[]),
        soft("b", &["j"]),
        soft("c", &["j", "k"]),
        soft("d", &["t"]),
    ];
    let cache = cache(&nodes, &[]);
    let all: Vec<&NodeInfo> = cache.nodes().collect();
    let tolerations = json!([{"key": "t", "operator": "Exists"}]);
    let tolerant = info(&pod("p", json!({"spec": {"tolerations": tolerations}})));
    assert_eq!(taints(&tolerant, &all), [100, 50, 0, 100]);
}

#[test]
fn preferred_node_affinity_adds_the_weights_that_hold() {
    let labelled = |name, labels: Value| node(name, json!({"metadata": {"labels": labels}}));
    let nodes = [
        labelled("a", json!({"disk": "ssd", "zone": "x"})),
        labelled("b", json!({"disk": "ssd"})),
        labelled("c", json!({})),
    ];
    let preferred = |weight, key, value| {
        json!({"weight": weight, "preference":
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}})
    };
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [preferred(30, "disk", "ssd"), preferred(50, "zone", "x")]}});
    let pod = info(&pod("p", json!({"spec": {"affinity": affinity}})));
    let cache = cache(&nodes, &[]);
    let found: Vec<i64> = cache
        .nodes()
        .map(|node| node_affinity(&pod, node))
        .collect();
    assert_eq!(found, [80, 30, 0]);
    assert_eq!(stretch(found, false), [100, 37, 0]);
}

#[test]
fn pods_of_one_controller_are_spread_over_nodes() {
    let owned = |name: &str| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r",
            "controller": true});
        pod(name, json!({"metadata": {"ownerReferences": [owner]}}))
    };
    let nodes: Vec<Node> = ["a", "b", "c"].map(|name| node(name, json!({}))).into();
    let there = [
        on("a", &owned("1")),
        on("a", &owned("2")),
        on("b", &owned("3")),
        on("c", &pod("4", json!({}))),
    ];
    let cache = cache(&nodes, &there);
    let all: Vec<&NodeInfo> = cache.nodes().collect();
    // ln(3 + 2) = 1.609 a pod and 2 for the skew: 5.2, 3.6, 2 are 5, 4, 2; 100 * (5 + 2 - s) / 5.
    assert_eq!(
        spread::scores(&cache, &info(&owned("p")), &all),
        Some(vec![40, 60, 100])
    );
    // A pod without a controller has no default constraints.
    let plain = info(&pod("p", json!({})));
    assert_eq!(spread::scores(&cache, &plain, &all), None);
}

#[test]
fn pods_of_a_service_are_spread_where_no_controller_spreads_them() {
    let web = |name: &str, owners: Value| {
        let labels = json!({"app": "web", "x": "y"});
        let metadata = json!({"labels": labels, "ownerReferences": owners});
        pod(name, json!({"metadata": metadata}))
    };
    let job = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j",
        "controller": true}]);
    let nodes: Vec<Node> = ["a", "b", "c"].map(|name| node(name, json!({}))).into();
    let there = [
        on("a", &web("1", json!([]))),
        on("a", &web("2", job.clone())),
        on("b", &web("3", json!([]))),
    ];
    let mut cache = cache(&nodes, &there);
    let of = |cache: &Cache, owners: &Value| {
        let all: Vec<&NodeInfo> = cache.nodes().collect();
        spread::scores(cache, &info(&web("p", owners.clone())), &all)
    };
    let selects = |app: &str| Labels::from([("app".to_owned(), app.to_owned())]);
    cache.services.set("default", "db", selects("db"));
    cache.services.set("elsewhere", "web", selects("web"));
    cache.services.set("default", "none", Labels::new());
    assert_eq!(of(&cache, &json!([])), None);
    assert_eq!(of(&cache, &job), None);
    cache.services.set("default", "web", selects("web"));
    // As for the pods of one controller.
    let spread_out = Some(vec![40, 60, 100]);
    assert_eq!(of(&cache, &json!([])), spread_out);
    assert_eq!(of(&cache, &job), spread_out);
    cache.services.remove("default", "web");
    assert_eq!(of(&cache, &json!([])), None);
}

#[test]
fn preferred_spread_over_zones_counts_domains_and_ignores_nodes_without() {
    let zone = |name, zone: &str| node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    let web = |name: &str| {
        pod(
            name,
            json!({
                "metadata": {"labels": {"app": "web"}},
                "spec": {"topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }]},
            }),
        )
    };
    let nodes = [
        zone("a", "x"),
        zone("b", "x"),
        zone("c", "y"),
        node("d", json!({})),
    ];
    let there = [on("a", &web("1")), on("b", &web("2")), on("c", &web("3"))];
    let cache = cache(&nodes, &there);
    let all: Vec<&NodeInfo> = cache.nodes().collect();
    // ln(2 + 2) = 1.386: 2.77 is 3 in x, 1 in y; 100 * (3 + 1 - s) / 3.
    assert_eq!(
        spread::scores(&cache, &info(&web("p")), &all),
        Some(vec![33, 33, 100, 0])
    );
}

#[test]
fn wishes_for_pods_count_both_ways() {
    let term = |app: &str| {
        json!({"topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}}})
    };
    let wish = |kind: &str, weight: i64, app: &str| {
        json!({kind: {
        "preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": weight, "podAffinityTerm": term(app)}]}})
    };
    let app = |name: &str, affinity: Value| {
        pod(
            name,
            json!({
                "metadata": {"labels": {"app": name}}, "spec": {"affinity": affinity},
            }),
        )
    };
    let nodes: Vec<Node> = ["a", "b", "c"].map(|name| node(name, json!({}))).into();
    let there = [
        on("a", &app("db", json!({}))),
        // It prefers not to be near the pod.
        on("b", &app("shy", wish("podAntiAffinity", 20, "web"))),
    ];
    let cache = cache(&nodes, &there);
    let all: Vec<&NodeInfo> = cache.nodes().collect();
    // 60 from the pod's own preference, -20 from the other's: scaled over a range of 80.
    let web = info(&app("web", wish("podAffinity", 60, "db")));
    assert_eq!(pods::scores(&cache, &web, &all), Some(vec![100, 0, 25]));
    let plain = info(&app("web", json!({})));
    assert_eq!(pods::scores(&cache, &plain, &all), Some(vec![100, 0, 100]));
    assert_eq!(
        pods::scores(&cache, &info(&app("other", json!({}))), &all),
        None
    );
}

#[test]
fn the_total_weighs_the_kinds() {
    let busy = on("a", &asking("q", "2", "4Gi"));
    let cache = cache(&[node("a", json!({})), node("b", json!({}))], &[busy]);
    let all: Vec<&NodeInfo> = cache.nodes().collect();
    // No taints: 3 x 100. Free on a: (25 + 25) / 2, on b: 75. Balance 75 each.
    let totals = total(&cache, &info(&asking("p", "1", "2Gi")), &all);
    assert_eq!(totals, [300 + 25 + 75, 300 + 75 + 75]);
}

#[test]
fn a_node_that_has_the_images_is_better_by_their_size_and_spread() {
    let has = |name: &str, images: Value| node(name, json!({"status": {"images": images}}));
    let image = |names: &[&str], mib: i64| json!({"names": names, "sizeBytes": mib * 1024 * 1024});
    let web = image(&["x.com/web:1"], 300);
    let nodes = [
        has(
            "a",
            json!([web, image(&["tool@sha256:1", "tool:latest"], 100)]),
        ),
        has("b", json!([web, web])),
        has("c", json!([image(&["x.com/web:2"], 900)])),
        has("d", json!([image(&["localhost:5000/app:latest"], 9000)])),
    ];
    let mut cache = cache(&nodes, &[]);
    let of = |cache: &Cache, pod: &Arc<Pod>| {
        let all: Vec<&NodeInfo> = cache.nodes().collect();
        images::scores(cache, &info(pod), &all)
    };
    let main = |image: &str| json!({"name": "main", "image": image});
    let both = json!([main("x.com/web:1"), {"name": "tool", "image": "tool"}]);
    let both = pod("p", json!({"spec": {"containers": both}}));
    // Two of four nodes have the one, one has the other: (150 + 25 - 23) / (2000 - 23) and
    // (150 - 23) / (2000 - 23).
    assert_eq!(of(&cache, &both), Some(vec![7, 6, 0, 0]));
    let all: Vec<&NodeInfo> = cache.nodes().collect();
    let totals = total(&cache, &info(&both), &all);
    assert_eq!(
        [totals[0] - totals[3], totals[1] - totals[3]],
        [7, 6],
        "the weight is 1"
    );
    // The port of a registry is no tag. No image counts more than 1000 MiB for each container.
    let app = pod(
        "p",
        json!({"spec": {"containers": [main("localhost:5000/app")]}}),
    );
    assert_eq!(of(&cache, &app), Some(vec![0, 0, 0, 100]));
    // An init container is a container, an image as a volume is not: (225 - 23) / (2000 - 23).
    let spec = json!({"containers": [main("none")], "initContainers": [main("none")],
        "volumes": [{"name": "v", "image": {"reference": "x.com/web:2"}}]});
    let with_volume = pod("p", json!({"spec": spec}));
    assert_eq!(of(&cache, &with_volume), Some(vec![0, 0, 10, 0]));
    // With the nodes their images go: (100 + 33 - 23) / (2000 - 23).
    cache.remove_node("b");
    assert_eq!(of(&cache, &both).unwrap()[0], 5);
    cache.set_node(&node("a", json!({})));
    assert_eq!(of(&cache, &both), None);
}
