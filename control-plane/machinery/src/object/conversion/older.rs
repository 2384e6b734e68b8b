//! Objects in versions that older releases stored, and that are not served any more.
//!
//! Kubernetes v1.36 still reads these. Most have the fields of the present version; the others are
//! converted here. The table `schema` has the fields of those whose protobuf differs.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::autoscaler;
use crate::object;

/// Makes an object of an older version one of the present version, but for its `apiVersion`.
pub type Conversion = fn(&mut Value);

/// Versions whose objects have the fields of the present version.
const SAME: [(&str, &[&str]); 15] = [
    ("apps", &["v1beta1", "v1beta2"]),
    ("batch", &["v1beta1"]),
    ("networking.k8s.io", &["v1beta1"]),
    (RIGHTS, &["v1alpha1", "v1beta1"]),
    ("storage.k8s.io", &["v1alpha1", "v1beta1"]),
    ("scheduling.k8s.io", &["v1beta1"]),
    ("coordination.k8s.io", &["v1beta1"]),
    ("discovery.k8s.io", &["v1beta1"]),
    (FLOWS, &["v1beta1", "v1beta2", "v1beta3"]),
    ("admissionregistration.k8s.io", &["v1alpha1", "v1beta1"]),
    ("certificates.k8s.io", &["v1beta1"]),
    ("node.k8s.io", &["v1alpha1", "v1beta1"]),
    ("policy", &["v1beta1"]),
    ("autoscaling", &["v1"]),
    ("resource.k8s.io", &["v1beta1", "v1beta2"]),
];
/// Kinds that were in another group before.
const OF_EXTENSIONS: [(&str, &str); 4] = [
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("networking.k8s.io", "Ingress"),
];
const FLOWS: &str = "flowcontrol.apiserver.k8s.io";
const RIGHTS: &str = "rbac.authorization.k8s.io";
/// What an empty selector of a budget of v1beta1 becomes: it selects nothing, and that of v1 everything.
const NOTHING: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
/// The fields of a request for devices that are inside `exactly` now.
const EXACTLY: [&str; 7] = [
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
];

/// How objects of a kind in `group` are read that are stored as `api_version`; `None` if this is no
/// version that the kind had.
pub fn conversion(group: &str, kind: &str, api_version: &str) -> Option<Conversion> {
    if api_version == "extensions/v1beta1" {
        let moved = OF_EXTENSIONS.contains(&(group, kind));
        return moved.then(|| particular(group, kind, "v1beta1"));
    }
    let version = api_version.strip_prefix(group)?.strip_prefix('/')?;
    let (_, versions) = SAME.iter().find(|(of, _)| *of == group)?;
    let known = versions.contains(&version);
    known.then(|| particular(group, kind, version))
}

fn particular(group: &str, kind: &str, version: &str) -> Conversion {
    match (group, kind, version) {
        ("autoscaling", "HorizontalPodAutoscaler", "v1") => autoscaler::to_v2,
        ("policy", "PodDisruptionBudget", _) => budget,
        ("networking.k8s.io", "Ingress", _) => ingress,
        ("discovery.k8s.io", "EndpointSlice", _) => slice_of_endpoints,
        ("node.k8s.io", "RuntimeClass", "v1alpha1") => runtime_class,
        (RIGHTS, "ClusterRoleBinding" | "RoleBinding", "v1alpha1") => binding,
        (FLOWS, "PriorityLevelConfiguration", "v1beta1" | "v1beta2") => level,
        ("resource.k8s.io", "ResourceClaim", "v1beta1") => claim,
        ("resource.k8s.io", "ResourceClaimTemplate", "v1beta1") => template,
        ("resource.k8s.io", "ResourceSlice", "v1beta1") => slice_of_devices,
        _ => |_| {},
    }
}

