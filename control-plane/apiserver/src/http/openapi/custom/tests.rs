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

#[tokio::test]
async fn documents_of_versions_that_did_not_change_stay() {
    let widgets = resources("widgets", "shop.example.com", "One.");
    let gadgets = resources("gadgets", "other.example.com", "One.");
    let changed = resources("gadgets", "other.example.com", "Two.");
    let documents = CustomDocuments::default();
    let of = async |all: [&[Arc<Resource>]; 2]| {
        let catalogue = Arc::new(Catalogue::new(all.concat()));
        documents.made(&catalogue).await.unwrap()
    };
    let first = of([&widgets, &gadgets]).await;
    let second = of([&widgets, &changed]).await;
    let is_same = |path: &str| Arc::ptr_eq(&first[path].text, &second[path].text);
    assert!(is_same("apis/shop.example.com/v1"));
    assert!(!is_same("apis/other.example.com/v1"));
    let hash = |documents: &Documents, path: &str| documents[path].hash.clone();
    let path = "apis/other.example.com/v1";
    assert_ne!(hash(&first, path), hash(&second, path));
    let third = of([&widgets, &[]]).await;
    assert_eq!(third.len(), 1);
}

#[test]
fn who_waits_for_documents_takes_no_thread() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let documents = Arc::new(CustomDocuments::default());
        let catalogue: Arc<Catalogue> = Arc::default();
        let being_made = Arc::clone(&documents.0).lock_owned().await;
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let (documents, catalogue) = (Arc::clone(&documents), Arc::clone(&catalogue));
            waiting.spawn(async move { documents.made(&catalogue).await });
        }
        tokio::task::yield_now().await;
        // The only thread is free.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        drop(being_made);
        let all = waiting.join_all().await;
        let first = all[0].as_ref().unwrap();
        let mut others = all[1..].iter();
        assert!(others.all(|other| Arc::ptr_eq(first, other.as_ref().unwrap())));
    });
}
