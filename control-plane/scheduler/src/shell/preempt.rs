//! Carries a preemption out: the pods that leave are told why, and deleted.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api_client::{Client, now};
use futures_util::future::{BoxFuture, FutureExt, join_all};
use machinery::api::{Api, Call, DeleteOptions};
use machinery::status::Status;
use serde_json::json;

use super::Outcome;
use super::report::{condition, kind_of, status_patch};
use crate::core::Preemption;
use crate::pod::{DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, PodInfo};

/// Deletes the victims of a preemption for `pod`, all at once.
pub(super) fn preempt(
    client: Client,
    pod: Arc<PodInfo>,
    preemption: Preemption,
) -> BoxFuture<'static, Outcome> {
    let Preemption {
        node,
        victims,
        outdone,
        ..
    } = preemption;
    async move {
        for other in &outdone {
            if let Err(status) = client.call(forget_nomination(other)).await {
                tracing::debug!(pod = other.full_name(), %status, "it stays nominated");
            }
        }
        let deletions = victims.iter().map(|victim| delete(&client, victim, &pod));
        let results = join_all(deletions).await;
        let (mut gone, mut failure) = (Vec::new(), None);
        for (victim, result) in victims.into_iter().zip(results) {
            match result {
                Ok(true) => gone.push(victim),
                Ok(false) => {}
                Err(status) => failure = Some(status),
            }
        }
        Outcome::Preempted {
            pod,
            node,
            gone,
            failure,
        }
    }
    .boxed()
}

/// False if the pod was gone already.
async fn delete(client: &Client, victim: &PodInfo, pod: &PodInfo) -> Result<bool, Status> {
    let deletion = Call::Delete {
        kind: kind_of("", "Pod"),
        namespace: victim.namespace.clone(),
        name: victim.name.clone(),
        options: DeleteOptions {
            uid: victim.uid.clone(),
            ..DeleteOptions::default()
        },
    };
    for call in tell_why(victim, pod).into_iter().chain([deletion]) {
        match client.call(call).await {
            Ok(_) => {}
            Err(status) if status.reason == "NotFound" || status.is_of_another() => {
                return Ok(false);
            }
            Err(status) => return Err(status),
        }
    }
    Ok(true)
}

/// The condition with which a victim is deleted.
fn tell_why(victim: &PodInfo, pod: &PodInfo) -> Option<Call> {
    let kind = [DISRUPTION_TARGET, "True", PREEMPTION_BY_SCHEDULER];
    let why = "preempting to accommodate a higher priority pod";
    let why = format!("{}: {why}", pod.scheduler);
    let condition = condition(victim, kind, &why, now())?;
    Some(status_patch(victim, json!({"conditions": [condition]})))
}

fn forget_nomination(pod: &PodInfo) -> Call {
    status_patch(pod, json!({"nominatedNodeName": null}))
}
