//! Typical objects are accepted. Errors that the scripts of requests do not cover are tested here.

mod annotations;
mod jobs;
mod ratchet;

use std::sync::Arc;

use machinery::schema;
use machinery::status::Cause;
use serde_json::{Value, json};

use super::Policy;
use crate::registry::lifecycle;
use crate::registry::strategy;
use crate::resources::catalogue::{Catalogue, Resource};
use crate::resources::defaults;

fn resource(object: &Value) -> Arc<Resource> {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = schema::split_api_version(version);
    let kind = object["kind"].as_str().unwrap();
    let kind = schema::kind(group, version, kind).unwrap();
    Arc::clone(
        Catalogue::new(strategy::builtin().iter().cloned())
            .of(kind)
            .unwrap(),
    )
}

/// Completes the object as the server does.
fn made(object: Value) -> Value {
    let resource = &resource(&object);
    let mut object = object;
    let metadata = machinery::object::metadata_mut(&mut object);
    metadata.entry("name").or_insert_with(|| "x".into());
    if resource.kind.namespaced() {
        metadata.insert("namespace".into(), "default".into());
    }
    defaults::set_defaults(resource, &mut object).unwrap();
    lifecycle::created(resource, &mut object);
    object
}

fn wrong(object: Value) -> Vec<String> {
    let object = made(object);
    let resource = &resource(&object);
    let rules = &strategy::of(resource).rules;
    told(rules.create(resource, &object, Policy::default()).into())
}

fn told(causes: Vec<Cause>) -> Vec<String> {
    let told = causes.iter();
    told.map(|one| format!("{}: {}", one.field, one.message))
        .collect()
}

fn changed(old: Value, change: impl Fn(&mut Value)) -> Vec<String> {
    let old = made(old);
    let mut new = old.clone();
    change(&mut new);
    let resource = &resource(&old);
    let rules = &strategy::of(resource).rules;
    let causes = rules.update(resource, "", (&old, &new), Policy::default());
    told(causes.into())
}

fn service(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "spec": spec})
}

fn pods(restart: &str) -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": restart, "containers": [
        {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    ]}})
}

fn stateful_set() -> Value {
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {
        "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": pods("Always"),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }})
}

fn job(more: Value) -> Value {
    let mut template = pods("Never");
    template["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    let mut spec = json!({"template": template});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec})
}

fn slice(kind: &str, address: &str) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": kind,
        "endpoints": [{"addresses": [address]}], "ports": [{"port": 80}]})
}

