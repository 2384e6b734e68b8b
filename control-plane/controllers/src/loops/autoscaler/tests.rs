use std::collections::{BTreeMap, BTreeSet};

use machinery::selector::LabelSelector;
use serde_json::json;

use super::*;
use crate::cache::Destination;
use crate::decision::Answers;
use crate::manager::{Manager, Moment};
use crate::tests::fixtures::{ago, bodies, caches, now, pod};

const SCALE: &str = "/apis/apps/v1/namespaces/n/deployments/web/scale";
const USAGE: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods?labelSelector=app%3Dweb";
const RESCALE: &str = "update scale of deployments n/web";

/// An autoscaler of the deployment `web` with one to ten replicas.
fn autoscaler(spec: Value) -> Value {
    let mut one = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": "n", "name": "a", "resourceVersion": "1"},
        "spec": {"maxReplicas": 10, "scaleTargetRef": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    for (key, value) in spec.as_object().unwrap() {
        one["spec"][key] = value.clone();
    }
    one
}

fn scale(replicas: i32) -> Object {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"namespace": "n", "name": "web", "resourceVersion": "7"},
        "spec": {"replicas": replicas},
        "status": {"replicas": replicas, "selector": "app=web"},
    })
}

/// Ready pods that ask for a CPU each.
fn fleet(count: usize) -> Vec<Value> {
    let pods = (0..count).map(|at| {
        let mut one = pod(&format!("web-{at}"), "m", true);
        one["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        one["status"]["startTime"] = ago(1000).into();
        one
    });
    pods.collect()
}

/// The answer of a metrics server: what each pod of the fleet uses.
fn usage(each: &[&str]) -> Object {
    let items = each.iter().enumerate().map(|(at, cpu)| {
        json!({"metadata": {"name": format!("web-{at}")}, "timestamp": ago(10), "window": "30s",
            "containers": [{"name": "c", "usage": {"cpu": cpu}}]})
    });
    json!({"kind": "PodMetricsList", "items": items.collect::<Vec<_>>()})
}

/// The world of one autoscaler: caches, and servers that answer by the texts of calls.
struct World {
    caches: Caches,
    servers: BTreeMap<String, Result<Object, Status>>,
    now: machinery::time::Timestamp,
}

impl World {
    fn new(autoscaler: Value, pods: Vec<Value>) -> World {
        let mut objects = pods;
        objects.extend(Some(autoscaler).filter(|one| !one.is_null()));
        World {
            caches: caches(&objects),
            servers: BTreeMap::new(),
            now: now(),
        }
    }

    fn answers(mut self, call: &str, answer: Result<Object, Status>) -> World {
        self.set(call, answer);
        self
    }

    fn set(&mut self, call: &str, answer: Result<Object, Status>) {
        let text = if call.starts_with('/') {
            format!("read {call}")
        } else {
            call.to_owned()
        };
        self.servers.insert(text, answer);
    }

    fn pass(&mut self, seconds: i64) {
        self.now.seconds += seconds;
    }

    /// Decides until nothing is asked any more. Returns the last decision, the calls that were made
    /// and the texts of Events, with their reasons.
    fn decide(&mut self) -> (Decision, Vec<String>, Vec<String>) {
        let key = ("n".to_owned(), "a".to_owned());
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        let mut answers = Answers::default();
        for _ in 0..10 {
            let context = Context {
                caches: &self.caches,
                now: self.now,
                failure: None,
                taken: &BTreeSet::new(),
                answers: &answers,
            };
            let mut decision = Autoscalers.decide(&context, &key);
            if let Some(past) = decision.past.take() {
                self.caches.scalings.put(key.clone(), past);
            }
            let notes = decision.notes.iter();
            told.extend(notes.map(|note| format!("{}: {}", note.reason, note.message)));
            if decision.questions.is_empty() {
                return (decision, asked, told);
            }
            for call in &decision.questions {
                let text = call.to_string();
                let none = || Err(Status::not_found("", "things", &text));
                let answer = self.servers.get(&text).cloned().unwrap_or_else(none);
                let size = match call {
                    Call::Update { object, .. } => format!(" to {}", object["spec"]["replicas"]),
                    _ => String::new(),
                };
                asked.push(text + &size);
                answers.add(call, answer);
            }
        }
        panic!("it asks without end: {asked:?}")
    }

    /// Decides, and takes the status over as the apiserver would. Returns the status, the calls
    /// that were made and the Events.
    fn turn(&mut self) -> (Value, Vec<String>, Vec<String>) {
        let (decision, asked, told) = self.decide();
        assert_eq!(decision.after, Some(PERIOD));
        let Some(body) = bodies(&decision).pop() else {
            return (Value::Null, asked, told);
        };
        let mut stored = body;
        let version = object::resource_version(&stored).parse::<i64>().unwrap() + 100;
        object::set_resource_version(&mut stored, version);
        let kind = crate::known::kind_of::<HorizontalPodAutoscaler>();
        let notice = api_client::Notice::Applied(stored.clone());
        self.caches
            .observe(kind, Destination::Both, notice, self.now);
        (stored["status"].clone(), asked, told)
    }
}

/// The conditions of a status: kind, truth and reason.
fn conditions(status: &Value) -> Vec<String> {
    let all = object::items(status, &["conditions"]).iter();
    let text = |one: &Value, key| object::text(one, &[key]).to_owned();
    all.map(|one| {
        format!(
            "{} {} {}",
            text(one, "type"),
            text(one, "status"),
            text(one, "reason")
        )
    })
    .collect()
}

fn message(status: &Value, kind: &str) -> String {
    let mut all = object::items(status, &["conditions"]).iter();
    let found = all.find(|one| one["type"] == kind).unwrap();
    object::text(found, &["message"]).to_owned()
}

#[test]
fn pods_that_use_more_than_they_should_get_company() {
    let mut world = World::new(autoscaler(json!({})), fleet(2))
        .answers(SCALE, Ok(scale(2)))
        .answers(USAGE, Ok(usage(&["1600m", "1200m"])))
        .answers(RESCALE, Ok(scale(4)));
    let (status, asked, told) = world.turn();
    let [read, values] = [SCALE, USAGE].map(|path| format!("read {path}"));
    // They use 140 % where 80 % is the target.
    assert_eq!(asked, [read, values, format!("{RESCALE} to 4")]);
    let why = "cpu resource utilization (percentage of request) above target";
    assert_eq!(
        told,
        [format!("SuccessfulRescale: New size: 4; reason: {why}")]
    );
    assert_eq!(
        conditions(&status),
        [
            "AbleToScale True SucceededRescale",
            "ScalingActive True ValidMetricFound",
            "ScalingLimited False DesiredWithinRange",
        ]
    );
    assert_eq!(status["currentReplicas"], 2);
    assert_eq!(status["desiredReplicas"], 4);
    assert_eq!(status["lastScaleTime"], ago(0));
    let current = json!({"averageUtilization": 140, "averageValue": "1400m"});
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "current": current}});
    assert_eq!(status["currentMetrics"], json!([metric]));
}

