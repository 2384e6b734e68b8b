use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, decide, decide_after, lines, owner};

const KEY: (&str, &str) = ("n", "web");

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "n", "name": "web", "generation": 1,
            "annotations": {REVISION: "2"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
        },
    })
}

/// A replica set of the deployment with so many replicas, `available` of them available.
fn set(image: &str, revision: i64, replicas: i64, available: i64, desired: i64) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"][HASH] = image.into();
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "n", "name": format!("web-{image}"), "generation": 1,
            "creationTimestamp": ago(1000 - revision),
            "labels": {"app": "web", HASH: image},
            "annotations": {
                REVISION: revision.to_string(), DESIRED: desired.to_string(),
                MOST: (desired + (desired + 3) / 4).to_string(),
            },
            "ownerReferences": [owner("apps/v1", "Deployment", "web")],
        },
        "spec": {
            "replicas": replicas, "template": template,
            "selector": {"matchLabels": {"app": "web", HASH: image}},
        },
        "status": {
            "replicas": replicas, "readyReplicas": available, "availableReplicas": available,
            "observedGeneration": 1,
        },
    })
}

/// The sizes that a decision sets.
fn sizes(objects: &[Value]) -> Vec<String> {
    let decision = decide(&Deployments, &caches(objects), KEY);
    let lines = lines(&decision).into_iter().zip(bodies(&decision));
    let scales = lines.filter(|(line, _)| line.starts_with("patch replicasets"));
    scales
        .map(|(line, body)| {
            let name = line.rsplit('/').next().unwrap_or_default().to_owned();
            format!("{name}={}", body["spec"]["replicas"])
        })
        .collect()
}

#[test]
fn a_deployment_with_the_longest_name_has_a_set() {
    let mut long = deployment(1, "one");
    let name = "w".repeat(253);
    long["metadata"]["name"] = name.clone().into();
    let decision = decide(&Deployments, &caches(&[long]), ("n", &name));
    let made = &bodies(&decision)[0]["metadata"];
    let hash = made["labels"][HASH].as_str().unwrap();
    let wanted = format!("{}-{hash}", &name[..252 - hash.len()]);
    assert_eq!(made["name"], json!(wanted));
}

#[test]
fn a_new_template_gets_a_set_as_large_as_the_surge_allows() {
    let objects = [deployment(4, "two"), set("one", 2, 4, 4, 4)];
    let decision = decide(&Deployments, &caches(&objects), KEY);
    assert_eq!(lines(&decision).len(), 2);
    let made = &bodies(&decision)[0];
    assert_eq!(made["spec"]["replicas"], 1);
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(annotations[REVISION], "3");
    assert_eq!(
        (&annotations[DESIRED], &annotations[MOST]),
        (&"4".into(), &"5".into())
    );
    let name = made["metadata"]["name"].as_str().unwrap();
    let hash = made["metadata"]["labels"][HASH].as_str().unwrap();
    assert_eq!(name, format!("web-{hash}"));
    assert_eq!(made["spec"]["selector"]["matchLabels"][HASH], hash);
    let condition = &bodies(&decision)[1]["status"]["conditions"];
    let reasons: Vec<&str> = condition
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["reason"].as_str())
        .collect();
    assert!(reasons.contains(&"MinimumReplicasAvailable"), "{reasons:?}");
}

#[test]
fn old_sets_shrink_only_by_what_serves_elsewhere() {
    // 25% of 4: surge 1, unavailable 1. The new pod is not available yet, so one old pod may go.
    let base = |new_available| {
        vec![
            deployment(4, "two"),
            set("one", 1, 4, 4, 4),
            set("two", 2, 1, new_available, 4),
        ]
    };
    assert_eq!(sizes(&base(0)), ["web-one=3"]);
    assert_eq!(sizes(&base(1)), ["web-one=2"]);
    // Replicas that are not available go first in any case.
    let idle = [
        deployment(4, "two"),
        set("one", 1, 3, 2, 4),
        set("two", 2, 2, 1, 4),
    ];
    assert_eq!(sizes(&idle), ["web-one=2"]);
}

