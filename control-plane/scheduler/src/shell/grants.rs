//! The calls that give claims for devices to a pod before it is bound, and that take them back.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api_client::{Client, now};
use machinery::api::{Api, Call, PatchForm};
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::claims::{Allotment, Grant};
use crate::pod::PodInfo;
use crate::refusal::Freed;

/// Delay before the apiserver is asked again what became of a write.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Gives claims to a pod, one after the other. Returns the versions of those that it got, and why
/// not all.
pub(super) async fn give(
    client: &Client,
    pod: &PodInfo,
    grants: &[Grant],
) -> (Vec<String>, Result<(), Status>) {
    let mut got = Vec::new();
    for grant in grants {
        match give_one(client, pod, grant).await {
            Ok(claim) => got.push(object::resource_version(&claim).to_owned()),
            Err(status) => return (got, Err(status)),
        }
    }
    (got, Ok(()))
}

/// The pod is not bound: it may use none of these claims. They stay allocated, as in Kubernetes: it
/// is tried again with the same devices first.
pub(super) async fn take_back(client: &Client, pod: &PodInfo, grants: &[Grant]) {
    for grant in grants {
        if let Err(status) = client.call(unreserve(pod, grant)).await {
            tracing::info!(claim = grant.claim, %status, "still reserved");
        }
    }
}

/// True if the apiserver may have done what this answers: it did not say that it refuses it.
pub(super) fn is_unclear(status: &Status) -> bool {
    status.code >= 500 || status.reason == "TooManyRequests"
}

/// Takes the devices from a claim of a pod, as long as nobody has changed it.
pub(super) fn free(pod: &PodInfo, freed: &Freed) -> Call {
    let patch = json!({
        "metadata": {"uid": freed.uid, "resourceVersion": freed.version},
        "status": {"allocation": null, "devices": null, "reservedFor": null},
    });
    patched(pod, &freed.claim, "status", PatchForm::Merge, patch)
}

async fn give_one(client: &Client, pod: &PodInfo, grant: &Grant) -> Result<Object, Status> {
    let Some(allotment) = &grant.allotment else {
        return client.call(reserve(pod, grant)).await;
    };
    let mut version = allotment.version.clone();
    if let Some(finalizers) = &allotment.finalizers {
        // Before it is allocated: else nothing would keep a claim with devices from going.
        let patch = json!({"metadata": {
            "uid": grant.uid, "resourceVersion": version, "finalizers": finalizers,
        }});
        let call = patched(pod, &grant.claim, "", PatchForm::Merge, patch);
        let protected = client.call(call).await?;
        version = object::resource_version(&protected).to_owned();
    }
    let call = allocate(pod, grant, allotment, &version, now());
    match client.call(call).await {
        Err(status) if is_unclear(&status) => given(client, pod, grant).await.ok_or(status),
        answer => answer,
    }
}

/// The claim, if the pod got it although no answer said so. Until that is known, the devices must
/// stay taken: another claim could get them, too.
async fn given(client: &Client, pod: &PodInfo, grant: &Grant) -> Option<Object> {
    loop {
        let call = Call::Get {
            kind: Arc::clone(kind()),
            namespace: pod.namespace.clone(),
            name: grant.claim.clone(),
        };
        match client.call(call).await {
            Ok(claim) => return is_given(&claim, pod, grant).then_some(claim),
            Err(status) if is_unclear(&status) => tokio::time::sleep(ASKED_AGAIN_AFTER).await,
            Err(_) => return None,
        }
    }
}

fn is_given(claim: &Object, pod: &PodInfo, grant: &Grant) -> bool {
    let mut users = object::items(claim, &["status", "reservedFor"]).iter();
    let is_user = users.any(|one| object::text(one, &["uid"]) == pod.uid);
    is_user && object::uid(claim) == grant.uid
}

/// Allocates a claim that is in the state that was looked at, and lets the pod use it.
fn allocate(
    pod: &PodInfo,
    grant: &Grant,
    allotment: &Allotment,
    version: &str,
    now: Timestamp,
) -> Call {
    let mut allocation = allotment.allocation.clone();
    allocation["allocationTimestamp"] = now.to_seconds().into();
    let patch = json!({
        "metadata": {"uid": grant.uid, "resourceVersion": version},
        "status": {"allocation": allocation, "reservedFor": [consumer(pod)]},
    });
    patched(pod, &grant.claim, "status", PatchForm::Merge, patch)
}

/// Lets the pod use an allocated claim, beside others that use it.
fn reserve(pod: &PodInfo, grant: &Grant) -> Call {
    reservation(pod, grant, consumer(pod))
}

fn unreserve(pod: &PodInfo, grant: &Grant) -> Call {
    reservation(pod, grant, json!({"$patch": "delete", "uid": pod.uid}))
}

fn reservation(pod: &PodInfo, grant: &Grant, one: Value) -> Call {
    let patch = json!({
        "metadata": {"uid": grant.uid},
        "status": {"reservedFor": [one]},
    });
    patched(pod, &grant.claim, "status", PatchForm::Strategic, patch)
}

fn consumer(pod: &PodInfo) -> Value {
    json!({"resource": "pods", "name": pod.name, "uid": pod.uid})
}

fn patched(
    pod: &PodInfo,
    claim: &str,
    subresource: &'static str,
    form: PatchForm,
    patch: Value,
) -> Call {
    Call::Patch {
        kind: Arc::clone(kind()),
        namespace: pod.namespace.clone(),
        name: claim.to_owned(),
        subresource,
        form,
        patch,
    }
}

fn kind() -> &'static Arc<Kind> {
    let kind = schema::kind("resource.k8s.io", "v1", "ResourceClaim");
    kind.expect("the table has it")
}