#[test]
fn a_size_that_fits_stays_and_is_looked_at_every_fifteen_seconds() {
    let mut world = World::new(autoscaler(json!({})), fleet(2))
        .answers(SCALE, Ok(scale(2)))
        .answers(USAGE, Ok(usage(&["800m", "850m"])));
    let (status, asked, told) = world.turn();
    assert_eq!((asked.len(), told.len()), (2, 0));
    assert_eq!(conditions(&status)[0], "AbleToScale True ReadyForNewScale");
    assert_eq!(
        (&status["desiredReplicas"], &status["lastScaleTime"]),
        (&json!(2), &Value::Null)
    );
    world.pass(5);
    let (early, asked, _) = world.decide();
    assert_eq!(
        (early.after, asked.len()),
        (Some(Duration::from_secs(10)), 0)
    );
    // Nothing is written if nothing changed.
    world.pass(10);
    let (status, asked, _) = world.turn();
    assert_eq!((status, asked.len()), (Value::Null, 2));
    // A clock that was set back stops nothing.
    world.pass(-3600);
    assert_eq!(world.decide().1.len(), 2);
}

#[test]
fn without_a_metrics_server_the_autoscaler_says_so_as_in_kubernetes() {
    let text = "the server could not find the requested resource (get pods.metrics.k8s.io)";
    let none = Status::new(404, "NotFound", text);
    let mut world = World::new(autoscaler(json!({})), fleet(2))
        .answers(SCALE, Ok(scale(2)))
        .answers(USAGE, Err(none));
    let (status, _, told) = world.turn();
    assert_eq!(
        conditions(&status),
        [
            "AbleToScale True SucceededGetScale",
            "ScalingActive False FailedGetResourceMetric",
        ]
    );
    let why = format!(
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch \
         metrics from resource metrics API: {text}"
    );
    let condition = format!("the HPA was unable to compute the replica count: {why}");
    assert_eq!(message(&status, "ScalingActive"), condition);
    let whole = "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource \
                 metric value";
    let events = [
        format!("FailedGetResourceMetric: {why}"),
        format!("FailedComputeMetricsReplicas: {whole}: {why}"),
    ];
    assert_eq!(told, events);
    assert_eq!(status["currentReplicas"], 2);
    assert_eq!(status["desiredReplicas"], 0);
    // The same is told again after minutes only.
    world.pass(15);
    assert!(world.turn().2.is_empty());
    world.pass(300);
    assert_eq!(world.turn().2, events);
}