fn budget(object: &mut Value) {
    const SELECTOR: [&str; 2] = ["spec", "selector"];
    let is_empty = |part: &Value| match part {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let selector = object::at(object, &SELECTOR).and_then(Value::as_object);
    if selector.is_some_and(|selector| selector.values().all(is_empty)) {
        let nothing = json!({"matchExpressions": [{"key": NOTHING, "operator": "Exists"}]});
        object::set(object, &SELECTOR, nothing);
    }
}

fn ingress(object: &mut Value) {
    if let Some(mut backend) = object::remove(object, &["spec", "backend"]) {
        to_service(&mut backend);
        object::set(object, &["spec", "defaultBackend"], backend);
    }
    for rule in list_mut(object, "/spec/rules") {
        for path in list_mut(rule, "/http/paths") {
            if let Some(path) = path.as_object_mut() {
                path.entry("pathType")
                    .or_insert_with(|| "ImplementationSpecific".into());
            }
            if let Some(backend) = path.get_mut("backend") {
                to_service(backend);
            }
        }
    }
}

/// A backend names its service inside a field now, and knows numbers of ports from names.
fn to_service(backend: &mut Value) {
    let name = object::remove(backend, &["serviceName"]);
    let port = object::remove(backend, &["servicePort"]).filter(|port| *port != 0);
    let name = name.filter(|name| *name != "");
    if name.is_none() && port.is_none() {
        return;
    }
    let port = match port {
        Some(Value::String(name)) => json!({ "name": name }),
        Some(number) => json!({ "number": number }),
        None => json!({}),
    };
    let name = name.unwrap_or_else(|| "".into());
    object::set(backend, &["service"], json!({"name": name, "port": port}));
}

fn slice_of_endpoints(object: &mut Value) {
    const HOST: &str = "kubernetes.io/hostname";
    const ZONE: &str = "topology.kubernetes.io/zone";
    for endpoint in list_mut(object, "/endpoints") {
        // Protobuf has the fields of v1, in which it has another name.
        let topology = object::remove(endpoint, &["topology"])
            .or_else(|| object::remove(endpoint, &["deprecatedTopology"]));
        let Some(Value::Object(mut topology)) = topology else {
            continue;
        };
        if let Some(zone) = topology.remove(ZONE) {
            object::set(endpoint, &["zone"], zone);
        }
        if endpoint.get("nodeName").is_some() {
            topology.remove(HOST);
        }
        if !topology.is_empty() {
            object::set(endpoint, &["deprecatedTopology"], topology.into());
        }
    }
}

fn runtime_class(object: &mut Value) {
    let Some(Value::Object(mut spec)) = object::remove(object, &["spec"]) else {
        return;
    };
    if let (Some(handler), Some(class)) = (spec.remove("runtimeHandler"), object.as_object_mut()) {
        class.insert("handler".into(), handler);
        class.extend(spec);
    }
}

/// A subject has the group of its kind, whatever it said, and the user `*` was everybody who is known.
fn binding(object: &mut Value) {
    for subject in list_mut(object, "/subjects") {
        let Some(subject) = subject.as_object_mut() else {
            continue;
        };
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let said = text(subject.remove("apiVersion").as_ref()).unwrap_or_default();
        let kind = text(subject.get("kind")).unwrap_or_default();
        let group = match kind.as_str() {
            "ServiceAccount" => "",
            "User" | "Group" => RIGHTS,
            _ => said.rsplit_once('/').map_or("", |(group, _)| group),
        };
        if !group.is_empty() {
            subject.insert("apiGroup".into(), group.into());
        }
        if kind == "User" && subject.get("name").is_some_and(|name| name == "*") {
            subject.insert("kind".into(), "Group".into());
            subject.insert("name".into(), "system:authenticated".into());
        }
    }
}

fn level(object: &mut Value) {
    let limited = object.pointer_mut("/spec/limited");
    if let Some(limited) = limited.and_then(Value::as_object_mut)
        && let Some(shares) = limited.remove("assuredConcurrencyShares")
    {
        limited.insert("nominalConcurrencyShares".into(), shares);
    }
}

fn claim(object: &mut Value) {
    requests(object, "/spec/devices/requests");
}

fn template(object: &mut Value) {
    requests(object, "/spec/spec/devices/requests");
}

fn requests(object: &mut Value, path: &str) {
    for request in list_mut(object, path) {
        let Some(request) = request.as_object_mut() else {
            continue;
        };
        let one = |key: &str| Some((key.to_owned(), request.remove(key)?));
        let exactly: Map<String, Value> = EXACTLY.into_iter().filter_map(one).collect();
        // Protobuf shows the name of the class also where there is none.
        if exactly.values().any(|value| *value != "") {
            request.insert("exactly".into(), exactly.into());
        }
    }
}

fn slice_of_devices(object: &mut Value) {
    for device in list_mut(object, "/spec/devices") {
        let basic = object::remove(device, &["basic"]);
        if let (Some(device), Some(Value::Object(basic))) = (device.as_object_mut(), basic) {
            device.extend(basic);
        }
    }
}

fn list_mut<'a>(object: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = object.pointer_mut(path).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}
