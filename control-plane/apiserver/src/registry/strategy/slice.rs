//! Endpoint slices: the field for topologies is of a version that is no longer served.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use serde_json::Value;

const TOPOLOGY: &str = "deprecatedTopology";
/// The label that named the node before endpoints had a field for it.
const HOST: &str = "kubernetes.io/hostname";

/// A new slice has no topology.
pub(super) fn prepare_for_create(slice: &mut Value) {
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten() {
        object::remove(endpoint, &[TOPOLOGY]);
    }
}

/// Endpoints that change lose theirs. A node that only the topology named is kept as the node.
pub(super) fn prepare_for_update(old: &Value, new: &mut Value) {
    if old.get("endpoints") == new.get("endpoints") {
        return;
    }
    let host = |endpoint: &Value| object::text(endpoint, &[TOPOLOGY, HOST]).to_owned();
    let known: BTreeSet<String> = object::items(old, &["endpoints"])
        .iter()
        .map(host)
        .collect();
    let endpoints = new.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten() {
        let node = host(endpoint);
        let named = endpoint.get("nodeName").is_some();
        if !named && known.contains(&node) && name::dns1123_subdomain(&node).is_empty() {
            object::set(endpoint, &["nodeName"], node.into());
        }
        object::remove(endpoint, &[TOPOLOGY]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_topology_goes_and_leaves_the_node() {
        let topology = |host: &str| json!({TOPOLOGY: {HOST: host, "zone": "z"}});
        let mut new = json!({"endpoints": [topology("a")]});
        prepare_for_create(&mut new);
        assert_eq!(new, json!({"endpoints": [{}]}));

        let old = json!({"endpoints": [topology("a")]});
        let mut new = json!({"endpoints": [topology("a"), topology("b")]});
        prepare_for_update(&old, &mut new);
        assert_eq!(new, json!({"endpoints": [{"nodeName": "a"}, {}]}));

        let mut same = old.clone();
        prepare_for_update(&old, &mut same);
        assert_eq!(same, old);
    }
}
