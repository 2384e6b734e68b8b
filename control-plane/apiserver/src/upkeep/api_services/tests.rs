use super::*;

#[test]
fn built_in_groups_have_the_priorities_of_kubernetes() {
    let all = of_builtin();
    let priorities = |name: &str| {
        let spec = &all[name]["spec"];
        let number = |key: &str| spec[key].as_i64().unwrap();
        (number("groupPriorityMinimum"), number("versionPriority"))
    };
    assert_eq!(priorities("v1."), (18000, 1));
    assert_eq!(priorities("v1.apps"), (17800, 15));
    assert_eq!(priorities("v1.autoscaling"), (17500, 15));
    assert_eq!(priorities("v2.autoscaling"), (17500, 30));
    assert_eq!(priorities("v1.resource.k8s.io"), (16200, 21));
    assert_eq!(all["v1."]["spec"].get("group"), None);
    assert!(!all.contains_key("v1.apiregistration.k8s.io"));
    assert_eq!(all.len(), 21);
}

#[test]
fn definitions_add_the_versions_that_they_serve() {
    let definition = |group: &str, versions: &[(&str, bool)]| {
        let version = |(name, served): &(&str, bool)| json!({"name": name, "served": served});
        let versions: Vec<Value> = versions.iter().map(version).collect();
        Arc::new(json!({"spec": {"group": group, "versions": versions}}))
    };
    let all = of_definitions(&[
        definition("a.example.com", &[("v1", true), ("v1beta1", false)]),
        definition("a.example.com", &[("v1", true), ("v2", true)]),
    ]);
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(names, ["v1.a.example.com", "v2.a.example.com"]);
    let first = &all["v1.a.example.com"];
    let spec = json!({
        "group": "a.example.com", "version": "v1",
        "groupPriorityMinimum": 1000, "versionPriority": 100,
    });
    assert_eq!(first["spec"], spec);
    assert_eq!(first["metadata"]["labels"][KEPT], ALWAYS);
}
