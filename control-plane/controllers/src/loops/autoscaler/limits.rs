//! How far and how fast a size may change: the least and the most replicas, the policies of the
//! autoscaler's behavior, and stabilization, which waits until the metrics are of one mind.

#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior,
};
use machinery::time::Timestamp;

use crate::meta;
use crate::scalings::{Change, Past};

/// For how long the highest recommendation counts when a size would shrink, unless the behavior
/// says otherwise.
const SHRINKS_AFTER: Duration = Duration::from_secs(300);
/// Without a behavior, one decision at most doubles a size.
const GROWTH_FACTOR: i32 = 2;
/// But it may always grow to this size.
const GROWTH_LEAST: i32 = 4;
/// The period of the policies that hold if the behavior names none, in seconds.
const PERIOD: i32 = 15;

/// The size that the metrics ask for, and the sizes it is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) current: i32,
    pub(super) desired: i32,
    pub(super) min: i32,
    pub(super) max: i32,
}

/// The size within all limits, and what the conditions say of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i32,
    /// Reason and message of `AbleToScale`.
    pub(super) able: Said,
    /// True if a limit holds, with reason and message of `ScalingLimited`.
    pub(super) limited: (bool, Said),
}

/// A reason and a message.
pub(super) type Said = (&'static str, &'static str);

const READY: Said = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: Said = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent \
     recommendation",
);
const DOWN_STABILIZED: Said = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent \
     recommendation",
);
const WITHIN: Said = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_FEW: Said = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);
const TOO_MANY: Said = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const UP_LIMIT: Said = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const DOWN_LIMIT: Said = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

/// Holds a wish within its limits.
pub(super) fn limit(
    wish: Wish,
    behavior: Option<&HorizontalPodAutoscalerBehavior>,
    past: &Past,
    now: Timestamp,
) -> Limited {
    let (stable, able) = match behavior {
        None => stabilized(wish, past, now),
        Some(behavior) => stabilized_by(wish, behavior, past, now),
    };
    let wish = Wish {
        desired: stable,
        ..wish
    };
    let (replicas, said) = match behavior {
        None => in_range(wish),
        Some(behavior) => in_rate(wish, behavior, past, now),
    };
    Limited {
        replicas,
        able,
        limited: (replicas != stable, said),
    }
}

