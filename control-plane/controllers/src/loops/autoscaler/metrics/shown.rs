//! Metrics as the status of an autoscaler and messages about it show them.

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, MetricIdentifier, MetricStatus, MetricValueStatus,
    ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use machinery::quantity::{Format, Quantity};

/// A kibibyte in thousandths: from there on Kubernetes shows memory in whole bytes.
const KIBIBYTE: u64 = 1_024_000;

/// The status of a resource of pods, or of one container of theirs.
pub(super) fn of_resource(
    name: &str,
    container: Option<&str>,
    current: MetricValueStatus,
) -> MetricStatus {
    match container {
        None => MetricStatus {
            resource: Some(ResourceMetricStatus {
                current,
                name: name.into(),
            }),
            type_: "Resource".into(),
            ..MetricStatus::default()
        },
        Some(container) => MetricStatus {
            container_resource: Some(ContainerResourceMetricStatus {
                container: container.into(),
                current,
                name: name.into(),
            }),
            type_: "ContainerResource".into(),
            ..MetricStatus::default()
        },
    }
}

/// A value for each pod, in thousandths.
pub(super) fn averaged(milli: i64) -> MetricValueStatus {
    MetricValueStatus {
        average_value: Some(amount("", milli)),
        ..MetricValueStatus::default()
    }
}

/// A value that is about all pods together.
pub(super) fn whole(milli: i64) -> MetricValueStatus {
    MetricValueStatus {
        value: Some(amount("", milli)),
        ..MetricValueStatus::default()
    }
}

/// Thousandths as a quantity; memory is written as a metrics server does.
pub(super) fn amount(of: &str, milli: i64) -> resource::Quantity {
    let quantity = Quantity::from_milli(milli);
    let is_whole = milli % 1000 == 0 || milli.unsigned_abs() >= KIBIBYTE;
    let quantity = if of == "memory" && is_whole {
        Quantity::from_integer(quantity.value(), Format::BinarySi)
    } else {
        quantity
    };
    resource::Quantity(quantity.to_string())
}

/// What messages call a metric that is about no pod of the target.
pub(super) fn outside(metric: &MetricIdentifier) -> String {
    let selector = shown(metric.selector.as_ref());
    format!("external metric {}({selector})", metric.name)
}

/// A selector as Go prints it.
pub(super) fn shown(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return "nil".to_owned();
    };
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}: {value},"));
    let all = selector.match_expressions.iter().flatten().map(|one| {
        let values = one.values.iter().flatten().map(String::as_str);
        let values: Vec<&str> = values.collect();
        let (key, operator, values) = (&one.key, &one.operator, values.join(" "));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let (labels, all): (String, String) = (labels.collect(), all.collect());
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{all}}},}}"
    )
}