fn limits(kind: &str, limit: Value) -> Value {
    let mut limit = limit;
    limit["type"] = kind.into();
    json!({"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [limit]}})
}

#[test]
fn objects_as_people_write_them_are_taken() {
    let ports =
        json!([{"port": 80, "name": "http"}, {"port": 443, "name": "https", "targetPort": "tls"}]);
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    for object in [
        service(json!({"ports": ports, "selector": {"a": "b"}})),
        service(
            json!({"type": "LoadBalancer", "ports": ports, "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": ["10.0.0.0/8"], "loadBalancerClass": "a.b/c"}),
        ),
        service(json!({"type": "ExternalName", "externalName": "a.example.com."})),
        service(
            json!({"ports": ports, "externalIPs": ["192.0.2.1"], "sessionAffinity": "ClientIP"}),
        ),
        service(
            json!({"clusterIP": "None", "clusterIPs": ["None"], "trafficDistribution": "PreferClose"}),
        ),
        stateful_set(),
        job(json!({})),
        job(json!({"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1})),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {
            "schedule": "0 3 * * mon-fri", "timeZone": "Europe/Berlin", "jobTemplate": {
                "spec": job(json!({}))["spec"]}}}),
        slice("IPv4", "10.1.2.3"),
        slice("IPv6", "2001:db8::1"),
        slice("FQDN", "a.example.com"),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {
            "tls": [{"hosts": ["*.example.com"], "secretName": "t"}],
            "rules": [{"host": "*.example.com", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": backend}]}}]}}),
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {
            "hard": {"pods": "4", "requests.cpu": "1500m", "requests.example.com/gpu": "1",
                "count/deployments.apps": "2"},
            "scopes": ["NotTerminating"]}}),
        limits(
            "Container",
            json!({"max": {"cpu": "2"}, "min": {"cpu": "100m"},
            "default": {"cpu": "1"}, "defaultRequest": {"cpu": "200m"},
            "maxLimitRequestRatio": {"cpu": "10"}}),
        ),
        limits("PersistentVolumeClaim", json!({"max": {"storage": "10Gi"}})),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"}}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer"}),
        json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "spec": {
            "maxReplicas": 3, "targetCPUUtilizationPercentage": 50, "scaleTargetRef": {
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}),
        json!({"apiVersion": "v1", "kind": "Node", "spec": {
            "podCIDRs": ["10.1.0.0/24", "2001:db8::/64"], "taints": [
                {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]},
            "status": {"capacity": {"cpu": "1500m", "example.com/gpu": "2"}}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": -5}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"}, "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing",
                    "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
    ] {
        assert_eq!(wrong(object.clone()), Vec::<String>::new(), "{object}");
    }
}

#[test]
fn what_an_object_says_must_fit_together() {
    let ports = json!([{"port": 80}]);
    for (object, what) in [
        (
            service(json!({"ports": ports, "externalTrafficPolicy": "Local"})),
            "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
        ),
        (
            service(json!({"ports": ports, "externalIPs": ["127.0.0.1"]})),
            "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            service(json!({"ports": ports, "loadBalancerSourceRanges": ["10.0.0.0/8"]})),
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            slice("IPv4", "2001:db8::1"),
            "endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address",
        ),
        (
            job(json!({"completionMode": "Indexed", "parallelism": 2})),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            job(json!({"backoffLimitPerIndex": 1})),
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        ),
        (
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {
                "maxReplicas": 3, "scaleTargetRef": {
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "behavior": {"scaleUp": {"tolerance": "-1", "policies": [
                    {"type": "Pods", "value": 1, "periodSeconds": 1}]}}}}),
            "spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {
                "hard": {"services": "1"}, "scopes": ["BestEffort"]}}),
            "spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource",
        ),
        (
            limits(
                "Pod",
                json!({"max": {"cpu": "1"}, "min": {"cpu": "500m"},
                "maxLimitRequestRatio": {"cpu": "4"}}),
            ),
            "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"4\": ratio 4 is greater than max/min = 2.000000",
        ),
    ] {
        assert_eq!(wrong(object.clone()), [what], "{object}");
    }
}

#[test]
fn what_was_decided_once_stays() {
    let mut balancer = service(json!({"type": "LoadBalancer", "ports": [{"port": 80}],
        "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]}));
    balancer["spec"]["loadBalancerClass"] = "a.b/c".into();
    let other = |service: &mut Value| service["spec"]["loadBalancerClass"] = "a.b/d".into();
    let class = "spec.loadBalancerClass: Invalid value: \"a.b/d\": may not change once set";
    assert_eq!(changed(balancer, other), [class]);
    let set = changed(stateful_set(), |set| {
        set["spec"]["serviceName"] = "t".into()
    });
    assert!(
        set[0].starts_with("spec: Forbidden: updates to statefulset spec"),
        "{set:?}"
    );
    let replicas = |set: &mut Value| set["spec"]["replicas"] = 3.into();
    assert_eq!(changed(stateful_set(), replicas), Vec::<String>::new());
    let more = |slice: &mut Value| slice["addressType"] = "FQDN".into();
    let kind = "addressType: Invalid value: \"FQDN\": field is immutable";
    assert_eq!(changed(slice("IPv4", "10.1.2.3"), more), [kind]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let bound = |claim: &mut Value| claim["spec"]["volumeName"] = "v".into();
    assert_eq!(changed(claim.clone(), bound), Vec::<String>::new());
    let larger = |claim: &mut Value| {
        claim["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    };
    assert_eq!(
        changed(claim, larger).len(),
        1,
        "not before it has a volume"
    );
}

#[test]
fn a_scope_selector_names_scopes_that_there_are() {
    let wrong = |hard: Value, expressions: Value| {
        wrong(json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "spec": {"hard": hard, "scopeSelector": {"matchExpressions": expressions}},
        }))
    };
    let one = |scope: &str, operator: &str, values: &[&str]| json!({"scopeName": scope, "operator": operator, "values": values});
    let pods = json!({"pods": "1"});
    let good = [
        one("PriorityClass", "In", &["high"]),
        one("BestEffort", "Exists", &[]),
    ];
    assert_eq!(wrong(pods.clone(), json!(good)), [""; 0]);
    assert_eq!(
        wrong(pods.clone(), json!([one("PriorityClass", "NotIn", &[])])),
        [
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value \
          when `operator` is 'In' or 'NotIn' for scope selector"
        ]
    );
    assert_eq!(
        wrong(pods.clone(), json!([one("X", "Exists", &["v"])])),
        [
            "spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"X\": unsupported scope",
            "spec.scopeSelector.matchExpressions.values: Invalid value: [\"v\"]: must be no value \
             when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        ]
    );
    assert_eq!(
        wrong(
            json!({"services": "1"}),
            json!([{"scopeName": "Terminating", "operator": "Is"}])
        ),
        [
            "spec.scopeSelector.matchExpressions: Invalid value: {\"MatchExpressions\":\
             [{\"ScopeName\":\"Terminating\",\"Operator\":\"Is\",\"Values\":null}]}: \
             unsupported scope applied to resource",
            "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Is\": must be 'Exists' \
             when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
             ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
             ResourceQuotaScopeCrossNamespacePodAffinity",
            "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Is\": not a valid \
             selector operator"
        ]
    );
    let both = json!([
        one("BestEffort", "Exists", &[]),
        one("NotBestEffort", "Exists", &[])
    ]);
    assert_eq!(
        wrong(pods, both),
        ["spec.scopeSelector.matchExpressions: Invalid value: null: conflicting scopes"]
    );
}

fn pod(change: impl Fn(&mut Value)) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [
        {"name": "c", "image": "i"},
    ]}});
    change(&mut pod);
    pod
}

fn container(more: Value) -> Value {
    let more = more.as_object().cloned().into_iter().flatten();
    let all = pod(|_| {});
    let mut container = all["spec"]["containers"][0].clone();
    container.as_object_mut().unwrap().extend(more);
    pod(|pod| pod["spec"]["containers"] = json!([container]))
}

fn volumes(volumes: Value) -> Vec<String> {
    wrong(pod(|pod| pod["spec"]["volumes"] = volumes.clone()))
}

fn persistent(more: Value) -> Value {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}});
    let more = more.as_object().cloned().into_iter().flatten();
    volume["spec"].as_object_mut().unwrap().extend(more);
    volume
}

