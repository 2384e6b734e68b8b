use machinery::schema::Scope;
use serde_json::json;

use super::*;
use crate::Config;
use crate::auth::User;
use crate::registry::Registry;
use crate::resources::catalogue::Catalogue;
use crate::resources::custom::Definition;
use crate::storage::reader::Reader;

/// A custom resource as one state of its definition has it.
fn widgets(terminating: bool) -> Arc<Resource> {
    let definition = Definition {
        scope: Scope::Cluster,
        terminating,
        ..Definition::widgets()
    };
    definition.resources(None).unwrap().remove(0)
}

/// A registry without a store that serves these resources.
fn registry(served: Vec<Arc<Resource>>) -> Registry {
    let api = crate::without_store(Config::default());
    let core = Arc::into_inner(api.0).unwrap();
    let mut registry = Arc::into_inner(core.registry).unwrap();
    registry.reader = Reader::without_store(Catalogue::new(served));
    registry
}

#[tokio::test]
async fn what_admission_kept_until_its_definition_was_cleaned_up_is_not_stored() {
    for (served, code) in [
        (Vec::new(), 404),
        (vec![widgets(true)], 403),
        // Nothing but the store is missing.
        (vec![widgets(false)], 500),
    ] {
        let registry = registry(served);
        let writer = Writer {
            registry: &registry,
            user: &User::default(),
            resource: widgets(false),
            namespace: "",
            dry: false,
            options: Value::Null,
            audit: None,
            warnings: Arc::default(),
            manager: String::new(),
        };
        let object = json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "a"}});
        let refused = writer.store_completed(object, &mut Held::none()).await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.code, code, "{refused}");
    }
}