#[test]
fn a_target_without_a_scale_is_told_of() {
    let gone = Status::not_found("apps", "deployments", "web");
    let text = gone.message.clone();
    let mut world = World::new(autoscaler(json!({})), Vec::new()).answers(SCALE, Err(gone));
    let (status, _, told) = world.turn();
    assert_eq!(conditions(&status), ["AbleToScale False FailedGetScale"]);
    let beginning = "the HPA controller was unable to get the target's current scale: ";
    assert_eq!(
        message(&status, "AbleToScale"),
        format!("{beginning}{text}")
    );
    assert_eq!(told, [format!("FailedGetScale: {text}")]);

    for (api_version, text) in [
        (
            "other.test/v1",
            "no matches for kind \"Thing\" in group \"other.test\"",
        ),
        ("a/b/c", "unexpected GroupVersion string: a/b/c"),
    ] {
        let target = json!({"apiVersion": api_version, "kind": "Thing", "name": "web"});
        let one = autoscaler(json!({"scaleTargetRef": target}));
        let (_, asked, told) = World::new(one, Vec::new()).turn();
        assert!(asked.is_empty());
        assert_eq!(told, [format!("FailedGetScale: {text}")]);
    }
}

#[test]
fn sizes_outside_of_the_limits_need_no_metrics() {
    for (replicas, size, why) in [
        (12, 10, "Current number of replicas above Spec.MaxReplicas"),
        (1, 3, "Current number of replicas below Spec.MinReplicas"),
    ] {
        let mut world = World::new(autoscaler(json!({"minReplicas": 3})), Vec::new())
            .answers(SCALE, Ok(scale(replicas)))
            .answers(RESCALE, Ok(scale(size)));
        let (status, asked, told) = world.turn();
        assert_eq!(asked[1..], [format!("{RESCALE} to {size}")]);
        assert_eq!(
            told,
            [format!(
                "SuccessfulRescale: New size: {size}; reason: {why}"
            )]
        );
        assert_eq!(conditions(&status), ["AbleToScale True SucceededRescale"]);
        assert_eq!(status["currentMetrics"], Value::Null);
    }
}

#[test]
fn an_answer_does_not_say_whose_size_is_changed() {
    let mut elsewhere = scale(12);
    elsewhere["metadata"] = json!({"namespace": "kube-system", "name": "dns?x=y"});
    let mut world = World::new(autoscaler(json!({})), Vec::new())
        .answers(SCALE, Ok(elsewhere))
        .answers(RESCALE, Ok(scale(10)));
    let (_, asked, _) = world.turn();
    assert_eq!(asked[1..], [format!("{RESCALE} to 10")]);
    // Nor does one that is no scale at all.
    world.set(SCALE, Ok(json!(["no", "scale"])));
    world.pass(15);
    let (status, asked, _) = world.turn();
    assert_eq!(asked.len(), 1);
    assert_eq!(
        conditions(&status)[1],
        "ScalingActive False ScalingDisabled"
    );
}

#[test]
fn a_target_at_zero_is_left_alone() {
    let left = json!({"desiredReplicas": 0, "currentMetrics": null, "conditions": [
        {"type": "ScaledToZero", "status": "True", "lastTransitionTime": ago(9)}]});
    let mut one = autoscaler(json!({}));
    one["status"] = left;
    let mut world = World::new(one, Vec::new()).answers(SCALE, Ok(scale(0)));
    let (status, asked, told) = world.turn();
    assert_eq!((asked.len(), told.len()), (1, 0));
    assert_eq!(
        conditions(&status),
        [
            "AbleToScale True SucceededGetScale",
            "ScalingActive False ScalingDisabled",
        ]
    );
    assert_eq!(status["currentReplicas"], 0);
}

