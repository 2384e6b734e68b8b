use super::*;

#[test]
fn only_versions_that_kubernetes_still_reads_are_known() {
    for (group, kind, api_version, known) in [
        ("apps", "Deployment", "apps/v1beta1", true),
        ("apps", "Deployment", "extensions/v1beta1", true),
        ("apps", "StatefulSet", "extensions/v1beta1", false),
        ("batch", "CronJob", "batch/v1beta1", true),
        ("batch", "CronJob", "batch/v2alpha1", false),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "autoscaling/v1",
            true,
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "autoscaling/v2beta2",
            false,
        ),
        (
            "resource.k8s.io",
            "ResourceClaim",
            "resource.k8s.io/v1alpha3",
            false,
        ),
        (
            "networking.k8s.io",
            "IPAddress",
            "networking.k8s.io/v1beta1",
            true,
        ),
        (
            "networking.k8s.io",
            "IPAddress",
            "networking.k8s.io/v1alpha1",
            false,
        ),
        ("", "Pod", "v2", false),
        ("", "Pod", "", false),
    ] {
        let found = conversion(group, kind, api_version).is_some();
        assert_eq!(found, known, "{kind} of {api_version}");
    }
}

#[test]
fn an_ingress_names_its_services_inside_a_field() {
    let mut object = json!({"spec": {"backend": {"serviceName": "s", "servicePort": 80}, "rules": [
        {"host": "a"},
        {"http": {"paths": [
            {"backend": {"serviceName": "t", "servicePort": "web"}},
            {"pathType": "Exact", "backend": {"resource": {"kind": "K", "name": "n"}, "servicePort": 0}},
        ]}},
    ]}});
    conversion("networking.k8s.io", "Ingress", "extensions/v1beta1").unwrap()(&mut object);
    let expected = json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}, "rules": [
        {"host": "a"},
        {"http": {"paths": [
            {"pathType": "ImplementationSpecific",
                "backend": {"service": {"name": "t", "port": {"name": "web"}}}},
            {"pathType": "Exact", "backend": {"resource": {"kind": "K", "name": "n"}}},
        ]}},
    ]});
    assert_eq!(object["spec"], expected);
}

#[test]
fn an_empty_selector_of_a_budget_keeps_selecting_nothing() {
    let read = |selector: Value| {
        let mut object = json!({"spec": {"selector": selector}});
        conversion("policy", "PodDisruptionBudget", "policy/v1beta1").unwrap()(&mut object);
        object["spec"]["selector"].clone()
    };
    let nothing = json!({"matchExpressions": [{"key": NOTHING, "operator": "Exists"}]});
    assert_eq!(read(json!({})), nothing);
    assert_eq!(read(json!({"matchLabels": {}})), nothing);
    let some = json!({"matchLabels": {"a": "b"}});
    assert_eq!(read(some.clone()), some);
    assert_eq!(read(Value::Null), Value::Null);
}

#[test]
fn a_request_for_devices_has_what_it_asks_for_inside_a_field() {
    let mut object = json!({"spec": {"devices": {"requests": [
        {"name": "a", "deviceClassName": "c", "count": 2},
        {"name": "b", "deviceClassName": "", "firstAvailable": [{"name": "x"}]},
    ]}}});
    conversion(
        "resource.k8s.io",
        "ResourceClaim",
        "resource.k8s.io/v1beta1",
    )
    .unwrap()(&mut object);
    let expected = json!([
        {"name": "a", "exactly": {"deviceClassName": "c", "count": 2}},
        {"name": "b", "firstAvailable": [{"name": "x"}]},
    ]);
    assert_eq!(object["spec"]["devices"]["requests"], expected);
}

#[test]
fn shares_zones_and_devices_are_where_the_present_versions_have_them() {
    let read = |group: &str, kind: &str, version: &str, mut object: Value| {
        conversion(group, kind, &format!("{group}/{version}")).unwrap()(&mut object);
        object
    };
    let level = json!({"spec": {"limited": {"assuredConcurrencyShares": 7}}});
    let level = read(FLOWS, "PriorityLevelConfiguration", "v1beta2", level);
    assert_eq!(
        level["spec"]["limited"],
        json!({"nominalConcurrencyShares": 7})
    );
    let zone = json!({"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "n", "x": "y"});
    for name in ["topology", "deprecatedTopology"] {
        let mut slice = json!({"endpoints": [{"nodeName": "n"}, {}]});
        slice["endpoints"][0][name] = zone.clone();
        let slice = read("discovery.k8s.io", "EndpointSlice", "v1beta1", slice);
        let expected = json!({"nodeName": "n", "zone": "z", "deprecatedTopology": {"x": "y"}});
        assert_eq!(slice["endpoints"], json!([expected, {}]));
    }
    let slice =
        json!({"spec": {"devices": [{"name": "d", "basic": {"capacity": {}}}, {"name": "e"}]}});
    let slice = read("resource.k8s.io", "ResourceSlice", "v1beta1", slice);
    assert_eq!(
        slice["spec"]["devices"],
        json!([{"name": "d", "capacity": {}}, {"name": "e"}])
    );
}

#[test]
fn versions_of_an_alpha_say_handlers_and_subjects_in_their_own_way() {
    let mut class = json!({"metadata": {"name": "c"},
        "spec": {"runtimeHandler": "h", "scheduling": {"nodeSelector": {"a": "b"}}}});
    conversion("node.k8s.io", "RuntimeClass", "node.k8s.io/v1alpha1").unwrap()(&mut class);
    let expected = json!({"metadata": {"name": "c"}, "handler": "h",
        "scheduling": {"nodeSelector": {"a": "b"}}});
    assert_eq!(class, expected);
    let version = format!("{RIGHTS}/v1alpha1");
    let mut binding = json!({"subjects": [
        {"kind": "User", "apiVersion": version, "name": "*"},
        {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "apiVersion": "v1", "name": "a", "namespace": "n"},
        {"kind": "Other", "apiVersion": "example.com/v1", "name": "o"},
    ]});
    conversion(RIGHTS, "RoleBinding", &version).unwrap()(&mut binding);
    let expected = json!([
        {"kind": "Group", "apiGroup": RIGHTS, "name": "system:authenticated"},
        {"kind": "Group", "apiGroup": RIGHTS, "name": "g"},
        {"kind": "ServiceAccount", "name": "a", "namespace": "n"},
        {"kind": "Other", "apiGroup": "example.com", "name": "o"},
    ]);
    assert_eq!(binding["subjects"], expected);
}
