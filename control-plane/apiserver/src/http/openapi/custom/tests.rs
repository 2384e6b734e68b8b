use machinery::schema::{Names, Scope};

use super::*;
use crate::resources::custom::{Definition, Version};

fn resources(plural: &str, group: &str, description: &str) -> Vec<Arc<Resource>> {
    let definition = Definition {
        group: group.to_owned(),
        names: Names {
            kind: "Widget".into(),
            list_kind: "WidgetList".into(),
            plural: plural.to_owned().into(),
            singular: "widget".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
        },
        scope: Scope::Namespaced,
        terminating: false,
        versions: vec![Version {
            name: "v1".into(),
            served: true,
            stored: true,
            schema: Some(json!({"type": "object", "description": description})),
            ..Version::default()
        }],
    };
    definition.resources(None).unwrap()
}

#[test]
fn documents_of_versions_that_did_not_change_stay() {
    let widgets = resources("widgets", "shop.example.com", "One.");
    let gadgets = resources("gadgets", "other.example.com", "One.");
    let changed = resources("gadgets", "other.example.com", "Two.");
    let documents = CustomDocuments::default();
    let of = |all: [&[Arc<Resource>]; 2]| {
        let catalogue = Catalogue::new(all.concat());
        documents.of(&Arc::new(catalogue))
    };
    let first = of([&widgets, &gadgets]);
    let second = of([&widgets, &changed]);
    let is_same = |path: &str| Arc::ptr_eq(&first[path].text, &second[path].text);
    assert!(is_same("apis/shop.example.com/v1"));
    assert!(!is_same("apis/other.example.com/v1"));
    let hash = |documents: &Documents, path: &str| documents[path].hash.clone();
    let path = "apis/other.example.com/v1";
    assert_ne!(hash(&first, path), hash(&second, path));
    let third = of([&widgets, &[]]);
    assert_eq!(third.len(), 1);
}
