use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use machinery::status::Status;
use serde_json::{Value, json};

use super::*;
use crate::known::Shared;
use crate::loops::autoscaler::usage::Tolerances;
use crate::tests::fixtures::{ago, discovery, now, pod};

const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/n";
const OUTSIDE: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/n";

/// The kinds of the table, and an adapter of custom metrics in these versions.
fn kinds(versions: &[&str]) -> Kinds {
    let versions = versions
        .iter()
        .map(|one| json!({"version": one, "resources": []}));
    let adapter = json!({"metadata": {"name": "custom.metrics.k8s.io"},
        "versions": versions.collect::<Vec<_>>()});
    let adapters = json!({"items": [adapter]});
    Kinds::read([&discovery(true), &discovery(false), &adapters])
}

/// Two ready pods.
fn pods() -> Vec<Shared<Pod>> {
    let read = |name| Arc::new(serde_json::from_value(pod(name, "m", true)).unwrap());
    ["a", "b"].into_iter().map(read).collect()
}

/// What becomes of a metric whose server answers this, with the path that it is asked for.
fn computed(
    kinds: &Kinds,
    spec: Value,
    answer: Result<Object, Status>,
) -> (Option<String>, Result<Found, Invalid>) {
    let spec: MetricSpec = serde_json::from_value(spec).unwrap();
    let pods = pods();
    let selector = LabelSelector::parse("app=web").unwrap();
    let metrics = |answers| Metrics {
        kinds,
        namespace: "n",
        answers,
        selector: &selector,
        fleet: Fleet {
            pods: &pods,
            current: 2,
            tolerances: Tolerances { up: 0.1, down: 0.1 },
            now: now(),
        },
        replicas: 2,
    };
    let none = Answers::default();
    let question = metrics(&none).question(&spec);
    let mut answers = Answers::default();
    if let Some(call) = &question {
        answers.add(call, answer);
    }
    let asked = question.map(|call| call.to_string().replace("read ", ""));
    (asked, metrics(&answers).compute(&spec))
}

fn items(values: &[&str]) -> Result<Object, Status> {
    let names = ["a", "b", "c"].into_iter();
    let items = names.zip(values).map(|(name, value)| {
        json!({"describedObject": {"name": name}, "value": value, "timestamp": ago(5)})
    });
    Ok(json!({"items": items.collect::<Vec<_>>()}))
}

/// The replicas, the name and the value of a metric in the status.
fn found(found: Result<Found, Invalid>) -> (i32, String, Value) {
    let found = found.unwrap();
    let status = serde_json::to_value(&found.status).unwrap();
    let kind = object::text(&status, &["type"]);
    let key = kind[..1].to_lowercase() + &kind[1..];
    (found.replicas, found.name, status[key]["current"].clone())
}

fn refused() -> Result<Object, Status> {
    Err(Status::new(403, "Forbidden", "no"))
}

