//! The status of an autoscaler while a decision is made.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
    MetricStatus,
};
use machinery::time::Timestamp;

use crate::meta;

pub(super) const ABLE: &str = "AbleToScale";
pub(super) const ACTIVE: &str = "ScalingActive";
pub(super) const LIMITED: &str = "ScalingLimited";
/// The condition of the feature HPAScaleToZero, which is off. One that was left is removed.
const TO_ZERO: &str = "ScaledToZero";

/// A status that becomes the next one.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) status: HorizontalPodAutoscalerStatus,
    now: Timestamp,
}

impl Draft {
    /// Begins with the status that an autoscaler has.
    pub(super) fn of(autoscaler: &HorizontalPodAutoscaler, now: Timestamp) -> Draft {
        let status = autoscaler.status.clone().unwrap_or_default();
        Draft { status, now }
    }

    /// Continues with a status.
    pub(super) fn with(status: HorizontalPodAutoscalerStatus, now: Timestamp) -> Draft {
        Draft { status, now }
    }

    /// Sets a condition.
    pub(super) fn set(&mut self, kind: &str, holds: bool, reason: &str, message: &str) {
        let conditions = self.status.conditions.get_or_insert_default();
        let place = conditions.iter().position(|one| one.type_ == kind);
        let place = place.unwrap_or_else(|| {
            conditions.push(HorizontalPodAutoscalerCondition {
                type_: kind.into(),
                ..HorizontalPodAutoscalerCondition::default()
            });
            conditions.len() - 1
        });
        let condition = &mut conditions[place];
        let status = if holds { "True" } else { "False" };
        if condition.status != status {
            condition.last_transition_time = Some(meta::time(self.now));
        }
        condition.status = status.into();
        condition.reason = Some(reason.into());
        condition.message = Some(message.into());
    }

    /// Removes the condition that a target without replicas was scaled so by the autoscaler.
    pub(super) fn forget_zero(&mut self) {
        let conditions = self.status.conditions.iter_mut();
        conditions.for_each(|all| all.retain(|one| one.type_ != TO_ZERO));
    }

    /// Sets what was seen. Kubernetes sets no observed generation: autoscalers have none.
    pub(super) fn seen(&mut self, current: i32, metrics: Option<Vec<MetricStatus>>) {
        self.status.current_replicas = Some(current);
        self.status.current_metrics = metrics;
        self.status.observed_generation = None;
    }

    /// Sets the size that was decided, and the time if it is another one.
    pub(super) fn sized(&mut self, replicas: i32, changed: bool) {
        self.status.desired_replicas = replicas;
        if changed {
            self.status.last_scale_time = Some(meta::time(self.now));
        }
    }
}

/// True if two statuses are equal; the API leaves out what is zero or empty.
pub(super) fn same(a: &HorizontalPodAutoscalerStatus, b: &HorizontalPodAutoscalerStatus) -> bool {
    let plain = |status: &HorizontalPodAutoscalerStatus| {
        let mut status = status.clone();
        status.current_replicas = Some(status.current_replicas.unwrap_or(0));
        status.current_metrics = status.current_metrics.filter(|all| !all.is_empty());
        status.conditions = status.conditions.filter(|all| !all.is_empty());
        status
    };
    plain(a) == plain(b)
}
