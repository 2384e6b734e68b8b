use std::sync::Arc;

use machinery::schema::{Names, Scope};
use serde_json::{Value, json};
use tonic::transport::Endpoint;

use super::super::{Attributes, CREATE, Context, Warnings};
use super::Criteria;
use crate::Config;
use crate::auth::User;
use crate::registry::strategy;
use crate::resources::catalogue::{Catalogue, Resource};
use crate::resources::custom::{Definition, Version};
use crate::storage::reader::Reader;
use crate::storage::reflector::Reflector;

fn resource(group: &str, version: &str, plural: &str) -> Arc<Resource> {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    Arc::clone(catalogue.resource(group, version, plural).unwrap())
}

/// Whether a rule is about an operation on a resource, written `plural/subresource`.
fn matches(
    rule: &Value,
    operation: &'static str,
    (group, version): (&str, &str),
    what: &str,
) -> bool {
    let (plural, subresource) = what.split_once('/').unwrap_or((what, ""));
    let resource = resource(group, version, plural);
    let attributes = Attributes {
        user: &User::default(),
        operation,
        kind: &resource.kind,
        subresource,
        namespace: "",
        name: "",
        old: None,
        dry: false,
        options: &Value::Null,
        resource: &resource,
        audit: None,
        warnings: &Warnings::default(),
    };
    let criteria = Criteria::read(&json!({"rules": [rule]}), "rules");
    criteria.rules[0].matches(&attributes, &resource)
}

#[test]
fn a_rule_is_about_operations_versions_resources_and_a_scope() {
    let rule = |more: Value| {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": ["apps"],
            "apiVersions": ["v1"], "resources": ["deployments"], "scope": "*"});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        rule
    };
    let (apps, core) = (("apps", "v1"), ("", "v1"));
    let any = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"]});
    let any_with = |resources: &[&str], scope: &str| {
        let mut rule = rule(any.clone());
        (rule["resources"], rule["scope"]) = (resources.into(), scope.into());
        rule
    };
    for (rule, operation, version, what, expected) in [
        (rule(json!({})), "CREATE", apps, "deployments", true),
        (rule(json!({})), "UPDATE", apps, "deployments", false),
        (rule(json!({})), "CREATE", apps, "deployments/scale", false),
        (rule(json!({})), "CREATE", apps, "replicasets", false),
        (
            rule(json!({"apiVersions": ["v1beta1"]})),
            "CREATE",
            apps,
            "deployments",
            false,
        ),
        (
            rule(json!({"apiGroups": [""]})),
            "CREATE",
            apps,
            "deployments",
            false,
        ),
        (any_with(&["*"], "*"), "DELETE", core, "pods", true),
        (any_with(&["*"], "*"), "UPDATE", core, "pods/status", false),
        (any_with(&["*/*"], "*"), "UPDATE", core, "pods/status", true),
        (any_with(&["pods/*"], "*"), "CREATE", core, "pods", true),
        (
            any_with(&["pods/*"], "*"),
            "CREATE",
            core,
            "pods/eviction",
            true,
        ),
        (
            any_with(&["*/scale"], "*"),
            "UPDATE",
            apps,
            "replicasets/scale",
            true,
        ),
        (
            any_with(&["*/scale"], "*"),
            "UPDATE",
            apps,
            "replicasets/status",
            false,
        ),
        (any_with(&["*"], "Namespaced"), "CREATE", core, "pods", true),
        (
            any_with(&["*"], "Namespaced"),
            "CREATE",
            core,
            "namespaces",
            false,
        ),
        (
            any_with(&["*"], "Cluster"),
            "CREATE",
            core,
            "namespaces",
            true,
        ),
        (any_with(&["*"], "Cluster"), "CREATE", core, "pods", false),
    ] {
        let found = matches(&rule, operation, version, what);
        assert_eq!(found, expected, "{operation} {what}: {rule}");
    }
}

/// The versions of a custom resource as one state of its definition has them, `v2` first.
fn widgets(stored: &str) -> Vec<Arc<Resource>> {
    let version = |name: &str| Version {
        name: name.into(),
        served: true,
        stored: name == stored,
        ..Version::default()
    };
    let definition = Definition {
        group: "example.com".into(),
        names: Names {
            kind: "Widget".into(),
            list_kind: "WidgetList".into(),
            plural: "widgets".into(),
            singular: "widget".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
        },
        scope: Scope::Cluster,
        terminating: false,
        uid: String::new(),
        versions: vec![version("v1"), version("v2")],
    };
    definition.resources(None).unwrap()
}

#[tokio::test]
async fn a_rule_about_another_version_matches_what_was_routed_before_the_definition_changed() {
    let (routed, served) = (widgets("v1"), widgets("v2"));
    let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    let api = crate::connected(etcd_api::Client::new(channel), Config::default());
    let store = api.reader().store.clone();
    let reader = Reader {
        reflector: Arc::new(Reflector::new(store.clone(), Catalogue::new(served))),
        store,
    };
    let context = Context {
        reader,
        authorizer: Arc::clone(&api.0.registry.authorizer),
    };
    let attributes = Attributes {
        user: &User::default(),
        operation: CREATE,
        kind: &routed[1].kind,
        subresource: "",
        namespace: "",
        name: "a",
        old: None,
        dry: false,
        options: &Value::Null,
        resource: &routed[1],
        audit: None,
        warnings: &Warnings::default(),
    };
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["example.com"],
        "apiVersions": ["v2"], "resources": ["widgets"], "scope": "*"}]);
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a"}});
    for (policy, expected) in [("Equivalent", Some("example.com/v2")), ("Exact", None)] {
        let criteria = json!({"rules": rules, "matchPolicy": policy});
        let criteria = Criteria::read(&criteria, "rules");
        let matched = criteria.find(&context, &attributes, &object).await.unwrap();
        let shown = match &matched {
            Some(matched) => Some(matched.shown(&attributes, &object).await.unwrap()),
            None => None,
        };
        let shown = shown
            .as_ref()
            .map(|shown| shown["apiVersion"].as_str().unwrap());
        assert_eq!(shown, expected, "{policy}");
    }
}