#[test]
fn a_driver_may_learn_to_expand_its_volumes() {
    let volume = persistent(json!({"csi": {"driver": "d", "volumeHandle": "v"}}));
    let secret = json!({"name": "s", "namespace": "n"});
    let with = |key: &'static str, volume: &Value, secret: &Value| {
        let secret = secret.clone();
        changed(volume.clone(), move |volume| {
            volume["spec"]["csi"][key] = secret.clone()
        })
    };
    let expands = "controllerExpandSecretRef";
    assert_eq!(with(expands, &volume, &secret), [""; 0]);
    let fixed = "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation";
    assert_eq!(with("nodePublishSecretRef", &volume, &secret), [fixed]);
    let mut known = volume;
    known["spec"]["csi"][expands] = secret;
    let other = json!({"name": "t", "namespace": "n"});
    assert_eq!(with(expands, &known, &other), [fixed]);
}

#[test]
fn a_volume_of_the_whole_host_is_not_recycled() {
    let volume = |path: &str| {
        let path = json!({"path": path});
        wrong(persistent(
            json!({"hostPath": path, "persistentVolumeReclaimPolicy": "Recycle"}),
        ))
    };
    assert_eq!(volume("/data"), [""; 0]);
    for root in ["/", "/.", "//"] {
        assert_eq!(
            volume(root),
            [
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"
            ]
        );
    }
}

#[test]
fn the_source_of_a_volume_is_checked_whole() {
    let reserved = "options[Kubernetes.io/a]: Invalid value: \"Kubernetes.io/a\": kubernetes.io and k8s.io namespaces are reserved";
    let flex = json!({"driver": "d/e", "options": {"Kubernetes.io/a": "1", "b": "2"}});
    assert_eq!(
        volumes(json!([{"name": "v", "flexVolume": flex}])),
        [format!("spec.volumes[0].flexVolume.{reserved}")]
    );
    assert_eq!(
        wrong(persistent(json!({"flexVolume": flex}))),
        [format!("spec.flexVolume.{reserved}")]
    );
    let csi = json!({"driver": "d", "nodePublishSecretRef": {"name": "S"}});
    let csi = volumes(json!([{"name": "v", "csi": csi}]));
    assert!(
        csi[0].starts_with("spec.volumes[0].csi.name: Invalid value: \"S\""),
        "{csi:?}"
    );
    let cinder = json!({"cinder": {"volumeID": "v", "secretRef": {"name": "s"}}});
    assert_eq!(
        wrong(persistent(cinder)),
        ["spec.cinder.secretRef.namespace: Required value"]
    );
    let long = "p".repeat(63);
    let iscsi = json!({"targetPortal": long, "iqn": "iqn.2001-04.com.example:disk",
        "initiatorName": "disk", "lun": 0});
    let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
    let told = volumes(json!([{"name": "v", "iscsi": iscsi}]));
    assert_eq!(
        told,
        [
            "spec.volumes[0].iscsi.initiatorname: Invalid value: \"disk\": must be valid format starting with iqn, eui, or naa".to_owned(),
            format!("spec.volumes[0].name: Invalid value: \"v\": {why}"),
        ]
    );
    assert_eq!(
        wrong(persistent(json!({"iscsi": iscsi}))),
        [
            format!("spec.iscsi.targetportal: Invalid value: \"{long}\": {why}"),
            "spec.iscsi.initiatorname: Invalid value: \"disk\": must be valid format".to_owned(),
        ]
    );
}

