#![expect(
    clippy::disallowed_methods,
    reason = "reads Kubernetes' sample and writes the committed table"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::*;

/// Names of Kubernetes' sample files, in the order of the table.
const SAMPLES: [&str; 6] = [
    "cluster-roles",
    "controller-roles",
    "namespace-roles",
    "cluster-role-bindings",
    "controller-role-bindings",
    "namespace-role-bindings",
];

#[test]
fn the_table_says_what_kubernetes_sample_says() {
    let Some(samples) = samples() else {
        eprintln!("skipped: no module k8s.io/kubernetes v1.36.3 here");
        return;
    };
    let mut expected = BTreeMap::new();
    let mut table = String::new();
    for name in SAMPLES {
        let text = std::fs::read_to_string(samples.join(format!("{name}.yaml"))).unwrap();
        let list: Value = serde_saphyr::from_str(&text).unwrap();
        for item in object::items(&list, &["items"]) {
            write_object(&mut table, item);
            expected.insert(place(item), item.clone());
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/auth/authorize/rbac/bootstrap.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &table).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        table,
        "the table is stale; UPDATE=1 makes it anew"
    );
    for mut ours in objects() {
        let theirs = expected.remove(&place(&ours)).unwrap();
        if ours.get("aggregationRule").is_some() {
            // In the sample, a controller writes the sum later.
            ours["rules"] = Value::Null;
        }
        assert_eq!(ours, theirs);
    }
    assert!(expected.is_empty(), "{:?}", expected.keys());
}

#[test]
fn every_binding_finds_its_role() {
    let mut policy = crate::auth::authorize::rbac::Policy::default();
    let all = objects();
    for object in &all {
        policy.put(object::kind(object), object);
    }
    for binding in all.iter().filter(|object| object.get("roleRef").is_some()) {
        let role = crate::auth::authorize::rbac::RoleRef::of(binding);
        let rules = policy.referred(&role, object::namespace(binding)).unwrap();
        assert!(!rules.is_empty(), "{}", object::name(binding));
    }
    assert!(all.len() > 100, "{}", all.len());
}

#[test]
fn what_is_missing_is_added_and_what_an_owner_added_stays() {
    let all = objects();
    let wanted = all
        .iter()
        .find(|object| object::name(object) == "system:discovery")
        .unwrap();
    assert_eq!(reconciled(wanted, wanted), None);

    let own = json!({ "nonResourceURLs": ["/mine"], "verbs": ["get"] });
    let mut stored = wanted.clone();
    stored["rules"] = json!([own]);
    let new = reconciled(&stored, wanted).unwrap();
    assert_eq!(new["rules"][0], own);
    assert_eq!(new["rules"][1], wanted["rules"][0]);

    stored["metadata"]["annotations"][AUTOUPDATE] = "false".into();
    assert_eq!(reconciled(&stored, wanted), None, "its owner took it over");
}

#[test]
fn subjects_come_back_unless_the_role_was_changed() {
    let all = objects();
    let wanted = all
        .iter()
        .find(|o| object::kind(o) == "ClusterRoleBinding" && object::name(o) == "system:basic-user")
        .unwrap();
    let mut stored = wanted.clone();
    stored["subjects"] = json!([]);
    assert_eq!(reconciled(&stored, wanted).as_ref(), Some(wanted));
    stored["roleRef"]["name"] = "view".into();
    assert_eq!(reconciled(&stored, wanted), None);
}

fn samples() -> Option<PathBuf> {
    let modules = std::env::var_os("GOMODCACHE").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join("go/pkg/mod"));
    let path = modules
        .or_else(home)?
        .join("k8s.io/kubernetes@v1.36.3/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata");
    path.is_dir().then_some(path)
}

fn place(object: &Value) -> (String, String, String) {
    let text = str::to_owned;
    (
        text(object::kind(object)),
        text(object::namespace(object)),
        text(object::name(object)),
    )
}

fn write_object(table: &mut String, object: &Value) {
    let mut name = object::name(object).to_owned();
    if !object::namespace(object).is_empty() {
        name = format!("{}/{name}", object::namespace(object));
    }
    let kind = object::kind(object);
    let what = match kind {
        "ClusterRole" => "cluster-role",
        "Role" => "role",
        "ClusterRoleBinding" => "cluster-binding",
        _ => "binding",
    };
    write!(table, "{what} {name}").unwrap();
    if kind.ends_with("Binding") {
        let role = object::text(object, &["roleRef", "name"]);
        match (kind, object::text(object, &["roleRef", "kind"])) {
            ("ClusterRoleBinding", _) => write!(table, " {role}").unwrap(),
            (_, "Role") => write!(table, " role:{role}").unwrap(),
            _ => write!(table, " cluster-role:{role}").unwrap(),
        }
        for subject in object::items(object, &["subjects"]) {
            let name = object::text(subject, &["name"]);
            match object::text(subject, &["kind"]) {
                "User" => write!(table, " user:{name}").unwrap(),
                "Group" => write!(table, " group:{name}").unwrap(),
                _ => {
                    let namespace = object::text(subject, &["namespace"]);
                    write!(table, " account:{namespace}/{name}").unwrap();
                }
            }
        }
    }
    for selector in object::items(object, &["aggregationRule", "clusterRoleSelectors"]) {
        for label in selector["matchLabels"].as_object().unwrap().keys() {
            write!(table, " aggregates={label}").unwrap();
        }
    }
    for (label, value) in object::labels(object).unwrap() {
        if value == "true" {
            write!(table, " label={label}").unwrap();
        }
    }
    table.push('\n');
    for rule in object::items(object, &["rules"]) {
        let rule = Rule::from_value(rule);
        write!(table, "  {} ", rule.verbs.join(",")).unwrap();
        if rule.api_groups.is_empty() {
            write!(table, "url {}", rule.non_resource_urls.join(",")).unwrap();
        } else {
            let groups: Vec<&str> = rule
                .api_groups
                .iter()
                .map(|group| if group.is_empty() { "-" } else { group })
                .collect();
            write!(table, "{} {}", groups.join(","), rule.resources.join(",")).unwrap();
        }
        if !rule.resource_names.is_empty() {
            write!(table, " {}", rule.resource_names.join(",")).unwrap();
        }
        table.push('\n');
    }
}
