use std::path::Path;
use std::process::Command;

use super::*;

#[test]
fn the_catalogue_is_served() {
    let pods = resource("", "v1", "pods").unwrap();
    assert_eq!((pods.kind(), pods.singular()), ("Pod", "pod"));
    assert_eq!(pods.short_names(), ["po"]);
    assert_eq!(pods.categories(), ["all"]);
    assert!(pods.namespaced() && pods.has_verb("watch"));
    assert!(pods.subresource("eviction").is_some());
    let deployment = kind("apps", "v1", "Deployment").unwrap();
    assert_eq!(deployment.api_version(), "apps/v1");
    let scale = deployment.subresource("scale").unwrap();
    assert_eq!((scale.group(), scale.kind()), ("autoscaling", "Scale"));
    assert_eq!(kinds().len(), 68);
}

#[test]
fn embedded_fields_are_found_by_their_json_names() {
    let volume = message("core/v1.Volume").unwrap();
    let empty = volume.field("emptyDir").unwrap();
    assert_eq!(empty.number, 2);
    assert!(volume.field("volumeSource").is_none());
    let containers = message("core/v1.PodSpec").unwrap();
    let containers = containers.field("containers").unwrap();
    assert_eq!(containers.patch.merge_key, "name");
    assert_eq!(containers.list, ListType::Map);
}

#[test]
fn every_message_parses_and_only_when_it_is_asked_for() {
    let table = parse::table(include_str!("schema.txt"));
    assert!(table.messages.len() > 600);
    assert!(table.messages.iter().all(|one| one.parsed.get().is_none()));
    for (name, id) in &table.by_name {
        let message = id.get();
        assert_eq!(message.name, *name);
        for field in &message.fields {
            // Panics if it names a message that the table does not have.
            field.message();
        }
        let numbers = message.wire_fields().map(|field| field.number);
        assert!(numbers.is_sorted(), "{name}");
        for field in message.wire_fields() {
            assert!(std::ptr::eq(message.numbered(field.number).unwrap(), field));
        }
    }
    let open = message(OPEN).unwrap();
    assert!(open.open && open.typed && open.field("metadata").is_some());
}

#[test]
fn options_are_known_under_every_group() {
    for group in ["", "apps", "meta.k8s.io"] {
        let options = body(group, "v1", "DeleteOptions").unwrap();
        assert!(options.field("propagationPolicy").is_some(), "{group}");
    }
    assert!(body("apps", "v1", "DeploymentList").is_some());
    assert!(body("apps", "v1", "Nothing").is_none());
}

/// Go generates the table and the golden files; where Go is installed, it must make the same files.
#[test]
fn the_generator_makes_what_is_committed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().unwrap();
    let golden = fresh.path().to_str().unwrap();
    let run = |arguments: &[&str]| {
        let mut go = Command::new("go");
        let go = go.args(["run", "-trimpath", "."]).args(arguments);
        go.current_dir(root.join("generate")).output()
    };
    let schema = match run(&["schema"]) {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let offline = ["dial tcp", "lookup ", "proxy"];
            assert!(offline.iter().any(|word| text.contains(word)), "{text}");
            skip("Go's modules cannot be had here");
            return;
        }
        Err(error) => {
            skip(&format!("there is no Go here: {error}"));
            return;
        }
    };
    let committed = include_str!("schema.txt");
    assert!(
        schema == committed.as_bytes(),
        "run generate/: schema.txt is stale"
    );
    assert!(run(&["golden", golden]).unwrap().status.success());
    for entry in std::fs::read_dir(golden).unwrap() {
        let name = entry.unwrap().file_name();
        let read = |dir: &Path| std::fs::read_to_string(dir.join(&name)).unwrap();
        let same = read(fresh.path()) == read(&root.join("testdata"));
        assert!(same, "run generate/: {} is stale", name.display());
    }
}

/// In continuous integration nothing is skipped: there the test fails.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
}

#[test]
fn a_custom_kind_keeps_all_its_fields_and_knows_those_of_metadata() {
    let names = Names {
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        short_names: vec!["wd".into()],
        categories: Vec::new(),
    };
    let kind = Kind::custom("example.com".into(), "v1".into(), names, Scope::Namespaced);
    let kind = kind.with_status();
    assert_eq!(kind.api_version(), "example.com/v1");
    assert!(kind.subresource("status").is_some());
    let body =
        br#"{"kind": "Widget", "metadata": {"name": "a", "odd": 1}, "spec": {"b": [null, {}]},
        "nothing": null, "spec": {"b": []}}"#;
    let read = crate::strict::decode(body, kind.message()).unwrap();
    let metadata = &read.object["metadata"];
    assert!(metadata["name"] == "a" && metadata.get("odd").is_none());
    assert_eq!(read.object["spec"], serde_json::json!({"b": []}));
    assert!(read.object.as_object().unwrap().contains_key("nothing"));
    let problems = ["unknown field \"metadata.odd\"", "duplicate field \"spec\""];
    assert_eq!(read.problems, problems);
    let wrong = crate::strict::decode(br#"{"metadata": {"name": 1}}"#, kind.message());
    assert!(wrong.is_err());
    let stored = crate::strict::as_stored(&read.object, kind.message()).unwrap();
    assert_eq!(stored.object, read.object);
}