#[test]
fn metrics_of_pods_and_objects_come_from_an_adapter() {
    let kinds = kinds(&["v1beta1"]);
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    let spec = json!({"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": target}});
    let (asked, result) = computed(&kinds, spec.clone(), items(&["20", "30"]));
    let path = format!("{CUSTOM}/pods/*/hits?labelSelector=app%3Dweb");
    assert_eq!(asked, Some(path));
    let current = json!({"averageValue": "25"});
    assert_eq!(found(result), (5, "pods metric hits".into(), current));

    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let of_web = |target: Value| {
        let metric = json!({"name": "hits"});
        json!({"type": "Object",
            "object": {"describedObject": web, "metric": metric, "target": target}})
    };
    let whole = of_web(json!({"type": "Value", "value": "100"}));
    let (asked, result) = computed(&kinds, whole.clone(), items(&["150500m"]));
    assert_eq!(asked, Some(format!("{CUSTOM}/deployments.apps/web/hits")));
    let current = json!({"value": "150500m"});
    assert_eq!(found(result), (4, "Deployment metric hits".into(), current));
    let each = of_web(target);
    let (_, result) = computed(&kinds, each.clone(), items(&["61"]));
    let current = json!({"averageValue": "30500m"});
    assert_eq!(
        found(result),
        (7, "external metric hits(nil)".into(), current)
    );

    let told = "unable to fetch metrics from custom metrics API: no";
    let of_object = format!("unable to get metric hits: {told} on Deployment n/web");
    for (spec, reason, why, error) in [
        (
            spec,
            "FailedGetPodsMetric",
            format!("unable to get metric hits: {told}"),
            format!("failed to get pods metric value: unable to get metric hits: {told}"),
        ),
        (
            whole.clone(),
            "FailedGetObjectMetric",
            of_object.clone(),
            format!("failed to get object metric value: {of_object}"),
        ),
        (
            each,
            "FailedGetObjectMetric",
            of_object.clone(),
            format!(
                "failed to get object metric value: failed to get hits object metric: {of_object}"
            ),
        ),
    ] {
        let (_, result) = computed(&kinds, spec, refused());
        let invalid = Invalid { reason, why, error };
        assert_eq!(result.unwrap_err(), invalid);
    }
    let (_, several) = computed(&kinds, whole, items(&["1", "2"]));
    let why = "returned 2 results when we asked for exactly one on Deployment n/web";
    assert!(several.unwrap_err().why.ends_with(why));
}

#[test]
fn a_namespace_is_no_object_in_itself() {
    let about = json!({"apiVersion": "v1", "kind": "Namespace", "name": "other"});
    let target = json!({"type": "Value", "value": "1"});
    let spec = json!({"type": "Object", "object": {
        "describedObject": about, "metric": {"name": "hits"}, "target": target}});
    let (asked, _) = computed(&kinds(&["v1beta1"]), spec, items(&["1"]));
    assert_eq!(asked, Some(format!("{CUSTOM}/metrics/hits")));
}

#[test]
fn the_version_of_an_adapter_is_the_first_that_is_known() {
    let of = |versions: &[&str], kind: &str| {
        let about = json!({"apiVersion": "x.test/v1", "kind": kind, "name": "x"});
        let target = json!({"type": "Value", "value": "1"});
        let spec = json!({"type": "Object", "object": {
            "describedObject": about, "metric": {"name": "hits"}, "target": target}});
        computed(&kinds(versions), spec, refused())
            .1
            .unwrap_err()
            .why
    };
    for (versions, why) in [
        (
            vec![],
            "no custom metrics API (custom.metrics.k8s.io) registered",
        ),
        (vec!["v9"], "no known available metric versions found"),
        (
            vec!["v9", "v1beta2"],
            "unable to map kind X.x.test to resource: no matches for kind \"X\" in group \
             \"x.test\"",
        ),
    ] {
        let told = format!(
            "unable to get metric hits: unable to fetch metrics from custom metrics API: {why} on \
             X n/x"
        );
        assert_eq!(of(&versions, "X"), told);
    }
    let kinds = kinds(&["v9", "v1beta2", "v1beta1"]);
    assert_eq!(served::version(&kinds), Ok("v1beta2"));
}

