//! What the server adds to objects of some kinds.

use serde_json::{Value, json};

use crate::harness::cluster::Cluster;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn job(name: &str, labels: &Value, of_template: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels},
        "spec": {"template": {
            "metadata": {"labels": of_template},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]},
        }},
    })
}

#[test]
fn a_job_without_labels_has_those_of_its_template() {
    let cluster = Cluster::start();
    let labels = |name: &str, labels: Value, of_template: Value| {
        let made = cluster
            .post(JOBS, &job(name, &labels, &of_template))
            .expect(201);
        let template = made["spec"]["template"]["metadata"]["labels"].clone();
        (made["metadata"]["labels"].clone(), template)
    };
    for (name, given) in [("none", Value::Null), ("some", json!({"app": "web"}))] {
        let (own, template) = labels(name, Value::Null, given.clone());
        assert_eq!(own, template);
        assert_eq!(own["batch.kubernetes.io/job-name"], name);
        assert_eq!(own.get("app"), given.get("app"));
    }
    // Its own labels are its own, even if they are the same.
    let web = json!({"app": "web"});
    let (own, template) = labels("own", web.clone(), web.clone());
    assert_eq!(own, web);
    assert_eq!(template["batch.kubernetes.io/job-name"], "own");
}

#[test]
fn a_volume_says_since_when_it_is_in_its_phase() {
    const VOLUME: &str = "/api/v1/persistentvolumes/a";
    let cluster = Cluster::start();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/a"},
        },
    });
    let mut volume = cluster
        .post("/api/v1/persistentvolumes", &volume)
        .expect(201);
    assert!(
        volume["status"]["lastPhaseTransitionTime"].is_string(),
        "{volume}"
    );
    volume["status"] = json!({"phase": "Available"});
    let status = cluster
        .call("PUT", &format!("{VOLUME}/status"))
        .json(&volume);
    let available = status.send().expect(200);
    assert!(
        available["status"]["lastPhaseTransitionTime"].is_string(),
        "{available}"
    );
}
