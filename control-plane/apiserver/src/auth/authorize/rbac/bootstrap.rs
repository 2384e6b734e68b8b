//! The default roles and bindings of a cluster, from a table.
//!
//! The table has an unindented line for each role or binding. Below a role it has an indented line
//! for each rule. `-` is the core group; `url` in place of the groups means that paths follow.
//!
//! ```text
//! cluster-role NAME [aggregates=LABEL]… [label=LABEL]…
//!   VERB,… GROUP,… RESOURCE,… [NAME,…]
//!   VERB,… url PATH,…
//! role NAMESPACE/NAME
//! cluster-binding NAME ROLE SUBJECT…
//! binding NAMESPACE/NAME role:NAME|cluster-role:NAME SUBJECT…
//! ```

#[cfg(test)]
mod tests;

use machinery::object;
use serde_json::{Map, Value, json};

use super::{GROUP, Rule};

/// Generated from Kubernetes' own sample of its policy by the tests of this module, which also
/// check that it is up to date.
const TABLE: &str = include_str!("bootstrap.txt");

/// Annotation of objects that the system may update by itself.
pub const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Returns every role and binding of the table, roles first.
pub fn objects() -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for line in TABLE.lines() {
        if let Some(rule) = line.strip_prefix("  ") {
            if let Some(role) = all.last_mut() {
                push(role, "rules", parse_rule(rule).to_value());
            }
        } else if let Some(object) = parse_object(line) {
            all.push(object);
        }
    }
    all.sort_by_key(|object| object::kind(object).ends_with("Binding"));
    fill_aggregates(&mut all);
    all
}

/// Returns the update of `stored` that adds the rules and subjects of `wanted` it lacks, and keeps
/// the owner's additions. `None` if nothing is missing, if the owner disabled updates, or if it
/// binds another role.
pub fn reconciled(stored: &Value, wanted: &Value) -> Option<Value> {
    if object::annotation(stored, AUTOUPDATE) != Some("true") {
        return None;
    }
    let mut new = stored.clone();
    if object::kind(wanted).ends_with("Binding") {
        if stored.get("roleRef") != wanted.get("roleRef") {
            return None;
        }
        for subject in object::items(wanted, &["subjects"]) {
            if !object::items(stored, &["subjects"]).contains(subject) {
                push(&mut new, "subjects", subject.clone());
            }
        }
    } else if wanted.get("aggregationRule").is_none() {
        let held: Vec<Rule> = rules(stored);
        let held: Vec<&Rule> = held.iter().collect();
        for rule in rules(wanted) {
            if rule.parts_beyond(&held).next().is_some() {
                push(&mut new, "rules", rule.to_value());
            }
        }
    }
    (new != *stored).then_some(new)
}

fn rules(role: &Value) -> Vec<Rule> {
    object::items(role, &["rules"])
        .iter()
        .map(Rule::from_value)
        .collect()
}

/// Writes the sums into aggregating roles, for people who read them. Decisions do not depend on it.
fn fill_aggregates(all: &mut [Value]) {
    let mut policy = super::Policy::default();
    for object in all.iter() {
        policy.put(object::kind(object), object);
    }
    for role in all
        .iter_mut()
        .filter(|role| role.get("aggregationRule").is_some())
    {
        let reference = super::RoleRef {
            kind: "ClusterRole".into(),
            name: object::name(role).to_owned(),
        };
        if let Ok(rules) = policy.referred(&reference, "") {
            role["rules"] = rules.iter().map(Rule::to_value).collect();
        }
    }
}

fn parse_object(line: &str) -> Option<Value> {
    let mut words = line.split(' ');
    let (what, place) = (words.next()?, words.next()?);
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "metadata": {
            "annotations": { AUTOUPDATE: "true" },
            "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        },
    });
    let namespaced = matches!(what, "role" | "binding");
    let (namespace, name) = match place.split_once('/') {
        Some((namespace, name)) if namespaced => (Some(namespace), name),
        _ => (None, place),
    };
    let metadata = object::metadata_mut(&mut object);
    metadata.insert("name".into(), name.into());
    if let Some(namespace) = namespace {
        metadata.insert("namespace".into(), namespace.into());
    }
    let kind = match what {
        "cluster-role" => "ClusterRole",
        "role" => "Role",
        "cluster-binding" => "ClusterRoleBinding",
        _ => "RoleBinding",
    };
    object["kind"] = kind.into();
    if kind.ends_with("Binding") {
        let role = words.next()?;
        let (role_kind, role) = match role.split_once(':') {
            Some(("role", name)) if namespaced => ("Role", name),
            Some(("cluster-role", name)) if namespaced => ("ClusterRole", name),
            _ => ("ClusterRole", role),
        };
        object["roleRef"] = json!({ "apiGroup": GROUP, "kind": role_kind, "name": role });
        for subject in words.filter_map(parse_subject) {
            push(&mut object, "subjects", subject);
        }
        return Some(object);
    }
    object["rules"] = json!([]);
    for word in words {
        let (key, label) = word.split_once('=')?;
        let labels: Map<String, Value> = Map::from_iter([(label.to_owned(), "true".into())]);
        if key == "aggregates" {
            let selector = json!({ "matchLabels": labels });
            push(
                &mut object["aggregationRule"],
                "clusterRoleSelectors",
                selector,
            );
        } else {
            object["metadata"]["labels"][label] = "true".into();
        }
    }
    Some(object)
}

fn parse_rule(line: &str) -> Rule {
    let list = |word: &str| word.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (verbs, groups, what, names) = (next(), next(), next(), next());
    let mut rule = Rule {
        verbs: list(verbs),
        ..Rule::default()
    };
    if groups == "url" {
        rule.non_resource_urls = list(what);
        return rule;
    }
    rule.api_groups = list(groups)
        .into_iter()
        .map(|group| if group == "-" { String::new() } else { group })
        .collect();
    rule.resources = list(what);
    if !names.is_empty() {
        rule.resource_names = list(names);
    }
    rule
}

/// Parses `user:NAME`, `group:NAME` or `account:NAMESPACE/NAME`.
fn parse_subject(word: &str) -> Option<Value> {
    let (kind, name) = word.split_once(':')?;
    Some(match kind {
        "account" => {
            let (namespace, name) = name.split_once('/')?;
            json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace })
        }
        "user" => json!({ "apiGroup": GROUP, "kind": "User", "name": name }),
        _ => json!({ "apiGroup": GROUP, "kind": "Group", "name": name }),
    })
}

/// Appends to a list of an object; creates the list if it is missing.
fn push(object: &mut Value, key: &str, value: Value) {
    let list = object::map_mut(object)
        .entry(key)
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Some(list) = list.as_array_mut() {
        list.push(value);
    }
}
