//! Annotations that say what fields say, too.

use serde_json::{Value, json};

use super::{changed, pod, wrong};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOIDED: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

fn annotated(key: &str, text: &str) -> Value {
    json!({"labels": {"a": "b"}, "annotations": {key: text}})
}

fn costly_pod(cost: &str) -> Value {
    pod(|pod| pod["metadata"] = annotated(COST, cost))
}

fn deployment(cost: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": annotated(COST, cost),
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }})
}

#[test]
fn a_wrong_cost_stays_where_it_was() {
    let why = "Invalid value: \"much\": must be a 32bit integer";
    assert_eq!(
        wrong(costly_pod("much")),
        [format!("metadata.annotations[{COST}]: {why}")]
    );
    assert_eq!(
        wrong(deployment("much")),
        [format!("spec.template.annotations[{COST}]: {why}")]
    );
    for (object, place) in [
        (
            costly_pod as fn(&str) -> Value,
            &["metadata", "annotations"][..],
        ),
        (deployment, &["spec", "template", "metadata", "annotations"]),
    ] {
        let to = |cost: &str, new: &str| {
            changed(object(cost), |object| {
                let place = place.iter().fold(object, |at, key| &mut at[*key]);
                place[COST] = new.into();
            })
        };
        assert_eq!(to("much", "more"), [""; 0]);
        assert_eq!(to("1", "2"), [""; 0]);
        assert_ne!(to("1", "much"), [""; 0]);
    }
}

fn node(key: &str, text: &str) -> Vec<String> {
    let metadata = annotated(key, text);
    wrong(json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}))
}

#[test]
fn taints_in_an_annotation_are_checked_like_those_in_the_field() {
    for good in ["", "[]", "[{\"key\":\"a\",\"effect\":\"NoSchedule\"}]"] {
        assert_eq!(node(TAINTS, good), [""; 0], "{good}");
    }
    assert_eq!(
        node(TAINTS, "[{\"key\":\"a\"}]"),
        [format!(
            "metadata.annotations.{TAINTS}[0].effect: Required value"
        )]
    );
    assert_eq!(
        node(TAINTS, "[1]"),
        [format!(
            "metadata.annotations: Invalid value: \"{TAINTS}\": json: cannot unmarshal number into Go \
             value of type core.Taint"
        )]
    );
}

#[test]
fn pods_to_avoid_are_those_of_a_controller() {
    let of = |controller: Value| {
        let pods = json!({"preferAvoidPods": [
            {"podSignature": {"podController": {"controller": controller}}}]});
        node(AVOIDED, &pods.to_string())
    };
    assert_eq!(of(true.into()), [""; 0]);
    let path = format!("metadata.annotations.{AVOIDED}[0].PodSignature");
    assert_eq!(
        of(false.into()),
        [format!(
            "{path}.PodController.Controller: Invalid value: false: must point to a controller"
        )]
    );
    assert_eq!(
        node(AVOIDED, "{\"preferAvoidPods\":[{}]}"),
        [format!("{path}: Required value")]
    );
    assert_eq!(
        node(AVOIDED, "x"),
        [format!(
            "metadata.annotations.AvoidPods: Invalid value: \"{AVOIDED}\": invalid character 'x' looking \
             for beginning of value"
        )]
    );
}