#[test]
fn the_series_of_something_outside_are_added_up() {
    let kinds = kinds(&[]);
    let selector = json!({"matchLabels": {"queue": "worker"},
        "matchExpressions": [{"key": "env", "operator": "In", "values": ["a", "b"]}]});
    let spec = |target: Value| {
        let metric = json!({"name": "length", "selector": selector});
        json!({"type": "External", "external": {"metric": metric, "target": target}})
    };
    let shown = "&LabelSelector{MatchLabels:map[string]string{queue: worker,},MatchExpressions:\
                 []LabelSelectorRequirement{LabelSelectorRequirement{Key:env,Operator:In,\
                 Values:[a b],},},}";
    let name = format!("external metric length({shown})");
    let whole = spec(json!({"type": "Value", "value": "10"}));
    let (asked, result) = computed(&kinds, whole.clone(), items(&["10", "20"]));
    let query = "labelSelector=env%20in%20%28a%2Cb%29%2Cqueue%3Dworker";
    assert_eq!(asked, Some(format!("{OUTSIDE}/length?{query}")));
    assert_eq!(found(result), (6, name.clone(), json!({"value": "30"})));
    let each = spec(json!({"type": "AverageValue", "averageValue": "10"}));
    let (_, result) = computed(&kinds, each.clone(), items(&["10", "20"]));
    assert_eq!(found(result), (3, name, json!({"averageValue": "15"})));

    let told = "unable to fetch metrics from external metrics API: no";
    let why = format!("unable to get external metric n/length/{shown}: {told}");
    for (spec, between) in [
        (whole, "failed to get external metric length"),
        (each, "failed to get length external metric"),
    ] {
        let (_, result) = computed(&kinds, spec, refused());
        let invalid = Invalid {
            reason: "FailedGetExternalMetric",
            error: format!("failed to get length external metric value: {between}: {why}"),
            why: why.clone(),
        };
        assert_eq!(result.unwrap_err(), invalid);
    }
}

#[test]
fn resources_are_measured_in_all_containers_or_in_one() {
    let kinds = kinds(&[]);
    let usage = |name: &str| {
        json!({"metadata": {"name": name}, "timestamp": ago(5), "window": "10s", "containers": [
            {"name": "c", "usage": {"memory": "30Mi"}}, {"name": "d", "usage": {"memory": "2Mi"}}]})
    };
    let answer = json!({"items": [usage("a"), usage("b")]});
    let target = json!({"type": "AverageValue", "averageValue": "10Mi"});
    let all = json!({"type": "Resource", "resource": {"name": "memory", "target": target}});
    let (_, result) = computed(&kinds, all, Ok(answer.clone()));
    let current = json!({"averageValue": "32Mi"});
    assert_eq!(found(result), (7, "memory resource".into(), current));
    let one = json!({"type": "ContainerResource",
        "containerResource": {"name": "memory", "container": "c", "target": target}});
    let (_, result) = computed(&kinds, one.clone(), Ok(answer));
    let current = json!({"averageValue": "30Mi"});
    assert_eq!(found(result), (6, "memory resource".into(), current));
    let (_, result) = computed(&kinds, one, Ok(json!({"items": []})));
    let why = "failed to get memory usage: unable to get metrics for resource memory: no metrics \
               returned from resource metrics API";
    let invalid = Invalid {
        reason: "FailedGetContainerResourceMetric",
        error: format!("failed to get c container metric value: {why}"),
        why: why.into(),
    };
    assert_eq!(result.unwrap_err(), invalid);
    let (asked, result) = computed(&kinds, json!({"type": "Odd"}), refused());
    assert_eq!(asked, None);
    assert_eq!(
        result.unwrap_err().why,
        "unknown metric source type \"Odd\""
    );
}

#[test]
fn memory_is_shown_in_whole_bytes() {
    for (milli, text) in [
        (0, "0"),
        (1_000_500, "1000500m"),
        (33_554_432_000, "32Mi"),
        (34_952_533_334, "34952534"),
    ] {
        assert_eq!(amount("memory", milli).0, text);
    }
    assert_eq!(amount("cpu", 1_234_500).0, "1234500m");
}

#[test]
fn a_value_that_is_no_quantity_makes_the_metric_invalid() {
    let kinds = kinds(&["v1beta1"]);
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    let spec = json!({"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": target}});
    let (_, result) = computed(&kinds, spec, items(&["20", "NaN"]));
    let why = result.unwrap_err().why;
    let beginning = "unable to get metric hits: unable to fetch metrics from custom metrics API: \
                     quantities must match the regular expression";
    assert!(why.starts_with(beginning), "{why}");
}