#[test]
fn a_changed_number_is_spread_in_proportion() {
    // In the middle of a rollout from 10 to 20: 13 of at most 13 replicas become 25 of 25.
    let objects = [
        deployment(20, "two"),
        set("one", 1, 8, 8, 10),
        set("two", 2, 5, 3, 10),
    ];
    assert_eq!(sizes(&objects), ["web-one=15", "web-two=10"]);
    let none = [
        deployment(0, "two"),
        set("one", 1, 8, 8, 10),
        set("two", 2, 5, 3, 10),
    ];
    assert_eq!(sizes(&none), ["web-one=0", "web-two=0"]);
}

#[test]
fn a_paused_deployment_is_scaled_but_not_rolled_out() {
    let mut paused = deployment(6, "two");
    paused["spec"]["paused"] = true.into();
    let objects = [paused.clone(), set("one", 2, 4, 4, 4)];
    assert_eq!(sizes(&objects), ["web-one=6"]);
    let objects = [paused, set("one", 2, 6, 6, 6)];
    let decision = decide(&Deployments, &caches(&objects), KEY);
    assert_eq!(lines(&decision), ["update status of deployments n/web"]);
}

#[test]
fn recreating_ends_every_old_pod_before_it_makes_a_new_one() {
    let mut recreate = deployment(2, "two");
    recreate["spec"]["strategy"] = json!({"type": "Recreate"});
    let old = set("one", 2, 2, 2, 2);
    assert_eq!(sizes(&[recreate.clone(), old.clone()]), ["web-one=0"]);
    let empty = set("one", 2, 0, 0, 2);
    let mut ends = crate::tests::fixtures::pod("p", "a", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    ends["metadata"]["ownerReferences"] = json!([owner("apps/v1", "ReplicaSet", "web-one")]);
    let decision = decide(
        &Deployments,
        &caches(&[recreate.clone(), empty.clone(), ends]),
        KEY,
    );
    assert_eq!(lines(&decision), ["update status of deployments n/web"]);
    let decision = decide(&Deployments, &caches(&[recreate, empty]), KEY);
    assert_eq!(bodies(&decision)[0]["kind"], "ReplicaSet");
    assert_eq!(bodies(&decision)[0]["spec"]["replicas"], 2);
}

#[test]
fn an_earlier_template_is_taken_up_with_a_new_number() {
    let objects = [
        deployment(1, "one"),
        set("one", 1, 0, 0, 1),
        set("two", 2, 1, 1, 1),
    ];
    let decision = decide(&Deployments, &caches(&objects), KEY);
    assert_eq!(lines(&decision)[0], "patch replicasets n/web-one");
    let annotations = &bodies(&decision)[0]["metadata"]["annotations"];
    assert_eq!(annotations[REVISION], "3");
    assert_eq!(
        annotations["deployment.kubernetes.io/revision-history"],
        "1"
    );
}

#[test]
fn the_number_of_the_template_is_told_with_the_status() {
    // A separate write would change only annotations, and so create a new generation to observe.
    let objects = [deployment(1, "two"), set("two", 3, 1, 1, 1)];
    let decision = decide(&Deployments, &caches(&objects), KEY);
    assert_eq!(lines(&decision), ["update status of deployments n/web"]);
    let told = &bodies(&decision)[0];
    assert_eq!(told["metadata"]["annotations"][REVISION], "3");
    assert_eq!(told["status"]["availableReplicas"], 1);
}

#[test]
fn a_name_that_is_taken_changes_the_hash() {
    let objects = [deployment(1, "two")];
    let decision = decide(&Deployments, &caches(&objects), KEY);
    let name = bodies(&decision)[0]["metadata"]["name"].clone();
    let mut other = set("one", 1, 0, 0, 1);
    other["metadata"]["name"] = name;
    other["metadata"]["labels"] = json!({"app": "other"});
    other["metadata"]["ownerReferences"] = json!([owner("apps/v1", "Deployment", "other")]);
    let decision = decide(&Deployments, &caches(&[deployment(1, "two"), other]), KEY);
    assert_eq!(lines(&decision), ["update status of deployments n/web"]);
    assert_eq!(bodies(&decision)[0]["status"]["collisionCount"], 1);
}

#[test]
fn a_set_that_cannot_be_made_is_told_before_it_is_tried_again() {
    let failure = crate::loops::Failure {
        creating: true,
        deleting: false,
        message: "forbidden".into(),
    };
    let caches = caches(&[deployment(1, "two")]);
    let decision = decide_after(&Deployments, &caches, KEY, Some(&failure));
    let [status, create] = &lines(&decision)[..] else {
        panic!("{:?}", lines(&decision));
    };
    assert_eq!(status, "update status of deployments n/web");
    assert!(create.starts_with("create replicasets"), "{create}");
    let conditions = bodies(&decision)[0]["status"]["conditions"].clone();
    let conditions = conditions.as_array().unwrap();
    let progress = conditions
        .iter()
        .find(|c| c["type"] == "Progressing")
        .unwrap();
    assert_eq!(progress["reason"], "ReplicaSetCreateError");
    let message = progress["message"].as_str().unwrap();
    assert!(message.ends_with(": forbidden"), "{message}");
}

#[test]
fn a_roll_out_that_stands_still_is_told_after_its_deadline() {
    let told = |seconds: i64| {
        let mut stuck = deployment(4, "two");
        stuck["status"] = json!({
            "observedGeneration": 1, "replicas": 5, "updatedReplicas": 2, "readyReplicas": 3,
            "availableReplicas": 3, "unavailableReplicas": 2,
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
                    "lastUpdateTime": ago(seconds)},
            ],
        });
        let objects = [stuck, set("one", 1, 3, 3, 4), set("two", 2, 2, 0, 4)];
        decide(&Deployments, &caches(&objects), KEY)
    };
    let waits = told(500);
    assert_eq!(waits.after, Some(std::time::Duration::from_secs(100)));
    let late = told(601);
    let condition = &bodies(&late)[0]["status"]["conditions"][1];
    assert_eq!(condition["reason"], "ProgressDeadlineExceeded");
    assert_eq!(condition["status"], "False");
}