#[test]
fn a_claim_made_for_a_volume_is_not_another_volume_too() {
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let made = json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    let claim = |name: &str| json!({"name": "w", "persistentVolumeClaim": {"claimName": name}});
    assert_eq!(volumes(json!([made, claim("v")])), [""; 0]);
    assert_eq!(
        volumes(json!([claim("x-v"), made])),
        [
            "spec.volumes[0].persistentVolumeClaim.claimName: Invalid value: \"x-v\": must not reference a PVC that gets created for an ephemeral volume"
        ]
    );
}

#[test]
fn the_order_of_scopes_means_nothing() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {
        "hard": {"pods": "4"}, "scopes": ["NotTerminating", "BestEffort"]}});
    let scopes = |scopes: Value| {
        changed(quota.clone(), move |quota| {
            quota["spec"]["scopes"] = scopes.clone()
        })
    };
    assert_eq!(scopes(json!(["BestEffort", "NotTerminating"])), [""; 0]);
    assert_eq!(
        scopes(json!(["BestEffort"])),
        ["spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable"]
    );
}

#[test]
fn bytes_are_counted_without_what_fills_base64_up() {
    let map = |bytes: usize| {
        let letters = "A".repeat(bytes / 3 * 4);
        let last = ["", "AA==", "AAA="][bytes % 3];
        wrong(json!({"apiVersion": "v1", "kind": "ConfigMap", "binaryData": {"k": letters + last}}))
    };
    assert_eq!(map(1 << 20), [""; 0]);
    assert_eq!(
        map((1 << 20) + 1),
        ["[]: Too long: may not be more than 1048576 bytes"]
    );
}

#[test]
fn a_class_that_an_annotation_has_chosen_stays() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "gold"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let class = |class: &'static str| {
        changed(claim.clone(), move |claim| {
            claim["spec"]["storageClassName"] = class.into()
        })
    };
    assert_eq!(class("gold"), [""; 0]);
    assert_eq!(class("iron").len(), 1);
}

#[test]
fn processes_of_a_windows_host_are_all_of_a_pod() {
    let process = |is: bool| json!({"windowsOptions": {"hostProcess": is}});
    let of = |whole: Value, first: Value, network: bool| {
        wrong(pod(|pod| {
            pod["spec"]["securityContext"] = whole.clone();
            pod["spec"]["hostNetwork"] = network.into();
            pod["spec"]["containers"] = json!([
                {"name": "c", "image": "i", "securityContext": first},
                {"name": "d", "image": "i"},
            ]);
        }))
    };
    let policy = "spec: Forbidden: hostProcess containers are disallowed by cluster policy";
    assert_eq!(of(process(true), json!({}), true), [policy]);
    assert_eq!(of(process(false), json!({}), false), [""; 0]);
    assert_eq!(
        of(json!({}), process(true), false),
        [
            "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers",
            "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
            policy,
        ]
    );
    let differs = of(process(true), process(false), true);
    assert_eq!(
        differs[0],
        "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true"
    );
}

