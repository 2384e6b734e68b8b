//! Deletes old requests for certificates.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use machinery::time::Timestamp;

use super::{certificate, conditions};
use crate::cache::{Caches, Changed};
use crate::decision::{Decision, delete};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::meta;

const PERIOD: Duration = Duration::from_secs(3600);
/// How long a request is kept after it was signed, denied or failed.
const DONE: Duration = Duration::from_secs(3600);
/// How long a request waits for approval, or for its certificate.
const PENDING: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct CertificateCleaning;

impl Loop for CertificateCleaning {
    fn name(&self) -> &'static str {
        "certificatesigningrequest-cleaner"
    }

    fn wakes(&self, _: &Caches, _: &Changed, _: &mut dyn FnMut(Key)) {}

    fn period(&self) -> Option<Duration> {
        Some(PERIOD)
    }

    fn decide(&self, context: &Context<'_>, _: &Key) -> Decision {
        let mut decision = Decision::nothing();
        let all = context.caches.signing_requests.all();
        for old in all.filter(|one| is_old(one, context.now)) {
            decision.push(delete(old.as_ref())).only_for(0);
        }
        decision
    }
}

fn is_old(request: &CertificateSigningRequest, now: Timestamp) -> bool {
    let is_past =
        |since: Option<&Time>, span| since.is_some_and(|since| meta::stamp(since).plus(span) < now);
    if conditions(request).next().is_none() {
        return is_past(request.metadata.creation_timestamp.as_ref(), PENDING);
    }
    let issued = certificate(request);
    let is_expired = || certificates::not_after(issued).is_some_and(|end| end < now);
    conditions(request).any(|one| {
        let updated = one.last_update_time.as_ref();
        match one.type_.as_str() {
            "Denied" | "Failed" => is_past(updated, DONE),
            "Approved" if issued.is_empty() => is_past(updated, PENDING),
            "Approved" => is_past(updated, DONE) || is_expired(),
            _ => false,
        }
    })
}
