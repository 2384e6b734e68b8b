use serde_json::json;

use super::*;

fn template(spec: Value) -> Value {
    json!({"metadata": {"annotations": {}}, "spec": spec})
}

fn deployment(generation: i64, spec: Value) -> Value {
    json!({
        "metadata": {"name": "web", "generation": generation},
        "spec": {"template": template(spec)},
    })
}

#[test]
fn workloads_are_warned_of_their_templates() {
    let odd = json!({
        "terminationGracePeriodSeconds": -1,
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "containers": [{"name": "c", "env": [{"name": "A"}, {"name": "A"}]}],
    });
    let wanted = [
        "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
    ];
    let object = deployment(1, odd.clone());
    assert_eq!(of_replicas(None, &object), wanted);
    assert_eq!(of_daemon_set(None, &object), wanted);
    assert_eq!(of_stateful_set(None, &object), wanted);
    assert_eq!(of_job(None, &object), wanted);

    let whole = json!({"metadata": {"name": "web"}, "template": template(odd.clone())});
    let told = of_pod_template(None, &whole);
    assert!(
        told[0].starts_with("template.spec.nodeSelector["),
        "{told:?}"
    );

    let nested = json!({
        "metadata": {"name": "web"},
        "spec": {"jobTemplate": {"spec": {"template": template(odd)}}},
    });
    let told = of_cron_job(None, &nested);
    let begin = "spec.jobTemplate.spec.template.spec.nodeSelector[";
    assert!(told[0].starts_with(begin), "{told:?}");
}

#[test]
fn an_update_warns_only_if_it_counts() {
    let odd = json!({"terminationGracePeriodSeconds": -1});
    let (old, same) = (deployment(1, json!({})), deployment(1, odd.clone()));
    assert!(of_replicas(Some(&old), &same).is_empty());
    let changed = deployment(2, odd);
    assert_eq!(of_replicas(Some(&old), &changed).len(), 1);
}

#[test]
fn names_that_are_no_host_names_are_told_once() {
    let mut object = deployment(1, json!({}));
    object["metadata"]["name"] = "a.b".into();
    let told = of_replicas(None, &object);
    let wanted = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]";
    assert_eq!(told, [wanted]);
    let mut newer = object.clone();
    newer["metadata"]["generation"] = 2.into();
    assert!(of_replicas(Some(&object), &newer).is_empty());
    assert!(of_daemon_set(None, &object).is_empty());
}

#[test]
fn profiles_in_annotations_are_told_unless_there_is_a_field() {
    let annotations = json!({
        "seccomp.security.alpha.kubernetes.io/pod": "x",
        "container.seccomp.security.alpha.kubernetes.io/c": "x",
        "container.apparmor.security.beta.kubernetes.io/c": "x",
        "scheduler.alpha.kubernetes.io/critical-pod": "",
    });
    let mut object = deployment(1, json!({"containers": [{"name": "c"}]}));
    object["spec"]["template"]["metadata"]["annotations"] = annotations.clone();
    let told = of_replicas(None, &object);
    assert_eq!(told.len(), 4, "{told:?}");
    let wanted = "spec.template.metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead";
    assert_eq!(told[0], wanted);
    // One of the pod counts if it is the same.
    let context = |profile: Value| json!({ "appArmorProfile": profile });
    for (profile, count) in [
        (json!({"type": "RuntimeDefault"}), 3),
        (json!({"type": "Unconfined"}), 4),
    ] {
        let mut other = object.clone();
        let template = &mut other["spec"]["template"];
        template["metadata"]["annotations"]["container.apparmor.security.beta.kubernetes.io/c"] =
            "runtime/default".into();
        template["spec"]["securityContext"] = context(profile);
        assert_eq!(of_replicas(None, &other).len(), count);
    }
    let profiles = json!({"seccompProfile": {}, "appArmorProfile": {}});
    object["spec"]["template"]["spec"]["containers"][0]["securityContext"] = profiles;
    assert_eq!(of_replicas(None, &object).len(), 2);

    // A pod's own annotation of AppArmor becomes the field.
    let pod = json!({
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [{"name": "c"}]},
    });
    assert_eq!(of_pod(None, &pod).len(), 3);
    assert!(of_pod(Some(&pod), &pod).is_empty());
}

#[test]
fn a_pods_own_annotations_of_app_armor_are_told_before_they_become_fields() {
    const KEY: &str = "container.apparmor.security.beta.kubernetes.io/";
    let keys = ["a", "b", "c", "d"].map(|name| format!("{KEY}{name}"));
    let [a, b, c, d] = &keys;
    let default = json!({"appArmorProfile": {"type": "RuntimeDefault"}});
    let pod = json!({
        "metadata": {"annotations": {
            a: "unconfined", b: "runtime/default", c: "unconfined", d: "none"}},
        "spec": {
            "securityContext": default,
            "initContainers": [{"name": "a"}],
            "containers": [
                {"name": "b"}, {"name": "c", "securityContext": default}, {"name": "d"},
            ],
        },
    });
    let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
    let wanted = [a, d].map(|key| format!("metadata.annotations[{key}]: {why}"));
    assert_eq!(of_profiles(&pod), wanted);
}

