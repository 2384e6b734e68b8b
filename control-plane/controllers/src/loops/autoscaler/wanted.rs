//! The size that a target should have: from the limits of its autoscaler if it is outside of them,
//! else from the metric that asks for the most.

use std::collections::BTreeSet;

use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, MetricStatus};
use k8s_openapi::api::core::v1::Pod;
use machinery::api::Call;
use machinery::object;
use machinery::quantity::Quantity;
use machinery::selector::LabelSelector;

use super::conditions::{ABLE, ACTIVE, LIMITED};
use super::limits::{Wish, limit, window};
use super::metrics::{Found, Invalid, Metrics};
use super::usage::{Fleet, Tolerances};
use super::{Round, Scale, count};
use crate::known::Shared;
use crate::meta::{self, Labels};
use crate::scalings::Past;

/// By which part a value may miss its target, unless the behavior says otherwise.
const TOLERANCE: f64 = 0.1;

/// A size, why it is another one, and the metrics that it follows.
pub(super) struct Wanted {
    pub(super) replicas: i32,
    pub(super) why: String,
    pub(super) metrics: Option<Vec<MetricStatus>>,
}

/// Why there is no size.
pub(super) enum Stop {
    /// Something must be asked first.
    Ask(Vec<Call>),
    /// Metrics are invalid. Those that are not are in the status nevertheless.
    Invalid(Option<Vec<MetricStatus>>, String),
}

/// The size that metrics ask for, what the greatest of them is called, and all of them.
type Computed = (i32, String, Vec<MetricStatus>);

