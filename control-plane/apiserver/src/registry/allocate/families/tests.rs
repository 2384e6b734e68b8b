use serde_json::json;

use super::*;

const BOTH: &[Family] = &[Family::V4, Family::V6];
const ONE: &[Family] = &[Family::V6];

fn service(spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": "s"}, "spec": spec});
    if service["spec"].get("type").is_none() {
        service["spec"]["type"] = "ClusterIP".into();
    }
    if service["spec"]["clusterIP"] == "None" {
        service["spec"]["clusterIPs"] = json!(["None"]);
    }
    service
}

/// Policy and families of a service, or the fields of its errors and why they are wrong.
fn completed(old: Option<Value>, new: Value, cluster: &[Family]) -> String {
    let mut new = service(new);
    let old = old.map(service);
    match complete(old.as_ref(), &mut new, cluster) {
        Ok(()) => {
            let names = object::items(&new, &FAMILIES)
                .iter()
                .filter_map(Value::as_str);
            let names: Vec<&str> = names.collect();
            format!("{} {}", policy(&new), names.join(","))
        }
        Err(error) => error.message,
    }
}

fn created(new: Value, cluster: &[Family]) -> String {
    completed(None, new, cluster)
}

#[test]
fn a_new_service_has_the_primary_family_unless_it_says_more() {
    for (spec, both, one) in [
        (json!({}), "SingleStack IPv4", "SingleStack IPv6"),
        (
            json!({"ipFamilyPolicy": PREFERS}),
            "PreferDualStack IPv4,IPv6",
            "PreferDualStack IPv6",
        ),
        (
            json!({"ipFamilyPolicy": PREFERS, "ipFamilies": ["IPv6"]}),
            "PreferDualStack IPv6,IPv4",
            "PreferDualStack IPv6",
        ),
        (
            json!({"clusterIP": "fd00::7", "clusterIPs": ["fd00::7"]}),
            "SingleStack IPv6",
            "SingleStack IPv6",
        ),
        (
            json!({"clusterIP": "None", "selector": {"a": "b"}}),
            "SingleStack IPv4",
            "SingleStack IPv6",
        ),
        // Any cluster may have endpoints that somebody else knows.
        (
            json!({"clusterIP": "None"}),
            "RequireDualStack IPv4,IPv6",
            "RequireDualStack IPv6,IPv4",
        ),
        (json!({"type": "ExternalName"}), " ", " "),
    ] {
        assert_eq!(created(spec.clone(), BOTH), both, "{spec}");
        assert_eq!(created(spec.clone(), ONE), one, "{spec}");
    }
}

#[test]
fn what_the_cluster_does_not_have_is_refused() {
    for (spec, field, why) in [
        (
            json!({"ipFamilyPolicy": REQUIRES}),
            "spec.ipFamilyPolicy",
            "this cluster is not configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv4"]}),
            "spec.ipFamilies[0]",
            "not configured on this cluster",
        ),
        (
            json!({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}),
            "spec.clusterIPs[0]",
            "IPv4 is not configured on this cluster",
        ),
        (
            json!({"ipFamilies": ["IPv6", "IPv4"]}),
            "spec.ipFamilyPolicy",
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
    ] {
        let told = created(spec.clone(), ONE);
        assert!(told.contains(field) && told.contains(why), "{spec}: {told}");
    }
}

#[test]
fn an_update_gets_and_gives_up_the_second_family_by_its_policy() {
    let had = json!({
        "ipFamilyPolicy": REQUIRES, "ipFamilies": ["IPv4", "IPv6"],
        "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7", "fd00::7"],
    });
    let changed = |key: &str, value: Value| {
        let mut new = had.clone();
        new[key] = value;
        completed(Some(had.clone()), new, BOTH)
    };
    assert_eq!(changed("ipFamilyPolicy", SINGLE.into()), "SingleStack IPv4");
    assert_eq!(
        changed("ipFamilyPolicy", Value::Null),
        "RequireDualStack IPv4,IPv6"
    );
    let refused = changed("ipFamilies", json!(["IPv4"]));
    assert!(
        refused.contains("to release the secondary IP family"),
        "{refused}"
    );
    let refused = changed("clusterIPs", json!(["10.0.0.7"]));
    assert!(
        refused.contains("to release the secondary cluster IP"),
        "{refused}"
    );

    let single = json!({
        "ipFamilyPolicy": SINGLE, "ipFamilies": ["IPv6"],
        "clusterIP": "fd00::7", "clusterIPs": ["fd00::7"],
    });
    let mut wants = single.clone();
    wants["ipFamilyPolicy"] = PREFERS.into();
    let got = completed(Some(single), wants.clone(), BOTH);
    assert_eq!(got, "PreferDualStack IPv6,IPv4");
    // One that has preferred two families since the cluster had one stays as it is.
    let kept = completed(Some(wants.clone()), wants, BOTH);
    assert_eq!(kept, "PreferDualStack IPv6");
}
