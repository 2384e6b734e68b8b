use serde_json::json;

use super::*;

#[test]
fn sums_and_maxima_go_by_resource() {
    let mut all = read(Some(&json!({"cpu": "500m", "memory": "1Gi"})));
    add(&mut all, &read(Some(&json!({"cpu": "1", "pods": "2"}))));
    assert_eq!(
        write(&all),
        json!({"cpu": "1500m", "memory": "1Gi", "pods": "2"})
    );
    raise(&mut all, &read(Some(&json!({"cpu": "1", "memory": "2Gi"}))));
    assert_eq!(
        write(&all),
        json!({"cpu": "1500m", "memory": "2Gi", "pods": "2"})
    );
    assert_eq!(read(None), Amounts::new());
}

#[test]
fn an_init_container_counts_with_the_sidecars_before_it() {
    let container =
        |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
    let mut sidecar = container("sidecar", "1");
    sidecar["restartPolicy"] = "Always".into();
    let mut pod = json!({"spec": {
        "containers": [container("main", "1")],
        "initContainers": [sidecar, container("init", "4")],
        "overhead": {"cpu": "250m"},
    }});
    assert_eq!(write(&of_spec(&pod, Part::Requests)), json!({"cpu": "5"}));
    assert_eq!(write(&held(&pod, Part::Requests)), json!({"cpu": "5250m"}));
    pod["spec"]["resources"] = json!({"requests": {"cpu": "3", "hugepages-2Mi": "2Mi"}});
    assert_eq!(write(&of_spec(&pod, Part::Requests)), json!({"cpu": "3"}));
    let own = json!({"cpu": "3250m", "hugepages-2Mi": "2Mi"});
    assert_eq!(write(&held(&pod, Part::Requests)), own);
}

#[test]
fn a_pod_is_guaranteed_what_it_requests_up_to_its_limits() {
    let class = |resources: Value| {
        let container = json!({"resources": resources});
        quality_of_service(&json!({"spec": {"containers": [container]}}))
    };
    let all = json!({"cpu": "1", "memory": "1Gi"});
    assert_eq!(class(json!({})), "BestEffort");
    assert_eq!(class(json!({"requests": {"cpu": "0"}})), "BestEffort");
    assert_eq!(class(json!({"requests": all, "limits": all})), "Guaranteed");
    let bytes = json!({"cpu": "1", "memory": "1073741824"});
    assert_eq!(
        class(json!({"requests": bytes, "limits": all})),
        "Guaranteed",
        "in whatever notation"
    );
    assert_eq!(
        class(json!({"requests": {"cpu": "1", "memory": "0"}, "limits": all})),
        "Burstable",
        "nothing is not the limit"
    );
    assert_eq!(class(json!({"requests": all})), "Burstable");
    let own = json!({"spec": {"resources": {"requests": all}, "containers": [
        {"resources": {"requests": all, "limits": all}},
    ]}});
    assert_eq!(quality_of_service(&own), "Burstable");
}