#[test]
fn a_change_that_fails_is_told_of_and_one_that_was_too_slow_is_decided_anew() {
    let refused = Status::new(403, "Forbidden", "no");
    let mut world = World::new(autoscaler(json!({})), Vec::new())
        .answers(SCALE, Ok(scale(11)))
        .answers(RESCALE, Err(refused));
    let (status, _, told) = world.turn();
    let why = "Current number of replicas above Spec.MaxReplicas";
    assert_eq!(
        told,
        [format!(
            "FailedRescale: New size: 10; reason: {why}; error: no"
        )]
    );
    assert_eq!(conditions(&status), ["AbleToScale False FailedUpdateScale"]);
    let text = "the HPA controller was unable to update the target scale: no";
    assert_eq!(message(&status, "AbleToScale"), text);
    assert_eq!(
        (
            &status["currentReplicas"],
            &status["desiredReplicas"],
            &status["lastScaleTime"]
        ),
        (&json!(11), &json!(0), &Value::Null)
    );

    world.pass(15);
    world.set(RESCALE, Err(Status::new(409, "Conflict", "changed")));
    for _ in 0..CONFLICTS_MAX {
        let (decision, asked, told) = world.decide();
        assert_eq!((decision.after, asked.len()), (Some(Duration::ZERO), 2));
        assert!(decision.steps.is_empty() && told.is_empty());
    }
    let (decision, _, told) = world.decide();
    assert_eq!(decision.after, Some(PERIOD));
    assert_eq!(
        told,
        [format!(
            "FailedRescale: New size: 10; reason: {why}; error: changed"
        )]
    );
}

#[test]
fn the_greatest_metric_counts_and_an_invalid_one_only_keeps_pods() {
    let by = |percent| {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    };
    let target = json!({"type": "AverageValue", "averageValue": "1Gi"});
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": target}});
    for (metrics, size) in [
        // 160 % of the CPU is used.
        (json!([by(80), by(40)]), Some(8)),
        (json!([by(40), by(80)]), Some(8)),
        // Nobody has values of memory.
        (json!([memory, by(40)]), Some(8)),
        (json!([by(320), memory]), None),
        (json!([by(320)]), Some(1)),
    ] {
        let mut world = World::new(autoscaler(json!({"metrics": metrics})), fleet(2))
            .answers(SCALE, Ok(scale(2)))
            .answers(USAGE, Ok(usage(&["1600m", "1600m"])))
            .answers(RESCALE, Ok(scale(8)));
        let (_, asked, told) = world.turn();
        // One answer serves both metrics. In the first minutes no pod is taken away.
        let rescales: Vec<&String> = asked
            .iter()
            .filter(|one| one.starts_with(RESCALE))
            .collect();
        let expected = size
            .filter(|size| *size > 2)
            .map(|_| format!("{RESCALE} to 4"));
        assert_eq!(asked.len() - rescales.len(), 2);
        assert_eq!(rescales, expected.iter().collect::<Vec<_>>(), "{metrics}");
        let failed = told
            .iter()
            .any(|one| one.starts_with("FailedComputeMetricsReplicas"));
        assert_eq!(failed, size.is_none(), "{told:?}");
    }
}

#[test]
fn a_behavior_says_how_much_a_value_may_miss_its_target() {
    for (tolerance, grows) in [("700m", true), ("800m", false)] {
        let behavior = json!({"scaleUp": {"tolerance": tolerance}});
        let mut world = World::new(autoscaler(json!({"behavior": behavior})), fleet(2))
            .answers(SCALE, Ok(scale(2)))
            // 140 % where 80 % is the target.
            .answers(USAGE, Ok(usage(&["1600m", "1200m"])))
            .answers(RESCALE, Ok(scale(4)));
        assert_eq!(world.turn().1.len() == 3, grows, "{tolerance}");
    }
}