#[test]
fn odd_addresses_of_a_pod_are_told() {
    let told = of_daemon_set(
        None,
        &deployment(
            1,
            json!({
                "dnsConfig": {"nameservers": ["192.0.2.1", "192.0.2.01"]},
                "hostAliases": [{"ip": "2001:DB8::1"}],
            }),
        ),
    );
    assert_eq!(told.len(), 2, "{told:?}");
    let path = "spec.template.spec";
    assert!(told[0].starts_with(&format!("{path}.dnsConfig.nameservers[1]: ")));
    assert!(told[1].starts_with(&format!("{path}.hostAliases[0].ip: ")));
}

#[test]
fn wishes_for_nodes_are_checked_more_closely_than_needs() {
    let term = |value: &str| {
        json!({"matchExpressions": [
            {"key": "beta.kubernetes.io/arch", "operator": "In", "values": [value]},
        ]})
    };
    let affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term("-")]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term("-")}],
    }});
    let told = of_daemon_set(None, &deployment(1, json!({ "affinity": affinity })));
    assert_eq!(told.len(), 3, "{told:?}");
    let path = "spec.template.spec.affinity.nodeAffinity";
    let wished = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[0].preference");
    let wanted = format!("{wished}.matchExpressions[0].values[0]: - is invalid, a valid label");
    assert!(told[2].starts_with(&wanted), "{told:?}");
}

#[test]
fn files_that_hide_each_other_are_told() {
    let items = |paths: &[&str]| -> Value {
        let items = paths.iter().map(|path| json!({"key": "k", "path": path}));
        items.collect()
    };
    let volumes = json!([
        {"name": "a", "configMap": {"name": "m", "items": items(&["x", "xy", "x/y/"])}},
        {"name": "b", "projected": {"sources": [
            {"secret": {"name": "s", "items": items(&["token"])}},
            {"serviceAccountToken": {"path": "token"}},
            {},
        ]}},
    ]);
    let told = of_daemon_set(None, &deployment(1, json!({ "volumes": volumes })));
    assert_eq!(
        told,
        [
            "volume \"a\" (ConfigMap \"m\"): overlapping paths: \"x/y\" with \"x\"",
            "volume \"b\" (Projected) has no sources provided",
            "volume \"b\" (Projected): overlapping paths: \"token\" (ServiceAccountToken) with \"token\" (Secret \"s\")",
        ]
    );
}

#[test]
fn claims_ask_for_whole_bytes() {
    let spec = json!({"resources": {"requests": {"storage": "1500m"}}});
    let why = "fractional byte value \"1500m\" is invalid, must be an integer";
    let claim = json!({"metadata": {"name": "c"}, "spec": spec});
    let wanted = format!("spec.resources.requests[storage]: {why}");
    assert_eq!(of_claim(None, &claim), [wanted]);

    let mut set = deployment(1, json!({}));
    set["spec"]["volumeClaimTemplates"] = json!([claim]);
    for (old, key) in [(None, ""), (Some(&set), ".Spec")] {
        let wanted =
            format!("spec.volumeClaimTemplates[0]{key}.resources.requests[storage]: {why}");
        assert_eq!(of_stateful_set(old, &set), [wanted]);
    }

    let volume = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    let told = of_daemon_set(None, &deployment(1, json!({"volumes": [volume]})));
    let begin = "spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources";
    assert!(told[0].starts_with(begin), "{told:?}");
}

#[test]
fn huge_indexed_jobs_are_told() {
    let mut job = deployment(1, json!({}));
    job["spec"]["completionMode"] = "Indexed".into();
    job["spec"]["completions"] = 100_001.into();
    job["spec"]["parallelism"] = 10_000.into();
    assert!(of_job(None, &job).is_empty());
    job["spec"]["parallelism"] = 10_001.into();
    assert_eq!(of_job(None, &job).len(), 1);
}

#[test]
fn many_items_alike_are_not_told_two_by_two() {
    let port = json!({"containerPort": 1, "protocol": "TCP"});
    let item = json!({"key": "a", "path": "a"});
    let told = |spec: Value| of_pod(None, &json!({"metadata": {"name": "p"}, "spec": spec}));
    let few = told(json!({
        "containers": [{"name": "c", "ports": vec![&port; 3]}],
        "volumes": [{"name": "v", "configMap": {"name": "m", "items": vec![&item; 3]}}],
    }));
    let wanted = [
        "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a\" with \"a\"",
        "spec.containers[0].ports[2]: duplicate port definition with spec.containers[0].ports[1]",
    ];
    for text in wanted {
        assert!(few.iter().any(|one| one == text), "{few:?}");
    }
    assert_eq!(few.len(), 6);
    for spec in [
        json!({"containers": [{"name": "c", "ports": vec![&port; 90_000]}]}),
        json!({"volumes": [{"name": "v", "configMap": {"items": vec![&item; 90_000]}}]}),
    ] {
        assert_eq!(told(spec).len(), WARNINGS_MAX);
    }
}
