//! Addresses and ranges in a form that not everybody reads alike.

use std::net::IpAddr;

use machinery::object;
use serde_json::Value;

use crate::basics::address;
use crate::basics::cidr::Cidr;
use crate::validate::networking::policy;

/// The ranges of a network policy.
pub(in crate::registry::strategy) fn of_network_policy(
    _old: Option<&Value>,
    object: &Value,
) -> Vec<String> {
    let ranges = policy::ranges(object).into_iter();
    let warnings = ranges.map(|one| of_range(&one.path, one.value.as_str().unwrap_or_default()));
    warnings.flatten().collect()
}

/// The addresses in the status of a service or an ingress.
pub(in crate::registry::strategy) fn of_balancer(object: &Value) -> Vec<String> {
    let all = object::items(object, &["status", "loadBalancer", "ingress"]);
    let all = all.iter().enumerate();
    let warnings = all.filter_map(|(at, one)| {
        let field = format!("status.loadBalancer.ingress[{at}]");
        of_address(&field, one.get("ip")?.as_str()?)
    });
    warnings.collect()
}

/// The addresses in the status of a pod.
pub(in crate::registry::strategy) fn of_pod_status(pod: &Value) -> Vec<String> {
    let lists = ["podIPs", "hostIPs"].into_iter();
    let warnings = lists.flat_map(|key| {
        let all = object::items(pod, &["status", key]).iter().enumerate();
        all.filter_map(move |(at, one)| {
            let text = one.get("ip")?.as_str()?;
            of_address(&format!("status.{key}[{at}].ip"), text)
        })
    });
    warnings.collect()
}

pub(super) fn of_addresses(key: &str, addresses: &[Value]) -> impl Iterator<Item = String> {
    let texts = addresses.iter().enumerate();
    texts.filter_map(move |(at, text)| of_address(&format!("spec.{key}[{at}]"), text.as_str()?))
}

pub(super) fn of_address(field: &str, text: &str) -> Option<String> {
    let means = address::read(text)?;
    if text.parse() != Ok(means) {
        return Some(format!(
            "{field}: non-standard IP address {text:?} is invalid: use \"{means}\""
        ));
    }
    let usual = means.to_string();
    (usual != text).then(|| {
        format!("{field}: IPv6 address {text:?} should be in RFC 5952 canonical format ({usual:?})")
    })
}

pub(super) fn of_range(field: &str, text: &str) -> Vec<String> {
    let Some((address, bits)) = address::read_range(text) else {
        return Vec::new();
    };
    let Some(range) = Cidr::parse(&format!("{address}/{bits}")) else {
        return Vec::new();
    };
    let usual = range.to_string();
    let mut warnings = Vec::new();
    if address != range.at(0) {
        let all = if address.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{field}: CIDR value {text:?} is ambiguous in this context (should be {usual:?} or \
             \"{address}/{all}\"?)"
        ));
    }
    let is_mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    if is_mapped || Cidr::parse(text).is_none() {
        warnings.push(format!(
            "{field}: non-standard CIDR value {text:?} is invalid: use {usual:?}"
        ));
    }
    if warnings.is_empty() && usual != text {
        warnings.push(format!(
            "{field}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({usual:?})"
        ));
    }
    warnings
}
