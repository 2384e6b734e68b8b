use serde_json::{Value, json};

use super::*;

fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

fn sidecar(cpu: &str, memory: &str) -> Value {
    let mut container = container(cpu, memory);
    container["restartPolicy"] = "Always".into();
    container
}

fn of(spec: Value) -> (i64, i64) {
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let all = Resources::of_pod(&spec);
    (all.cpu_milli, all.memory)
}

#[test]
fn containers_add_up_and_quantities_are_read() {
    let spec = json!({"containers": [container("250m", "1Gi"), container("1.5", "1M")]});
    assert_eq!(of(spec), (1750, (1 << 30) + 1_000_000));
}

#[test]
fn the_larger_of_init_peak_and_steady_state_counts() {
    let (main, init) = (container("1", "100"), container("3", "50"));
    assert_eq!(
        of(json!({"containers": [main], "initContainers": [init]})),
        (3000, 100)
    );
}

#[test]
fn sidecars_run_beside_init_containers_after_them_and_beside_all_containers() {
    // Before the sidecar 2; with the sidecar 3 + 1; then 1 + 2: the peak is 4.
    let spec = json!({
        "containers": [container("2", "10")],
        "initContainers": [container("2", "1"), sidecar("1", "5"), container("3", "1")],
    });
    assert_eq!(of(spec), (4000, 15));
}

#[test]
fn overhead_comes_on_top_and_the_pods_own_request_replaces_its_containers() {
    let spec = json!({
        "containers": [container("2", "10")],
        "resources": {"requests": {"cpu": "5"}},
        "overhead": {"cpu": "100m", "memory": "7"},
    });
    assert_eq!(of(spec), (5100, 17));
}

#[test]
fn unnamed_requests_count_a_little_when_nodes_are_compared() {
    let spec = json!({"containers": [{"name": "a"}, container("0", "1Gi")]});
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let all = Resources::of_pod_for_scores(&spec);
    assert_eq!(
        (all.cpu_milli, all.memory),
        (100, (1 << 30) + UNNAMED_MEMORY_BYTES)
    );
    assert!(!Resources::of_pod(&spec).is_nothing());
}
