//! The objects that a node writes about itself: the Node, its heartbeats, its Lease.

#[cfg(test)]
mod tests;

use std::time::Duration;

use machinery::object::{self, Object};
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::address::Family;

/// The namespace of node leases.
pub const LEASES: &str = "kube-node-lease";
/// While this annotation of the Node is `true`, the node acts as if it had no power.
pub const STOPPED: &str = "hollow.stele/stopped";
/// The duration of a lease, in renewal periods.
const LEASE_LASTS_PERIODS: u64 = 4;
/// The Kubernetes version that nodes report.
const VERSION: &str = "v1.36.3";
/// The features of kubelet that nodes declare: the one without which no node takes a pod whose rules
/// may restart all of its containers.
const FEATURES: [&str; 1] = ["RestartAllContainersOnContainerExits"];

/// The capacity of a node.
#[derive(Debug, Clone)]
pub struct Size {
    pub cpu: String,
    pub memory: String,
    pub storage: String,
    pub pods: u32,
}

impl Default for Size {
    fn default() -> Size {
        Size {
            cpu: "8".to_owned(),
            memory: "16Gi".to_owned(),
            storage: "100Gi".to_owned(),
            pods: 110,
        }
    }
}

/// One hollow node.
#[derive(Debug, Clone)]
pub struct Host {
    pub name: String,
    /// Its number among the nodes of the process; its addresses follow from it.
    pub number: u32,
    /// The families of its addresses and of those of its pods, the primary one first.
    pub families: Vec<Family>,
    pub size: Size,
    /// Additional labels.
    pub labels: Vec<(String, String)>,
}

impl Host {
    /// The node's addresses.
    pub fn addresses(&self) -> Vec<String> {
        let families = self.families.iter();
        families.map(|family| family.of_node(self.number)).collect()
    }

    /// The Node object for registration.
    pub fn node(&self, now: Timestamp) -> Object {
        let mut labels = json!({
            "beta.kubernetes.io/arch": arch(),
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": arch(),
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
        });
        for (key, value) in &self.labels {
            labels[key] = value.as_str().into();
        }
        let families = self.families.iter();
        let ranges: Vec<String> = families.map(|family| family.range(self.number)).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"podCIDR": ranges.first(), "podCIDRs": ranges},
            "status": self.status(None, now),
        })
    }

    /// The status; unchanged conditions keep the times of the given Node.
    pub fn status(&self, node: Option<&Object>, now: Timestamp) -> Value {
        let amounts = json!({
            "cpu": self.size.cpu,
            "memory": self.size.memory,
            "ephemeral-storage": self.size.storage,
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "pods": self.size.pods.to_string(),
        });
        let internal = self.addresses().into_iter();
        let internal = internal.map(|address| json!({"type": "InternalIP", "address": address}));
        let hostname = json!({"type": "Hostname", "address": self.name});
        let addresses: Vec<Value> = internal.chain([hostname]).collect();
        json!({
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions(node, now),
            "addresses": addresses,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "declaredFeatures": FEATURES,
            "nodeInfo": {
                "architecture": arch(),
                "bootID": format!("hollow-boot-{}", self.name),
                "containerRuntimeVersion": "hollow://1",
                "kernelVersion": "hollow",
                "kubeProxyVersion": "",
                "kubeletVersion": VERSION,
                "machineID": format!("hollow-{}", self.name),
                "operatingSystem": "linux",
                "osImage": "hollow",
                "systemUUID": format!("hollow-{}", self.name),
            },
        })
    }

    /// The node's Lease, renewed at `now`.
    pub fn lease(&self, uid: &str, period: Duration, now: Timestamp) -> Object {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": LEASES},
            "spec": {
                "holderIdentity": self.name,
                "leaseDurationSeconds": (period.as_secs() * LEASE_LASTS_PERIODS).max(1),
                "renewTime": now.to_micros(),
            },
        });
        if !uid.is_empty() {
            lease["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "v1", "kind": "Node", "name": self.name, "uid": uid,
            }]);
        }
        lease
    }
}

/// True if the Node's `Ready` condition is true.
pub fn is_ready(node: &Object) -> bool {
    condition(node, "Ready").is_some_and(|one| object::text(one, &["status"]) == "True")
}

/// True if the node must act as if it had no power.
pub fn is_stopped(node: &Object) -> bool {
    object::annotation(node, STOPPED) == Some("true")
}

fn conditions(node: Option<&Object>, now: Timestamp) -> Vec<Value> {
    let all = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        (
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        ),
    ];
    let make = |(kind, status, reason, message): (&str, &str, &str, &str)| {
        let old = node.and_then(|node| condition(node, kind));
        let same = old.filter(|old| object::text(old, &["status"]) == status);
        let since = same.and_then(|old| old.get("lastTransitionTime")).cloned();
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now.to_seconds(),
            "lastTransitionTime": since.unwrap_or_else(|| now.to_seconds().into()),
        })
    };
    all.into_iter().map(make).collect()
}

fn condition<'a>(node: &'a Object, kind: &str) -> Option<&'a Value> {
    let mut all = object::items(node, &["status", "conditions"]).iter();
    all.find(|one| object::text(one, &["type"]) == kind)
}

/// The architecture, with Go's name.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
