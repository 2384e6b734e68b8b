//! Services: addresses, and fields without effect.

use machinery::object;
use serde_json::Value;

use super::addresses::{of_address, of_addresses, of_range};

const TOPOLOGY: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];

pub(in crate::registry::strategy) fn of_service(
    _old: Option<&Value>,
    service: &Value,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let text = |key| object::text(service, &["spec", key]);
    let items = |key| object::items(service, &["spec", key]);
    let (kind, address) = (text("type"), text("clusterIP"));
    let [old, new] = TOPOLOGY;
    if object::at(service, &["metadata", "annotations", old]).is_some() {
        warnings.push(format!(
            "annotation {old} is deprecated, please use {new} instead"
        ));
    }
    if !["", "None"].contains(&address) {
        warnings.extend(of_addresses("clusterIPs", items("clusterIPs")));
    }
    let is_headless = (kind, address) == ("ClusterIP", "None");
    let is_external = kind == "ExternalName";
    let has_external = !items("externalIPs").is_empty();
    let ignored = [
        ("loadBalancerIP", !text("loadBalancerIP").is_empty()),
        ("externalIPs", has_external),
        ("SessionAffinity", text("sessionAffinity") != "None"),
    ];
    for (key, _) in ignored.iter().filter(|(_, has)| is_headless && *has) {
        warnings.push(format!("spec.{key} is ignored for headless services"));
    }
    warnings.extend(of_addresses("externalIPs", items("externalIPs")));
    if has_external && !is_headless && !is_external {
        let why = "is deprecated and may no longer be implemented in some clusters";
        warnings.push(format!("spec.externalIPs {why}"));
    }
    warnings.extend(of_address("spec.loadBalancerIP", text("loadBalancerIP")));
    for (at, range) in items("loadBalancerSourceRanges").iter().enumerate() {
        let field = format!("spec.loadBalancerSourceRanges[{at}]");
        warnings.extend(of_range(&field, range.as_str().unwrap_or_default()));
    }
    if is_external && has_external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".into());
    }
    if !is_external && !text("externalName").is_empty() {
        let why = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        warnings.push(why.to_owned());
    }
    if text("trafficDistribution") == "PreferClose" {
        let why = "\"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(format!("spec.trafficDistribution: {why}"));
    }
    warnings
}

#[test]
fn addresses_are_to_be_written_in_the_usual_way() {
    use serde_json::json;
    let warned = |spec: Value| of_service(None, &json!({"spec": spec}));
    let spec = json!({"type": "LoadBalancer", "clusterIP": "fd00:0::7",
        "clusterIPs": ["fd00:0::7", "10.0.0.7"], "loadBalancerIP": "fd00::8",
        "loadBalancerSourceRanges": ["10.0.0.1/8", "fd00:0::/64", "10.0.0.0/8"]});
    assert_eq!(
        warned(spec),
        [
            "spec.clusterIPs[0]: IPv6 address \"fd00:0::7\" should be in RFC 5952 canonical format (\"fd00::7\")",
            "spec.loadBalancerSourceRanges[0]: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
            "spec.loadBalancerSourceRanges[1]: IPv6 CIDR value \"fd00:0::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")",
        ]
    );
    let headless = json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"],
        "sessionAffinity": "ClientIP", "externalIPs": ["10.0.0.7"]});
    assert_eq!(
        warned(headless),
        [
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
        ]
    );
}
