use machinery::schema;
use serde_json::json;

use super::*;

fn path(call: &Call) -> (&str, &str) {
    match call {
        Call::Read { path, what } => (path, what),
        other => panic!("{other} is no read"),
    }
}

#[test]
fn paths_are_those_of_the_apis_of_metrics() {
    let deployment = schema::kind("apps", "v1", "Deployment").unwrap();
    let controller = schema::kind("", "v1", "ReplicationController").unwrap();
    let web = LabelSelector::parse("app=web,tier in (a,b)").unwrap();
    let (all, red) = (
        LabelSelector::default(),
        LabelSelector::parse("red").unwrap(),
    );
    let place = ("v1beta2", "n");
    for (call, read, what) in [
        (
            of_scale(deployment, "n", "web"),
            "/apis/apps/v1/namespaces/n/deployments/web/scale",
            "deployments web",
        ),
        (
            of_scale(controller, "n", "a?b#c"),
            "/api/v1/namespaces/n/replicationcontrollers/a%3Fb%23c/scale",
            "replicationcontrollers a?b#c",
        ),
        (
            of_usage("n", &web),
            "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods?labelSelector=\
             app%3Dweb%2Ctier%20in%20%28a%2Cb%29",
            "pods.metrics.k8s.io",
        ),
        (
            of_objects(place, ("pods", "*", &web), ("hits", &all)),
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/*/hits?labelSelector=\
             app%3Dweb%2Ctier%20in%20%28a%2Cb%29",
            "pods.custom.metrics.k8s.io *",
        ),
        (
            of_objects(place, ("deployments.apps", "web", &all), ("hits", &red)),
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/deployments.apps/web/hits\
             ?metricLabelSelector=red",
            "deployments.apps.custom.metrics.k8s.io web",
        ),
        (
            of_namespace(place, ("hits", &all)),
            "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/metrics/hits",
            "metrics.custom.metrics.k8s.io hits",
        ),
        (
            of_outside("n", ("queue length", &red)),
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/n/queue%20length?labelSelector=red",
            "queue length.external.metrics.k8s.io",
        ),
    ] {
        assert_eq!(path(&call), (read, what));
    }
}

#[test]
fn a_pod_uses_what_its_containers_use_if_all_is_known() {
    let container = |name: &str, usage: Value| json!({"name": name, "usage": usage});
    let pod = |name: &str, containers: Value| {
        json!({"metadata": {"name": name}, "timestamp": "2026-01-02T03:04:05Z",
            "window": "15.5s", "containers": containers})
    };
    let list = json!({"items": [
        pod("a", json!([container("c", json!({"cpu": "1500u"})),
            container("d", json!({"cpu": "20m", "memory": "1Ki"}))])),
        pod("b", json!([container("c", json!({"memory": "1Ki"})),
            container("d", json!({"cpu": 2}))])),
        pod("c", json!([])),
    ]});
    let seen = |resource, container| -> Vec<(String, i64)> {
        let all = usage(&list, resource, container).into_iter();
        all.map(|(name, reading)| (name, reading.value)).collect()
    };
    let of = |name: &str, value| (name.to_owned(), value);
    assert_eq!(seen("cpu", ""), [of("a", 22)]);
    assert_eq!(seen("cpu", "d"), [of("a", 20), of("b", 2000)]);
    assert_eq!(seen("memory", "d"), [of("a", 1_024_000)]);
    assert!(seen("memory", "x").is_empty());
    let reading = usage(&list, "cpu", "")["a"];
    assert_eq!(reading.window, Duration::from_millis(15_500));
    assert_eq!(
        reading.at,
        Timestamp::parse("2026-01-02T03:04:05Z").unwrap()
    );
}

#[test]
fn custom_metrics_are_read_in_both_versions() {
    let list = json!({"items": [
        {"describedObject": {"name": "a"}, "value": "5", "windowSeconds": 10},
        {"describedObject": {"name": "b"}, "value": "1500m", "window": 20},
        {"describedObject": {"name": "c"}, "value": "1k"},
        {"describedObject": {"name": "d"}},
    ]});
    let found = by_pod(&list);
    let found: Vec<(&str, i64, u64)> = found
        .iter()
        .map(|(name, one)| (&**name, one.value, one.window.as_secs()))
        .collect();
    let expected = [
        ("a", 5000, 10),
        ("b", 1500, 20),
        ("c", 1_000_000, 60),
        ("d", 0, 60),
    ];
    assert_eq!(found, expected);
    assert_eq!(values(&list), [5000, 1500, 1_000_000, 0]);
    assert!(values(&json!({"items": 5})).is_empty());
}

#[test]
fn a_list_with_a_quantity_that_is_none_is_wrong() {
    let of_object = |value: Value| json!({"items": [{"value": "1"}, {"value": value}]});
    let of_pod = |value: Value| {
        let containers = json!([{"name": "c", "usage": {"cpu": "1", "memory": value}}]);
        json!({"items": [{"containers": containers}]})
    };
    for value in [json!("NaN"), json!(""), json!(true), json!({"a": 1})] {
        assert!(wrong(&of_object(value.clone())).is_some(), "{value}");
        assert!(wrong(&of_pod(value.clone())).is_some(), "{value}");
    }
    for value in [json!("1Gi"), json!(2.5), json!(" 1 "), Value::Null] {
        assert_eq!(wrong(&of_object(value.clone())), None, "{value}");
        assert_eq!(wrong(&of_pod(value.clone())), None, "{value}");
    }
    assert_eq!(wrong(&json!("garbage")), None);
}
