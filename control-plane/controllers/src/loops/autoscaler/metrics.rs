//! The metrics of an autoscaler: what must be read for each, the replicas that it asks for, and
//! what the status and the errors say of it, in Kubernetes' words.

mod served;
mod shown;
#[cfg(test)]
mod tests;

use k8s_openapi::api::autoscaling::v2::{
    ExternalMetricSource, ExternalMetricStatus, MetricIdentifier, MetricSpec, MetricStatus,
    MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource,
    PodsMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource;
use machinery::api::Call;
use machinery::object::{self, Object};
use machinery::selector::LabelSelector;

use super::readings;
use super::usage::{Fleet, shared};
use crate::decision::Answers;
use crate::kinds::Kinds;
use shown::{amount, averaged, of_resource, outside, shown, whole};

/// What metrics are computed from.
pub(super) struct Metrics<'a> {
    pub(super) kinds: &'a Kinds,
    pub(super) namespace: &'a str,
    pub(super) answers: &'a Answers,
    /// The selector of the target's pods.
    pub(super) selector: &'a LabelSelector,
    pub(super) fleet: Fleet<'a>,
    /// The replicas that the target has, according to its scale.
    pub(super) replicas: i32,
}

/// The replicas that a metric asks for, what messages call it, and its status.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) replicas: i32,
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// Why a metric asks for nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    /// The reason of the condition and of its Event.
    pub(super) reason: &'static str,
    /// The message of the Event.
    pub(super) why: String,
    /// The same as the error of the whole says it.
    pub(super) error: String,
}

/// Why a metric is invalid, and the same as the error of the whole begins it.
type Why = (String, String);