#[test]
fn a_claim_to_devices_is_named_as_a_whole_or_by_its_requests() {
    let claims = |claims: Value| {
        let mut pod = container(json!({"resources": {"claims": claims}}));
        pod["spec"]["resourceClaims"] = json!([{"name": "a", "resourceClaimName": "x"}]);
        wrong(pod)
    };
    let place = "spec.containers[0].resources.claims";
    let parts = json!([{"name": "a", "request": "r"}, {"name": "a", "request": "s"}]);
    assert_eq!(claims(parts), [""; 0]);
    assert_eq!(
        claims(json!([{"name": "a", "request": "r"}, {"name": "a", "request": "r"}])),
        [format!("{place}[1]: Duplicate value: \"a/r\"")]
    );
    for twice in [
        json!([{"name": "a", "request": "r"}, {"name": "a"}]),
        json!([{"name": "a"}, {"name": "a", "request": "r"}]),
    ] {
        assert_eq!(
            claims(twice),
            [format!("{place}[1]: Duplicate value: \"a\"")]
        );
    }
    let wrong = claims(json!([{"name": "a", "request": "R"}]));
    assert!(
        wrong[0].starts_with(&format!("{place}[0].request: Invalid value: \"R\"")),
        "{wrong:?}"
    );
}

#[test]
fn huge_pages_are_limited_to_what_is_requested_in_whatever_notation() {
    let pages = |request: &str| {
        wrong(container(json!({"resources": {
            "limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": request},
        }})))
    };
    assert_eq!(pages("4194304"), [""; 0]);
    assert_eq!(
        pages("2Mi"),
        [
            "spec.containers[0].resources.requests: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 4Mi"
        ]
    );
}

#[test]
fn a_label_of_the_pod_itself_is_selected_once() {
    let spread = |selector: Value| {
        wrong(pod(|pod| {
            pod["metadata"] = json!({"labels": {"hash": "h"}});
            pod["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": ["other", "hash"], "labelSelector": selector,
            }]);
        }))
    };
    assert_eq!(spread(json!({"matchLabels": {"app": "a"}})), [""; 0]);
    assert_eq!(
        spread(json!({"matchLabels": {"hash": "h"}})),
        [
            "spec.topologySpreadConstraints[0][1]: Invalid value: \"hash\": exists in both matchLabelKeys and labelSelector"
        ]
    );
}

#[test]
fn addresses_of_a_pod_are_read_alike_by_everybody() {
    let told = wrong(pod(|pod| {
        pod["spec"]["dnsConfig"] = json!({"nameservers": ["010.0.0.1"]});
        pod["spec"]["hostAliases"] = json!([{"ip": "::ffff:10.0.0.1", "hostnames": ["a"]}]);
    }));
    assert_eq!(
        told,
        [
            "spec.dnsConfig.nameservers[0]: Invalid value: \"010.0.0.1\": must not have leading 0s",
            "spec.hostAliases[0].ip: Invalid value: \"::ffff:10.0.0.1\": must not be an IPv4-mapped IPv6 address",
        ]
    );
}

#[test]
fn a_container_says_no_more_than_its_node_can_take() {
    let rule = |count: i64| {
        let codes = json!({"operator": "In", "values": (0..count).collect::<Vec<_>>()});
        wrong(container(
            json!({"restartPolicy": "Never", "restartPolicyRules": [
                {"action": "Restart", "exitCodes": codes},
            ]}),
        ))
    };
    assert_eq!(rule(255), [""; 0]);
    assert_eq!(
        rule(256),
        [
            "spec.containers[0].restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items"
        ]
    );
    let profile = |bytes: usize| {
        let profile = json!({"type": "Localhost", "localhostProfile": "p".repeat(bytes)});
        wrong(container(
            json!({"securityContext": {"appArmorProfile": profile}}),
        ))
    };
    assert_eq!(profile(4095), [""; 0]);
    assert_eq!(
        profile(4096),
        [
            "spec.containers[0].securityContext.appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes"
        ]
    );
}