impl Round<'_> {
    /// The size within the limits of the autoscaler.
    pub(super) fn wanted(&mut self, scale: &Scale<'_>) -> Result<Wanted, Stop> {
        let (current, now) = (scale.current, self.context.now);
        let (min, max) = (self.spec.min_replicas.unwrap_or(1), self.spec.max_replicas);
        let fixed = |replicas, why: &str| Wanted {
            replicas,
            why: why.to_owned(),
            metrics: None,
        };
        if current == 0 {
            let why = "scaling is disabled since the replica count of the target is zero";
            self.draft.set(ACTIVE, false, "ScalingDisabled", why);
            self.draft.forget_zero();
            return Ok(fixed(0, ""));
        }
        if current > max {
            return Ok(fixed(
                max,
                "Current number of replicas above Spec.MaxReplicas",
            ));
        }
        if current < min {
            return Ok(fixed(
                min,
                "Current number of replicas below Spec.MinReplicas",
            ));
        }
        let (desired, metric, metrics) = self.computed(scale)?;
        let behavior = self.spec.behavior.as_ref();
        let wish = Wish {
            current,
            desired,
            min,
            max,
        };
        let limited = limit(wish, behavior, &self.past, now);
        self.past.recommend(desired, window(behavior), now);
        let (reason, message) = limited.able;
        self.draft.set(ABLE, true, reason, message);
        let (holds, (reason, message)) = limited.limited;
        self.draft.set(LIMITED, holds, reason, message);
        let why = match desired {
            more if more > current => format!("{metric} above target"),
            less if less < current => "All metrics below target".to_owned(),
            _ => String::new(),
        };
        Ok(Wanted {
            replicas: limited.replicas,
            why,
            metrics: Some(metrics),
        })
    }

    /// Computes all metrics, or asks for what they need.
    fn computed(&mut self, scale: &Scale<'_>) -> Result<Computed, Stop> {
        let (selector, pods) = self.pods(scale)?;
        let context = self.context;
        let metrics = Metrics {
            kinds: &context.caches.kinds,
            namespace: &self.key.0,
            answers: context.answers,
            selector: &selector,
            fleet: Fleet {
                pods: &pods,
                current: scale.current,
                tolerances: self.tolerances(),
                now: context.now,
            },
            replicas: count(scale.object, &["status", "replicas"]),
        };
        let specs = self.spec.metrics.as_deref().unwrap_or_default();
        // Several metrics may need the same answer.
        let mut asked = BTreeSet::new();
        let questions = specs.iter().filter_map(|spec| metrics.question(spec));
        let questions: Vec<Call> = questions
            .filter(|call| context.answers.to(call).is_none() && asked.insert(call.to_string()))
            .collect();
        if !questions.is_empty() {
            return Err(Stop::Ask(questions));
        }
        let results = specs.iter().map(|spec| metrics.compute(spec)).collect();
        self.greatest(results, scale.current)
    }

    /// The greatest size that a metric asks for. If one is invalid, the size may grow but not
    /// shrink: it might have asked for more.
    fn greatest(
        &mut self,
        results: Vec<Result<Found, Invalid>>,
        current: i32,
    ) -> Result<Computed, Stop> {
        let count = results.len();
        let mut best: Option<(i32, String)> = None;
        let mut statuses = Vec::new();
        let mut invalid = Vec::new();
        for result in results {
            match result {
                Ok(found) => {
                    statuses.push(found.status);
                    let greater = |(has, _): &(i32, String)| *has == 0 || found.replicas > *has;
                    if best.as_ref().is_none_or(greater) {
                        best = Some((found.replicas, found.name));
                    }
                }
                Err(one) => {
                    statuses.push(MetricStatus::default());
                    self.warn(one.reason, one.why.clone());
                    invalid.push(one);
                }
            }
        }
        let (replicas, metric) = match (best, invalid.first()) {
            (Some(best), None) => best,
            (Some(best), Some(_)) if best.0 >= current => best,
            (_, first) => {
                let mut error = "no metric".to_owned();
                if let Some(Invalid {
                    reason,
                    why,
                    error: told,
                }) = first
                {
                    let text = format!("the HPA was unable to compute the replica count: {why}");
                    self.draft.set(ACTIVE, false, reason, &text);
                    error = told.clone();
                }
                let some = invalid.len();
                let why = format!(
                    "invalid metrics ({some} invalid out of {count}), first error is: {error}"
                );
                return Err(Stop::Invalid(Some(statuses), why));
            }
        };
        let text =
            format!("the HPA was able to successfully calculate a replica count from {metric}");
        self.draft.set(ACTIVE, true, "ValidMetricFound", &text);
        Ok((replicas, metric, statuses))
    }

    /// The pods of the target, by the selector in its scale.
    fn pods(&mut self, scale: &Scale<'_>) -> Result<(LabelSelector, Vec<Shared<Pod>>), Stop> {
        let text = object::text(scale.object, &["status", "selector"]);
        if text.is_empty() {
            let why = "selector is required";
            let condition = "the HPA target's scale is missing a selector";
            return Err(self.unselected("SelectorRequired", why, "InvalidSelector", condition));
        }
        let selector = LabelSelector::parse(text).map_err(|error| {
            let why = format!(
                "couldn't convert selector into a corresponding internal selector object: {error}"
            );
            self.unselected("InvalidSelector", &why, "InvalidSelector", &why)
        })?;
        self.past.selector.clone_from(&selector);
        let all = self.context.caches.pods.in_namespace(&self.key.0);
        let selected = all.filter(|pod| meta::matches(&selector, pod.metadata.labels.as_ref()));
        let pods: Vec<Shared<Pod>> = selected.cloned().collect();
        let owners = self.owners(&pods);
        if owners.len() > 1 {
            let names = owners.join(" ");
            let why = format!("pods by selector {text} are controlled by multiple HPAs: [{names}]");
            return Err(self.unselected("AmbiguousSelector", &why, "AmbiguousSelector", &why));
        }
        Ok((selector, pods))
    }

    /// The autoscalers that these pods belong to: this one, and each that selects one of them.
    fn owners(&self, pods: &[Shared<Pod>]) -> Vec<String> {
        // Pods of one template have equal labels, and there may be thousands of autoscalers.
        let labels = pods.iter().map(|pod| pod.metadata.labels.as_ref());
        let labels: BTreeSet<Option<&Labels>> = labels.collect();
        let selects = |past: &Past| {
            let selector = &past.selector;
            !selector.is_empty() && labels.iter().any(|one| meta::matches(selector, *one))
        };
        let all = self.context.caches.scalings.in_namespace(&self.key.0);
        let others = all.filter(|(key, past)| *key != self.key && selects(past));
        let keys = others.map(|(key, _)| key).chain([self.key]);
        let mut names: Vec<String> = keys
            .map(|(namespace, name)| format!("{namespace}/{name}"))
            .collect();
        names.sort();
        names
    }

    /// Says that the pods of the target are not known.
    fn unselected(
        &mut self,
        event: &'static str,
        why: &str,
        reason: &str,
        condition: &str,
    ) -> Stop {
        self.warn(event, why.to_owned());
        self.draft.set(ACTIVE, false, reason, condition);
        Stop::Invalid(None, why.to_owned())
    }

    fn tolerances(&self) -> Tolerances {
        let of = |rules: Option<&HPAScalingRules>| {
            let tolerance = rules.and_then(|rules| rules.tolerance.as_ref());
            let tolerance = tolerance.and_then(|part| Quantity::parse(&part.0).ok());
            tolerance.map_or(TOLERANCE, Quantity::as_f64)
        };
        let behavior = self.spec.behavior.as_ref();
        Tolerances {
            up: of(behavior.and_then(|behavior| behavior.scale_up.as_ref())),
            down: of(behavior.and_then(|behavior| behavior.scale_down.as_ref())),
        }
    }
}