impl Metrics<'_> {
    /// What must be read for a metric; `None` if it is known that nothing can.
    pub(super) fn question(&self, spec: &MetricSpec) -> Option<Call> {
        match &*spec.type_ {
            "Resource" | "ContainerResource" => Some(self.usage_call()),
            "Pods" => self.pods_call(spec.pods.as_ref()?).ok(),
            "Object" => self.object_call(spec.object.as_ref()?).ok(),
            "External" => self.external_call(spec.external.as_ref()?).ok(),
            _ => None,
        }
    }

    /// Computes a metric from what was read.
    pub(super) fn compute(&self, spec: &MetricSpec) -> Result<Found, Invalid> {
        match spec {
            MetricSpec {
                resource: Some(source),
                type_,
                ..
            } if type_ == "Resource" => {
                let prefix = format!("failed to get {} resource metric value", source.name);
                self.resource(&source.name, None, &source.target)
                    .map_err(invalid("FailedGetResourceMetric", prefix))
            }
            MetricSpec {
                container_resource: Some(source),
                type_,
                ..
            } if type_ == "ContainerResource" => {
                let container = &source.container;
                let prefix = format!("failed to get {container} container metric value");
                self.resource(&source.name, Some(container), &source.target)
                    .map_err(invalid("FailedGetContainerResourceMetric", prefix))
            }
            MetricSpec {
                pods: Some(source),
                type_,
                ..
            } if type_ == "Pods" => self.pods(source).map_err(invalid(
                "FailedGetPodsMetric",
                "failed to get pods metric value".into(),
            )),
            MetricSpec {
                object: Some(source),
                type_,
                ..
            } if type_ == "Object" => self.object(source).map_err(invalid(
                "FailedGetObjectMetric",
                "failed to get object metric value".into(),
            )),
            MetricSpec {
                external: Some(source),
                type_,
                ..
            } if type_ == "External" => {
                let name = &source.metric.name;
                let prefix = format!("failed to get {name} external metric value");
                self.external(source)
                    .map_err(invalid("FailedGetExternalMetric", prefix))
            }
            other => {
                let why = format!("unknown metric source type {:?}", other.type_);
                Err(Invalid {
                    reason: "InvalidMetricSourceType",
                    error: why.clone(),
                    why,
                })
            }
        }
    }

    /// What the containers of pods use, against a target for all or for one of them.
    fn resource(
        &self,
        name: &str,
        container: Option<&str>,
        target: &MetricTarget,
    ) -> Result<Found, Why> {
        let one = container.unwrap_or_default();
        let list = self.read(&self.usage_call(), "resource");
        let usage = list.map(|list| readings::usage(list, name, one));
        let usage =
            usage.map_err(|why| format!("unable to get metrics for resource {name}: {why}"));
        let (proposal, called) = match (&target.average_value, target.average_utilization) {
            (Some(value), _) => {
                let value = readings::milli(&value.0);
                let proposal = usage.and_then(|all| self.fleet.by_average(all, value, name));
                let proposal = proposal.map_err(|why| format!("failed to get {name} usage: {why}"));
                (proposal, format!("{name} resource"))
            }
            (None, Some(percent)) => {
                let proposal =
                    usage.and_then(|all| self.fleet.by_utilization(all, percent, (name, one)));
                let failed = |why: String| format!("failed to get {name} utilization: {why}");
                let of = container.map_or("", |_| "container ");
                let called = format!("{name} {of}resource utilization (percentage of request)");
                (proposal.map_err(failed), called)
            }
            (None, None) => {
                let why = "invalid resource metric source: neither an average utilization target \
                           nor an average value (usage) target was set";
                (Err(why.to_owned()), String::new())
            }
        };
        let proposal = proposal.map_err(twice)?;
        let current = MetricValueStatus {
            average_utilization: proposal.utilization,
            average_value: Some(amount(name, proposal.usage)),
            value: None,
        };
        Ok(Found {
            replicas: proposal.replicas,
            name: called,
            status: of_resource(name, container, current),
        })
    }

    /// A metric that an adapter has of each pod.
    fn pods(&self, source: &PodsMetricSource) -> Result<Found, Why> {
        let name = &source.metric.name;
        let call = self.pods_call(source);
        let list = call.and_then(|call| self.read(&call, "custom"));
        let values = list.map(readings::by_pod);
        let values = values.map_err(|why| format!("unable to get metric {name}: {why}"));
        let target = milli(source.target.average_value.as_ref());
        let proposal = values.and_then(|all| self.fleet.by_average(all, target, ""));
        let proposal = proposal.map_err(twice)?;
        let pods = PodsMetricStatus {
            current: averaged(proposal.usage),
            metric: source.metric.clone(),
        };
        Ok(Found {
            replicas: proposal.replicas,
            name: format!("pods metric {name}"),
            status: MetricStatus {
                pods: Some(pods),
                type_: "Pods".into(),
                ..MetricStatus::default()
            },
        })
    }

    /// A metric that an adapter has of one object.
    fn object(&self, source: &ObjectMetricSource) -> Result<Found, Why> {
        let (name, about) = (&source.metric.name, &source.described_object);
        let (kind, target) = (&about.kind, &source.target);
        let value = || -> Result<i64, String> {
            let call = self.object_call(source)?;
            let values = readings::values(self.answer(&call, "custom")?);
            match values[..] {
                [value] => Ok(value),
                _ => Err(in_vain("custom", &one_of(values.len()))),
            }
        };
        let value = || {
            let (namespace, of) = (self.namespace, &about.name);
            let on = format!("on {kind} {namespace}/{of}");
            value().map_err(|why| format!("unable to get metric {name}: {why} {on}"))
        };
        let (replicas, current, called) =
            match (&*target.type_, &target.value, &target.average_value) {
                ("Value", Some(wanted), _) => {
                    let wanted = readings::milli(&wanted.0);
                    let value = value().map_err(twice)?;
                    let replicas = self.fleet.by_ratio(value as f64 / wanted as f64);
                    let called = format!("{kind} metric {name}");
                    (replicas.map_err(twice)?, whole(value), called)
                }
                ("AverageValue", _, Some(wanted)) => {
                    let failed = |why: String| {
                        let error = format!("failed to get {name} object metric: {why}");
                        (why, error)
                    };
                    let value = value().map_err(failed)?;
                    let (replicas, each) = self.shared(value, wanted);
                    (replicas, averaged(each), outside(&source.metric))
                }
                _ => {
                    let why = "invalid object metric source: neither a value target nor an average \
                           value target was set";
                    return Err(twice(why.to_owned()));
                }
            };
        let object = ObjectMetricStatus {
            current,
            described_object: about.clone(),
            metric: source.metric.clone(),
        };
        Ok(Found {
            replicas,
            name: called,
            status: MetricStatus {
                object: Some(object),
                type_: "Object".into(),
                ..MetricStatus::default()
            },
        })
    }

    /// A metric of something outside the cluster: the sum of its series.
    fn external(&self, source: &ExternalMetricSource) -> Result<Found, Why> {
        let (name, target) = (&source.metric.name, &source.target);
        let selector = shown(source.metric.selector.as_ref());
        let sum = || -> Result<i64, String> {
            let call = self.external_call(source)?;
            let list = self.read(&call, "external");
            let list = list.map_err(|why| {
                let namespace = self.namespace;
                format!("unable to get external metric {namespace}/{name}/{selector}: {why}")
            })?;
            let values = readings::values(list).into_iter();
            Ok(values.fold(0, i64::saturating_add))
        };
        let (replicas, current) = match (&target.average_value, &target.value) {
            (Some(wanted), _) => {
                let failed = |why: String| {
                    let error = format!("failed to get {name} external metric: {why}");
                    (why, error)
                };
                let (replicas, each) = self.shared(sum().map_err(failed)?, wanted);
                (replicas, averaged(each))
            }
            (None, Some(wanted)) => {
                let failed = |why: String| {
                    let error = format!("failed to get external metric {name}: {why}");
                    (why, error)
                };
                let wanted = readings::milli(&wanted.0);
                let value = sum().map_err(failed)?;
                let replicas = self.fleet.by_ratio(value as f64 / wanted as f64);
                (replicas.map_err(failed)?, whole(value))
            }
            (None, None) => {
                let why = "invalid external metric source: neither a value target nor an average \
                           value target was set";
                return Err(twice(why.to_owned()));
            }
        };
        let external = ExternalMetricStatus {
            current,
            metric: source.metric.clone(),
        };
        Ok(Found {
            replicas,
            name: outside(&source.metric),
            status: MetricStatus {
                external: Some(external),
                type_: "External".into(),
                ..MetricStatus::default()
            },
        })
    }

    fn shared(&self, total: i64, target: &resource::Quantity) -> (i32, i64) {
        let target = readings::milli(&target.0);
        shared(total, target, self.replicas, self.fleet.tolerances)
    }

    fn usage_call(&self) -> Call {
        readings::of_usage(self.namespace, self.selector)
    }

    fn pods_call(&self, source: &PodsMetricSource) -> Result<Call, String> {
        let series = series(&source.metric)?;
        let version = served::version(self.kinds).map_err(|why| in_vain("custom", &why))?;
        Ok(readings::of_objects(
            (version, self.namespace),
            ("pods", "*", self.selector),
            (&*source.metric.name, &series),
        ))
    }

    fn object_call(&self, source: &ObjectMetricSource) -> Result<Call, String> {
        let series = series(&source.metric)?;
        let (metric, about) = (&*source.metric.name, &source.described_object);
        let failed = |why: String| in_vain("custom", &why);
        let version = served::version(self.kinds).map_err(failed)?;
        let place = (version, self.namespace);
        let group = served::group(about.api_version.as_deref());
        if group.is_empty() && about.kind == "Namespace" {
            return Ok(readings::of_namespace(place, (metric, &series)));
        }
        let resource = served::resource(self.kinds, group, &about.kind).map_err(failed)?;
        let all = LabelSelector::default();
        let object = (&*resource, &*about.name, &all);
        Ok(readings::of_objects(place, object, (metric, &series)))
    }

    fn external_call(&self, source: &ExternalMetricSource) -> Result<Call, String> {
        let series = series(&source.metric)?;
        let metric = (&*source.metric.name, &series);
        Ok(readings::of_outside(self.namespace, metric))
    }

    /// The answer to a call, if it has items.
    fn read(&self, call: &Call, api: &str) -> Result<&Object, String> {
        let list = self.answer(call, api)?;
        if object::items(list, &["items"]).is_empty() {
            return Err(format!("no metrics returned from {api} metrics API"));
        }
        Ok(list)
    }

    fn answer(&self, call: &Call, api: &str) -> Result<&Object, String> {
        match self.answers.to(call) {
            Some(Ok(list)) => match readings::wrong(list) {
                Some(why) => Err(in_vain(api, why)),
                None => Ok(list),
            },
            Some(Err(error)) => Err(in_vain(api, &error.message)),
            None => Err(in_vain(api, "nobody asked for them")),
        }
    }
}

/// What becomes of an error of a metric in the whole.
fn invalid(reason: &'static str, prefix: String) -> impl FnOnce(Why) -> Invalid {
    move |(why, error)| Invalid {
        reason,
        why,
        error: format!("{prefix}: {error}"),
    }
}

fn in_vain(api: &str, why: &str) -> String {
    format!("unable to fetch metrics from {api} metrics API: {why}")
}

fn one_of(count: usize) -> String {
    format!("the custom metrics API server returned {count} results when we asked for exactly one")
}

/// An error that is the same for the Event and for the whole.
fn twice(why: String) -> Why {
    (why.clone(), why)
}

fn milli(quantity: Option<&resource::Quantity>) -> i64 {
    quantity.map_or(0, |quantity| readings::milli(&quantity.0))
}

/// The selector of a metric's series.
fn series(metric: &MetricIdentifier) -> Result<LabelSelector, String> {
    let Some(selector) = &metric.selector else {
        return Ok(LabelSelector::default());
    };
    let json = serde_json::to_value(selector).map_err(|error| error.to_string())?;
    LabelSelector::from_object(&json).map_err(|error| error.to_string())
}