#[test]
fn ports_of_the_host_are_used_once_by_an_init_container() {
    let port = json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"});
    let told = wrong(pod(|pod| {
        pod["spec"]["initContainers"] = json!([
            {"name": "a", "image": "i", "ports": [port]},
            {"name": "b", "image": "i", "ports": [port, port]},
        ]);
    }));
    assert_eq!(
        told,
        ["spec.initContainers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""]
    );
}

#[test]
fn a_windows_pod_has_nothing_of_linux() {
    let told = wrong(pod(|pod| {
        pod["spec"]["os"] = json!({"name": "windows"});
        pod["spec"]["hostPID"] = true.into();
        pod["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
        pod["spec"]["securityContext"] = json!({
            "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"},
        });
    }));
    let why = "Forbidden: cannot be set for a windows pod";
    assert_eq!(
        told,
        [
            "spec.resources: Forbidden: may not be set for a windows pod".to_owned(),
            format!("spec.hostPID: {why}"),
            format!("spec.securityContext.seccompProfile: {why}"),
            format!("spec.securityContext.runAsUser: {why}"),
        ]
    );
}

#[test]
fn sysctls_of_shared_namespaces_are_known_by_their_whole_names() {
    let shared = |name: &str| {
        let sysctls = json!([{"name": name, "value": "1"}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {
            "hostIPC": true, "hostNetwork": true, "securityContext": {"sysctls": sysctls},
            "containers": [{"name": "c", "image": "i"}]}});
        let wrong = wrong(pod).into_iter().next()?;
        Some(wrong.rsplit_once(": ")?.1.to_owned())
    };
    let (ipc, network) = (Some("hostIPC"), Some("hostNetwork"));
    for (name, with) in [
        ("kernel.shmmax", ipc),
        ("kernel/msg", ipc),
        ("kernel.shmother", None),
        ("fs.mqueue.msg_max", ipc),
        ("fs/mqueue/msg_max", ipc),
        // A dot comes first, so this slash is a part of a name.
        ("fs.mqueue/msg_max", None),
        ("net/ipv4/conf/eno2.100/rp_filter", network),
        ("net.ipv4.tcp_syncookies", network),
    ] {
        let expected = with.map(|with| format!("may not be specified when '{with}' is true"));
        assert_eq!(shared(name), expected, "{name}");
    }
}

#[test]
fn the_old_name_of_a_pods_node_is_no_file() {
    let file = json!({"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "spec.host"}});
    let told = volumes(json!([{"name": "v", "downwardAPI": {"items": [file]}}]));
    assert!(
        told[0].starts_with(
            "spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: \"spec.nodeName\""
        ),
        "{told:?}"
    );
}

#[test]
fn a_status_of_tens_of_thousands_of_containers_is_checked() {
    const COUNT: usize = 20_000;
    let names = (0..COUNT).map(|at| format!("c{at}"));
    let names: Vec<String> = names.collect();
    let each = |make: fn(&str) -> Value| -> Value { names.iter().map(|name| make(name)).collect() };
    let old = json!({
        "spec": {
            "restartPolicy": "Never",
            "containers": each(|name| json!({"name": name, "resources": {
                "claims": [{"name": name}], "requests": {"example.com/a": "1"}}})),
            "resourceClaims": each(|name| json!({"name": name, "resourceClaimName": "x"})),
        },
        "status": {"containerStatuses": each(|name| json!({
            "name": name, "state": {"terminated": {"exitCode": 1}}}))},
    });
    let mut new = old.clone();
    new["status"]["containerStatuses"] = each(|name| {
        let claim = format!("claim:{name}");
        json!({"name": name, "state": {"terminated": {"exitCode": 1}},
            "allocatedResourcesStatus": [{"name": claim}, {"name": "example.com/a"}]})
    });
    new["status"]["resourceClaimStatuses"] = each(|name| json!({"name": name}));
    new["status"]["extendedResourceClaimStatus"] = json!({
        "resourceClaimName": "x",
        "requestMappings": each(|name| json!({
            "containerName": name, "resourceName": "example.com/a", "requestName": "r"})),
    });
    let causes = super::workloads::pod::subresource_update("status", &old, &new);
    assert_eq!(told(causes.into()), [""; 0]);
    let last = &mut new["status"]["containerStatuses"][COUNT - 1];
    last["state"] = json!({"running": {}});
    let causes = super::workloads::pod::subresource_update("status", &old, &new);
    assert_eq!(
        told(causes.into()),
        [format!(
            "status.containerStatuses[{}].state: Forbidden: may not be transitioned to non-terminated state",
            COUNT - 1
        )]
    );
}

#[test]
fn a_class_of_volumes_does_not_say_too_much_to_its_driver() {
    let class = |parameters: Value| {
        wrong(
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "provisioner": "d", "parameters": parameters}),
        )
    };
    let many = |count: usize| -> Value {
        (0..count)
            .map(|at| (at.to_string(), Value::from("")))
            .collect()
    };
    assert_eq!(class(many(512)), [""; 0]);
    assert_eq!(
        class(many(513)),
        ["parameters: Too long: may not be more than 512 bytes"]
    );
    assert_eq!(
        class(json!({"": "a".repeat(256 << 10), "b": ""})),
        [
            "parameters: Invalid value: \"\": field can not be empty.",
            "parameters: Too long: may not be more than 262144 bytes",
        ]
    );
}
