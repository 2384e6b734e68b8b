//! Defaults of services, nodes, storage and cluster configuration.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{HTTPS_PORT, below, default, default_absent, default_at, each, has, made, pod, text};
use crate::object;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Default `clientIP.timeoutSeconds` of session affinity: three hours.
const CLIENT_AFFINITY_SECONDS: u32 = 10_800;

pub(super) fn definition(object: &mut Value) {
    let spec = made(object, &["spec"]);
    let kind = object::text(spec, &["names", "kind"]).to_owned();
    let names = made(spec, &["names"]);
    default(names, "singular", kind.to_lowercase());
    if !kind.is_empty() {
        default(names, "listKind", format!("{kind}List"));
    }
    if !has(spec, "conversion") {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let path = ["conversion", "webhook", "clientConfig", "service"];
    below(spec, &path, |service| default(service, "port", HTTPS_PORT));
    let mut versions = object::items(spec, &["versions"]).iter();
    let stored = versions.find(|version| version["storage"] == true);
    let stored = stored.map(|version| version["name"].clone());
    let known = ["status", "storedVersions"];
    if let Some(stored) = stored
        && object::items(object, &known).is_empty()
    {
        object::set(object, &known, json!([stored]));
    }
}

pub(super) fn api_service(object: &mut Value) {
    below(object, &["spec", "service"], |service| {
        default(service, "port", HTTPS_PORT);
    });
}

pub(super) fn service(object: &mut Value) {
    let spec = made(object, &["spec"]);
    default(spec, "sessionAffinity", "None");
    default(spec, "type", "ClusterIP");
    if text(spec, "sessionAffinity") == "None" {
        object::remove(spec, &["sessionAffinityConfig"]);
    } else if object::at(
        spec,
        &["sessionAffinityConfig", "clientIP", "timeoutSeconds"],
    )
    .is_none()
    {
        spec["sessionAffinityConfig"] =
            json!({"clientIP": {"timeoutSeconds": CLIENT_AFFINITY_SECONDS}});
    }
    each(spec, &["ports"], |port| {
        default(port, "protocol", "TCP");
        let target = port.get("targetPort");
        if target.is_none_or(|target| *target == 0 || *target == "") {
            port["targetPort"] = port.get("port").cloned().unwrap_or_default();
        }
    });
    let kind = text(spec, "type").to_owned();
    let external = has(spec, "externalIPs") && kind == "ClusterIP";
    if kind == "NodePort" || kind == "LoadBalancer" || external {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind != "ExternalName" {
        default_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
        each(object, &["status", "loadBalancer", "ingress"], |ingress| {
            if !text(ingress, "ip").is_empty() {
                default_absent(ingress, "ipMode", "VIP");
            }
        });
    }
}

/// Moves `stringData`, which clients can only write, into `data`, encoded as base64.
pub(super) fn secret(object: &mut Value) {
    default(object, "type", "Opaque");
    let texts = object
        .as_object_mut()
        .and_then(|map| map.remove("stringData"));
    if let Some(Value::Object(texts)) = texts {
        let data = made(object, &["data"]);
        for (key, text) in &texts {
            let text = text.as_str().unwrap_or_default();
            object::set(data, &[key.as_str()], STANDARD.encode(text).into());
        }
    }
}

pub(super) fn namespace(object: &mut Value) {
    let name = object::name(object).to_owned();
    if !name.is_empty() {
        let label = "kubernetes.io/metadata.name";
        default_at(object, &["metadata", "labels"], label, name);
    }
    default_at(object, &["status"], "phase", "Active");
}

/// Keeps a node's `podCIDR` and the first item of its `podCIDRs` the same.
pub(super) fn node(object: &mut Value) {
    below(object, &["spec"], |spec| {
        let one = text(spec, "podCIDR").to_owned();
        let listed = object::items(spec, &["podCIDRs"]).first().cloned();
        match listed {
            None if !one.is_empty() => spec["podCIDRs"] = json!([one]),
            Some(first) if one.is_empty() => spec["podCIDR"] = first,
            Some(first) if first != one.as_str() => spec["podCIDRs"] = json!([one]),
            _ => {}
        }
    });
    below(object, &["status"], |status| {
        if let Some(capacity) = status.get("capacity").cloned() {
            default(status, "allocatable", capacity);
        }
    });
}

pub(super) fn persistent_volume(object: &mut Value) {
    default_at(object, &["status"], "phase", "Pending");
    let spec = made(object, &["spec"]);
    default(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_absent(spec, "volumeMode", "Filesystem");
    pod::volume_source(spec);
}

pub(super) fn claim(object: &mut Value) {
    default_at(object, &["status"], "phase", "Pending");
    default_absent(made(object, &["spec"]), "volumeMode", "Filesystem");
}

/// A volume that is attached has the defaults of its source, even if no object describes it.
pub(super) fn attachment(object: &mut Value) {
    let path = ["spec", "source", "inlineVolumeSpec"];
    below(object, &path, pod::volume_source);
}

/// For limits of type `Container`: `default` comes from `max`, `defaultRequest` from `default` and
/// then from `min`.
pub(super) fn limit_range(object: &mut Value) {
    each(object, &["spec", "limits"], |limit| {
        if text(limit, "type") != "Container" {
            return;
        }
        for (from, to) in [
            ("max", "default"),
            ("default", "defaultRequest"),
            ("min", "defaultRequest"),
        ] {
            let Some(Value::Object(values)) = limit.get(from).cloned() else {
                continue;
            };
            for (resource, value) in values {
                default_at(limit, &[to], &resource, value);
            }
        }
    });
}

/// Defaults of the groups that have only a few.
pub(super) fn endpoints(object: &mut Value) {
    each(object, &["subsets"], |subset| {
        each(subset, &["ports"], |port| default(port, "protocol", "TCP"));
    });
}

pub(super) fn endpoint_slice(object: &mut Value) {
    each(object, &["ports"], |port| {
        // An empty port name counts as set, so `default` cannot be used.
        object::map_mut(port)
            .entry("name")
            .or_insert_with(|| "".into());
        default_absent(port, "protocol", "TCP");
    });
}

pub(super) fn priority_class(object: &mut Value) {
    default_absent(object, "preemptionPolicy", "PreemptLowerPriority");
}

pub(super) fn role_binding(object: &mut Value) {
    default_at(object, &["roleRef"], "apiGroup", RBAC);
    each(object, &["subjects"], |subject| {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default(subject, "apiGroup", RBAC);
        }
    });
}

pub(super) fn ingress_class(object: &mut Value) {
    below(object, &["spec", "parameters"], |to| {
        default_absent(to, "scope", "Cluster");
    });
}

pub(super) fn storage_class(object: &mut Value) {
    default_absent(object, "reclaimPolicy", "Delete");
    default_absent(object, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(object: &mut Value) {
    let spec = made(object, &["spec"]);
    default(spec, "attachRequired", true);
    for off in [
        "podInfoOnMount",
        "storageCapacity",
        "requiresRepublish",
        "seLinuxMount",
    ] {
        default(spec, off, false);
    }
    default_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

pub(super) fn network_policy(object: &mut Value) {
    for direction in ["ingress", "egress"] {
        each(object, &["spec", direction], |rule| {
            each(rule, &["ports"], |port| {
                default_absent(port, "protocol", "TCP")
            });
        });
    }
    let spec = made(object, &["spec"]);
    let types = match spec.get("egress").and_then(Value::as_array) {
        Some(rules) if !rules.is_empty() => json!(["Ingress", "Egress"]),
        _ => json!(["Ingress"]),
    };
    default(spec, "policyTypes", types);
}

pub(super) fn flow_schema(object: &mut Value) {
    let spec = made(object, &["spec"]);
    default_number(spec, "matchingPrecedence", 1000);
}

pub(super) fn priority_level(object: &mut Value) {
    below(object, &["spec", "exempt"], |exempt| {
        default(exempt, "nominalConcurrencyShares", 0);
        default(exempt, "lendablePercent", 0);
    });
    below(object, &["spec", "limited"], |limited| {
        default(limited, "nominalConcurrencyShares", 30);
        default(limited, "lendablePercent", 0);
        below(limited, &["limitResponse", "queuing"], |queuing| {
            default_number(queuing, "queues", 64);
            default_number(queuing, "handSize", 8);
            default_number(queuing, "queueLengthLimit", 50);
        });
    });
}

/// Sets a number that is missing or zero.
fn default_number(object: &mut Value, key: &str, value: i64) {
    if object::integer(object, &[key]).unwrap_or(0) == 0 {
        object[key] = value.into();
    }
}
