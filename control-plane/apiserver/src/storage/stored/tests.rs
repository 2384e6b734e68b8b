use serde_json::json;

use super::*;
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;

fn pods() -> Arc<Storage> {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let pods = catalogue.resource("", "v1", "pods").unwrap();
    Arc::clone(pods.stored().unwrap())
}

fn pod() -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "n", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}], "nodeName": "node"},
        "status": {"phase": "Running"},
    })
}

/// An object stored in both forms.
fn both(object: &Value) -> [Stored; 2] {
    let wire = protobuf::encode(object).unwrap();
    let text = object.to_string().into_bytes();
    [wire, text].map(|bytes| Stored::read(&pods(), "/registry/pods/n/p", &bytes, 7).unwrap())
}

#[test]
fn both_forms_say_the_same_to_selectors() {
    for stored in both(&pod()) {
        assert_eq!(
            (stored.name().as_str(), stored.namespace().as_str()),
            ("p", "n")
        );
        assert_eq!(
            (stored.label("app"), stored.label("other")),
            (Some("web"), None)
        );
        for (field, text) in [
            ("metadata.name", "p"),
            ("spec.nodeName", "node"),
            ("status.phase", "Running"),
            ("status.podIP", ""),
            ("spec.hostNetwork", "false"),
        ] {
            assert_eq!(stored.field(field), text, "{field}");
        }
    }
}

#[test]
fn both_forms_have_the_revision_they_are_asked_for() {
    for stored in both(&pod()) {
        let version = |stored: &Stored| {
            let object = stored.decode().unwrap();
            object::resource_version(&object).to_owned()
        };
        assert_eq!(version(&stored), "7");
        let later = stored.at(1_234_567).unwrap();
        assert_eq!(
            (version(&later).as_str(), later.revision),
            ("1234567", 1_234_567)
        );
        let text = later.text().unwrap();
        let metadata: Value = serde_json::from_slice(text.metadata()).unwrap();
        assert_eq!(metadata, later.decode().unwrap()["metadata"]);
    }
}

#[test]
fn protobuf_that_is_not_as_we_write_it_is_written_anew() {
    let wire = protobuf::encode(&pod()).unwrap();
    // An envelope without its two empty fields, as other programs may write it.
    let odd = Stored::read(&pods(), "k", &wire[..wire.len() - 4], 7).unwrap();
    let plain = Stored::read(&pods(), "k", &wire, 7).unwrap();
    assert_eq!(odd.protobuf(), plain.protobuf());
    assert!(odd.protobuf().is_some());
    assert!(Stored::read(&pods(), "k", b"k8s\0nothing", 7).is_err());
    assert!(Stored::read(&pods(), "k", b"{", 7).is_err());
}

#[test]
fn the_text_of_an_object_knows_where_its_metadata_is() {
    for object in [
        pod(),
        json!({"metadata": {"a": "\"metadata\":"}}),
        json!({"apiVersion": "\"metadata\":", "metadata": {}, "z": 1}),
        json!({"kind": "K"}),
    ] {
        let text = Text::of(&object);
        let metadata: Value = serde_json::from_slice(text.metadata()).unwrap();
        assert_eq!(
            metadata,
            object.get("metadata").cloned().unwrap_or_default()
        );
    }
}