/// For how long recommendations count.
pub(super) fn window(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> Duration {
    match behavior {
        None => SHRINKS_AFTER,
        Some(behavior) => up_window(behavior).max(down_window(behavior)),
    }
}

/// For how long a change from one size to another counts; `None` if nobody asks for it.
pub(super) fn counts_for(
    behavior: Option<&HorizontalPodAutoscalerBehavior>,
    grows: bool,
) -> Option<Duration> {
    let behavior = behavior?;
    let policies = if grows {
        up_policies(behavior.scale_up.as_ref())
    } else {
        down_policies(behavior.scale_down.as_ref())
    };
    let longest = policies.iter().map(|policy| policy.period_seconds).max();
    Some(meta::seconds(longest.unwrap_or(0)))
}

/// The size that was asked for lately at most: a size that swings would make pods come and go.
fn stabilized(wish: Wish, past: &Past, now: Timestamp) -> (i32, Said) {
    let recent = past.recommendations.iter();
    let recent = recent.filter(|one| one.at.plus(SHRINKS_AFTER) >= now);
    let highest = recent.map(|one| one.replicas).fold(wish.desired, i32::max);
    let said = if highest == wish.desired {
        READY
    } else {
        DOWN_STABILIZED
    };
    (highest, said)
}

/// The same within the windows of a behavior, which may hold back growth, too.
fn stabilized_by(
    wish: Wish,
    behavior: &HorizontalPodAutoscalerBehavior,
    past: &Past,
    now: Timestamp,
) -> (i32, Said) {
    let within = |window: Duration| {
        let all = past.recommendations.iter();
        let recent = all.filter(move |one| one.at.plus(window) > now);
        recent.map(|one| one.replicas)
    };
    let lowest = within(up_window(behavior)).fold(wish.desired, i32::min);
    let highest = within(down_window(behavior)).fold(wish.desired, i32::max);
    let stable = wish.current.max(lowest).min(highest);
    let said = if stable == wish.desired {
        READY
    } else if wish.desired >= wish.current {
        UP_STABILIZED
    } else {
        DOWN_STABILIZED
    };
    (stable, said)
}

/// Within the least and the most replicas, and not growing too fast: a metric may be wrong.
fn in_range(wish: Wish) -> (i32, Said) {
    let fastest = wish.current.saturating_mul(GROWTH_FACTOR).max(GROWTH_LEAST);
    let (most, said) = if wish.max > fastest {
        (fastest, UP_LIMIT)
    } else {
        (wish.max, TOO_MANY)
    };
    if wish.desired < wish.min {
        (wish.min, TOO_FEW)
    } else if wish.desired > most {
        (most, said)
    } else {
        (wish.desired, WITHIN)
    }
}

/// Within the least and the most replicas, and the policies of a behavior.
fn in_rate(
    wish: Wish,
    behavior: &HorizontalPodAutoscalerBehavior,
    past: &Past,
    now: Timestamp,
) -> (i32, Said) {
    if wish.desired > wish.current {
        let most = growth_limit(wish.current, behavior.scale_up.as_ref(), past, now);
        let most = most.max(wish.current);
        let (most, said) = if wish.max > most {
            (most, UP_LIMIT)
        } else {
            (wish.max, TOO_MANY)
        };
        if wish.desired > most {
            return (most, said);
        }
    } else if wish.desired < wish.current {
        let least = shrink_limit(wish.current, behavior.scale_down.as_ref(), past, now);
        let least = least.min(wish.current);
        let (least, said) = if wish.min < least {
            (least, DOWN_LIMIT)
        } else {
            (wish.min, TOO_FEW)
        };
        if wish.desired < least {
            return (least, said);
        }
    }
    (wish.desired, WITHIN)
}

/// The largest size that the policies for growth allow.
fn growth_limit(current: i32, rules: Option<&HPAScalingRules>, past: &Past, now: Timestamp) -> i32 {
    let sizes = up_policies(rules).into_iter().map(|policy| {
        let start = at_start(current, policy.period_seconds, past, now);
        match &*policy.type_ {
            "Pods" => start.saturating_add(policy.value),
            // Rounded up: a small size would never grow.
            _ => (f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32,
        }
    });
    match select(rules) {
        "Disabled" => current,
        "Min" => sizes.min().unwrap_or(i32::MAX),
        _ => sizes.max().unwrap_or(i32::MIN),
    }
}

/// The smallest size that the policies for shrinking allow.
fn shrink_limit(current: i32, rules: Option<&HPAScalingRules>, past: &Past, now: Timestamp) -> i32 {
    let sizes = down_policies(rules).into_iter().map(|policy| {
        let start = at_start(current, policy.period_seconds, past, now);
        match &*policy.type_ {
            "Pods" => start.saturating_sub(policy.value),
            _ => (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)) as i32,
        }
    });
    match select(rules) {
        "Disabled" => current,
        "Min" => sizes.max().unwrap_or(i32::MIN),
        _ => sizes.min().unwrap_or(i32::MAX),
    }
}

/// The size at the beginning of a period that ends now.
fn at_start(current: i32, period: i32, past: &Past, now: Timestamp) -> i32 {
    let period = meta::seconds(period);
    let sum = |changes: &[Change]| {
        let recent = changes.iter().filter(|one| one.at.plus(period) > now);
        recent.fold(0_i32, |sum, one| sum.saturating_add(one.by))
    };
    current
        .saturating_sub(sum(&past.ups))
        .saturating_add(sum(&past.downs))
}

fn select(rules: Option<&HPAScalingRules>) -> &str {
    let selected = rules.and_then(|rules| rules.select_policy.as_deref());
    selected.unwrap_or("Max")
}

fn up_window(behavior: &HorizontalPodAutoscalerBehavior) -> Duration {
    window_of(behavior.scale_up.as_ref()).unwrap_or(Duration::ZERO)
}

fn down_window(behavior: &HorizontalPodAutoscalerBehavior) -> Duration {
    window_of(behavior.scale_down.as_ref()).unwrap_or(SHRINKS_AFTER)
}

fn window_of(rules: Option<&HPAScalingRules>) -> Option<Duration> {
    rules?.stabilization_window_seconds.map(meta::seconds)
}

fn up_policies(rules: Option<&HPAScalingRules>) -> Vec<HPAScalingPolicy> {
    policies(rules, || {
        vec![policy("Pods", GROWTH_LEAST), policy("Percent", 100)]
    })
}

fn down_policies(rules: Option<&HPAScalingRules>) -> Vec<HPAScalingPolicy> {
    policies(rules, || vec![policy("Percent", 100)])
}

fn policies(
    rules: Option<&HPAScalingRules>,
    otherwise: impl FnOnce() -> Vec<HPAScalingPolicy>,
) -> Vec<HPAScalingPolicy> {
    let given = rules.and_then(|rules| rules.policies.clone());
    given.unwrap_or_else(otherwise)
}

fn policy(kind: &str, value: i32) -> HPAScalingPolicy {
    HPAScalingPolicy {
        period_seconds: PERIOD,
        type_: kind.into(),
        value,
    }
}
