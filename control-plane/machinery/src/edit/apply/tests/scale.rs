//! The managers of scales and of their parents: `testdata/scale.jsonl`.

use super::*;

struct Scales;

impl Versions for Scales {
    fn typing(&self, api_version: &str) -> Option<&dyn Typing> {
        (api_version == "autoscaling/v1").then(|| message() as &dyn Typing)
    }

    fn empty(&self) -> Value {
        scale(0)
    }

    fn convert(&self, _object: &Value, _api_version: &str) -> Result<Value, Unconverted> {
        Err(Unconverted::Unknown)
    }
}

fn message() -> &'static schema::Message {
    schema::kind("apps", "v1", "Deployment")
        .unwrap()
        .subresource("scale")
        .unwrap()
        .message()
}

fn scale(replicas: i64) -> Value {
    let spec = if replicas == 0 {
        json!({})
    } else {
        json!({"replicas": replicas})
    };
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": spec,
        "metadata": {"name": "s", "namespace": "n", "uid": "u"}, "status": {"replicas": 0}})
}

/// Where the versions of the parent have their number of replicas.
fn replicas(api_version: &str) -> Replicas {
    match api_version {
        "a.example/v1" => Replicas::At(["spec", "replicas"].map(Into::into).into()),
        "a.example/v2" => Replicas::At(["spec", "pods", "count"].map(Into::into).into()),
        "a.example/v3" => Replicas::Nowhere,
        _ => Replicas::Unknown,
    }
}

/// The entries in an order of their own: Kubernetes leaves it to chance where times are equal.
fn entries(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut entries: Vec<String> = entries
        .into_iter()
        .flatten()
        .map(Value::to_string)
        .collect();
    entries.sort();
    entries
}

/// The entries of a Scale, which nobody sees. One manager may have two of them in Kubernetes, from
/// two versions of the parent, and only one counts.
fn without_times(entries: &Value) -> std::collections::BTreeSet<String> {
    let entries = entries.as_array().into_iter().flatten();
    let entries = entries.map(|entry| {
        let mut entry = entry.clone();
        object::remove(&mut entry, &["time"]);
        entry.to_string()
    });
    entries.collect()
}

fn with_entries(entries: &Value) -> Value {
    json!({"metadata": {"managedFields": entries}})
}

fn check_line(line: &Value) {
    let parent = Managers::of(&with_entries(&line["parent"])).unwrap();
    let mut live = scale(3);
    to_scale(&parent, replicas).write(&mut live);
    let shown = without_times(&line["scale"]);
    let ours = without_times(&live["metadata"]["managedFields"]);
    assert_eq!(ours, shown, "{line}");
    let write = Write {
        versions: &Scales,
        api_version: "autoscaling/v1",
        subresource: "scale",
        reset: &Reset::of(&[]),
        manager: line["manager"].as_str().unwrap(),
        now: NOW,
    };
    let result = match line["update"].as_i64() {
        Some(replicas) => {
            let mut new = live.clone();
            object::set(&mut new, &["spec", "replicas"], replicas.into());
            write.update(&live, &mut new).map(|()| new)
        }
        None => write.apply(&live, &line["apply"], line["force"] == true),
    };
    let scale = match (result, line["error"].as_str()) {
        (Ok(scale), None) => scale,
        (Err(ours), Some(theirs)) => {
            let ours = ours.to_string();
            return assert_eq!(sorted(&ours), sorted(theirs), "{line}");
        }
        (ours, theirs) => panic!("{ours:?}, theirs {theirs:?}: {line}"),
    };
    let count = object::integer(&scale, &["spec", "replicas"]).unwrap_or(0);
    assert_eq!(Some(count), line["replicas"].as_i64(), "{line}");
    let of_scale = Managers::of(&scale).unwrap();
    let mut object = json!({});
    let version = line["version"].as_str().unwrap();
    to_parent(&parent, of_scale, version, replicas).write(&mut object);
    assert_eq!(
        entries(&object),
        entries(&with_entries(&line["result"])),
        "{line}"
    );
}

#[test]
fn managers_of_scales_are_those_of_kubernetes() {
    let lines = include_str!("../../../../testdata/scale.jsonl").lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() > 100);
    lines.iter().for_each(check_line);
}
