use super::*;
use crate::resources::custom::Definition;

fn resources(plural: &str, group: &str, description: &str) -> Vec<Arc<Resource>> {
    let mut definition = Definition::widgets();
    definition.group = group.to_owned();
    definition.names.plural = plural.to_owned().into();
    let schema = json!({"type": "object", "description": description});
    definition.versions[0].schema = Some(schema);
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
