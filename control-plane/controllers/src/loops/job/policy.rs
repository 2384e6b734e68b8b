//! The policies of a job: what the failure of a pod means, and which indexes are enough.

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::indexes::Indexes;
use crate::meta;

/// The meaning of a pod's failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts towards the limits.
    Counts,
    /// It counts for nothing.
    Ignored,
    /// The pod's index has failed.
    FailsIndex,
    /// The job has failed, with this message.
    FailsJob(String),
}

/// The verdict of the first rule that a failed pod matches.
pub(super) fn verdict(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Verdict {
    let status = pod.status.clone().unwrap_or_default();
    let rules = policy.iter().flat_map(|policy| policy.rules.iter());
    for (at, rule) in rules.enumerate() {
        let matched = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(codes), _) => by_exit_code(&status, codes).map(|(container, code)| {
                format!(
                    "Container {container} for pod {} failed with exit code {code}",
                    name(pod)
                )
            }),
            (None, Some(patterns)) => by_condition(&status, patterns)
                .map(|condition| format!("Pod {} has condition {condition}", name(pod))),
            (None, None) => None,
        };
        let Some(matched) = matched else {
            continue;
        };
        match rule.action.as_str() {
            "Ignore" => return Verdict::Ignored,
            "FailIndex" => return Verdict::FailsIndex,
            "Count" => return Verdict::Counts,
            "FailJob" => {
                let message = format!("{matched} matching {} rule at index {at}", rule.action);
                return Verdict::FailsJob(message);
            }
            _ => {}
        }
    }
    Verdict::Counts
}

fn name(pod: &Pod) -> String {
    let (namespace, name) = meta::key(&pod.metadata);
    format!("{namespace}/{name}")
}

/// The first container that ended with a code that matches, and the code.
fn by_exit_code(
    status: &PodStatus,
    wanted: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(String, i32)> {
    let containers = status.container_statuses.iter().flatten();
    let init = status.init_container_statuses.iter().flatten();
    containers.chain(init).find_map(|one: &ContainerStatus| {
        let code = one.state.as_ref()?.terminated.as_ref()?.exit_code;
        let named = wanted.container_name.as_ref();
        let in_question = named.is_none_or(|name| *name == one.name) && code != 0;
        let matches = match wanted.operator.as_str() {
            "In" => wanted.values.contains(&code),
            "NotIn" => !wanted.values.contains(&code),
            _ => false,
        };
        (in_question && matches).then(|| (one.name.clone(), code))
    })
}

/// The first condition that one of the patterns matches.
fn by_condition<'a>(
    status: &'a PodStatus,
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
) -> Option<&'a str> {
    let mut conditions = status.conditions.iter().flatten();
    let found = conditions.find(|has| {
        patterns.iter().any(|pattern| {
            let wanted = pattern.status.as_deref().unwrap_or("True");
            pattern.type_ == has.type_ && wanted == has.status
        })
    });
    found.map(|condition| condition.type_.as_str())
}

/// The message about the first rule of the policy that the succeeded indexes meet.
pub(super) fn success(
    policy: Option<&SuccessPolicy>,
    completions: i32,
    succeeded: &Indexes,
) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let mut rules = policy?.rules.iter();
    let met = rules.position(|rule| match &rule.succeeded_indexes {
        Some(wanted) => {
            let wanted = Indexes::parse(wanted, completions);
            let common = wanted.common(succeeded);
            let enough = rule.succeeded_count.is_some_and(|count| common >= count);
            !wanted.is_empty() && (common == wanted.count() || enough)
        }
        None => rule
            .succeeded_count
            .is_some_and(|count| succeeded.count() >= count),
    });
    met.map(|at| format!("Matched rules at index {at}"))
}