#[test]
fn changes_count_for_as_long_as_the_policies_of_a_behavior_say() {
    let policy = json!({"type": "Pods", "value": 1, "periodSeconds": 60});
    let behavior = json!({"scaleUp": {"policies": [policy]}});
    let mut world = World::new(autoscaler(json!({"behavior": behavior})), fleet(2))
        .answers(SCALE, Ok(scale(2)))
        .answers(USAGE, Ok(usage(&["1600m", "1600m"])))
        .answers(RESCALE, Ok(scale(3)));
    let (status, asked, _) = world.turn();
    assert_eq!(asked[2], format!("{RESCALE} to 3"));
    assert_eq!(conditions(&status)[2], "ScalingLimited True ScaleUpLimit");
    world.set(SCALE, Ok(scale(3)));
    world.pass(15);
    assert_eq!(world.turn().1.len(), 2);
    world.pass(45);
    assert_eq!(world.turn().1[2], format!("{RESCALE} to 4"));
}

#[test]
fn pods_that_two_autoscalers_claim_are_left_alone() {
    let mut world = World::new(autoscaler(json!({})), fleet(1)).answers(SCALE, Ok(scale(1)));
    let other = Past {
        selector: LabelSelector::parse("app in (web,shop)").unwrap(),
        ..Past::default()
    };
    world.caches.scalings.put(("n".into(), "b".into()), other);
    let (status, asked, told) = world.turn();
    assert_eq!(asked.len(), 1);
    let why = "pods by selector app=web are controlled by multiple HPAs: [n/a n/b]";
    assert_eq!(message(&status, "ScalingActive"), why);
    assert_eq!(told[0], format!("AmbiguousSelector: {why}"));
    for (selector, reason) in [("", "SelectorRequired"), ("a b", "InvalidSelector")] {
        let mut scale = scale(1);
        scale["status"]["selector"] = selector.into();
        world.set(SCALE, Ok(scale));
        world.pass(15);
        let (status, _, told) = world.turn();
        assert!(told[0].starts_with(reason), "{told:?}");
        assert_eq!(
            conditions(&status)[1],
            "ScalingActive False InvalidSelector"
        );
    }
    // It claims what it claimed last.
    let key = ("n".to_owned(), "a".to_owned());
    let past = world.caches.scalings.of(&key).unwrap();
    assert_eq!(past.selector.to_string(), "app=web");
}

#[test]
fn a_new_autoscaler_is_decided_about_after_a_period_with_what_was_answered() {
    let mut manager = Manager::new(vec![Box::new(Autoscalers)]);
    let world = World::new(autoscaler(json!({})), fleet(2));
    let at = |seconds| Moment {
        since_start: Duration::from_secs(seconds),
        wall: now(),
    };
    let stored = world.caches.autoscalers.all().next().unwrap();
    let stored = crate::known::to_object(stored.as_ref());
    manager.caches = World::new(Value::Null, fleet(2)).caches;
    let kind = crate::known::kind_of::<HorizontalPodAutoscaler>();
    let notice = api_client::Notice::Applied(stored);
    manager.observe(kind, Destination::Both, notice, at(0));
    assert!(manager.next(at(14)).is_none());
    for (answer, asked) in [
        (scale(2), format!("read {SCALE}")),
        (usage(&["1600m", "1200m"]), format!("read {USAGE}")),
        (scale(4), RESCALE.to_owned()),
    ] {
        let work = manager.next(at(15)).unwrap();
        assert!(work.decision.steps.is_empty());
        assert_eq!(work.decision.questions[0].to_string(), asked);
        // Only one decision about a key is in progress.
        assert!(manager.next(at(15)).is_none());
        manager.told(&work, vec![Ok(answer)]);
    }
    let work = manager.next(at(15)).unwrap();
    assert_eq!(bodies(&work.decision)[0]["status"]["desiredReplicas"], 4);
    manager.done(&work, Ok(()), at(16));
    // The answers are of the past then.
    assert!(manager.next(at(30)).is_none());
    assert_eq!(manager.wake_at(), Some(Duration::from_secs(31)));
}

#[test]
fn what_is_remembered_goes_with_its_autoscaler() {
    let mut world = World::new(autoscaler(json!({})), Vec::new()).answers(SCALE, Ok(scale(0)));
    world.turn();
    let key = ("n".to_owned(), "a".to_owned());
    let stored = world.caches.autoscalers.at(&key).unwrap();
    let stored = crate::known::to_object(stored.as_ref());
    assert!(world.caches.scalings.of(&key).is_some());
    let kind = crate::known::kind_of::<HorizontalPodAutoscaler>();
    let notice = api_client::Notice::Deleted(stored);
    world
        .caches
        .observe(kind, Destination::Both, notice, world.now);
    assert!(world.caches.scalings.of(&key).is_none());
}