#[test]
fn history_keeps_as_many_empty_sets_as_it_is_told() {
    let mut done = deployment(1, "new");
    done["spec"]["revisionHistoryLimit"] = 1.into();
    done["metadata"]["annotations"][REVISION] = "4".into();
    done["status"] = json!({
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
        "availableReplicas": 1,
    });
    let sets = ["a", "b", "c"]
        .iter()
        .zip(1..)
        .map(|(image, revision)| set(image, revision, 0, 0, 1));
    let mut objects: Vec<Value> = sets.collect();
    objects.extend([done, set("new", 4, 1, 1, 1)]);
    let decision = decide(&Deployments, &caches(&objects), KEY);
    let deleted: Vec<String> = lines(&decision)
        .into_iter()
        .filter(|line| line.starts_with("delete"))
        .collect();
    assert_eq!(
        deleted,
        ["delete replicasets n/web-a", "delete replicasets n/web-b"]
    );
}

#[test]
fn the_hash_of_a_template_stays_the_same_between_versions() {
    // If the hash changed, every deployment would roll out again.
    let template = serde_json::from_value(template("one")).unwrap();
    assert_eq!(revision::hash(&template, 0), HASH_OF_ONE);
    assert_ne!(revision::hash(&template, 1), HASH_OF_ONE);
}

const HASH_OF_ONE: &str = "5758b7489d";
