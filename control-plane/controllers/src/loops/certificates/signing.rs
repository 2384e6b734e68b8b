//! Issues the certificates of approved requests for Kubernetes' own signers.

use std::sync::Arc;
use std::time::Duration;

use certificates::Authority;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use machinery::time::Timestamp;

use super::{certificate, conditions, has_condition, parsed, rules, usages};
use crate::cache::{Caches, Changed};
use crate::decision::{Decision, update_status};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::meta;

/// Minimum lifetime of a certificate.
const LIFETIME_MIN: Duration = Duration::from_secs(600);

/// Who signs, and for how long.
#[derive(Debug)]
pub struct Signer {
    /// The authority.
    pub authority: Authority,
    /// Lifetime of certificates. A request may ask for less.
    pub duration: Duration,
}

impl Signer {
    /// Lifetime of certificates unless configured.
    pub const DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

    fn lifetime(&self, asked: Option<i32>) -> Duration {
        let Some(asked) = asked else {
            return self.duration;
        };
        let asked = meta::seconds(asked);
        if asked > self.duration {
            self.duration
        } else {
            asked.max(LIFETIME_MIN)
        }
    }
}

/// Signs with this; it does not run without.
pub(crate) struct CertificateSigning(pub(crate) Option<Arc<Signer>>);

impl Loop for CertificateSigning {
    fn name(&self) -> &'static str {
        "certificatesigningrequest-signing"
    }

    fn can_run(&self) -> bool {
        self.0.is_some()
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        super::wakes(changed, wake);
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let Some(signer) = &self.0 else {
            return Decision::nothing();
        };
        let request = context.caches.signing_requests.at(key);
        match request.filter(|one| is_wanted(one)) {
            Some(request) => sign(signer, request, context.now),
            None => Decision::nothing(),
        }
    }
}

/// True for an approved request without a certificate.
fn is_wanted(request: &CertificateSigningRequest) -> bool {
    let failed = conditions(request)
        .any(|one| one.type_ == "Failed" && ["", "True"].contains(&one.status.as_str()));
    certificate(request).is_empty()
        && has_condition(request, "Approved")
        && !has_condition(request, "Denied")
        && !failed
}

fn sign(signer: &Signer, request: &CertificateSigningRequest, now: Timestamp) -> Decision {
    let Some(asked) = parsed(request) else {
        return Decision::nothing();
    };
    let usages = usages(request);
    let Some(checked) = rules::check(&request.spec.signer_name, &asked, usages) else {
        return Decision::nothing();
    };
    let mut new = request.clone();
    let status = new.status.get_or_insert_default();
    match checked {
        Err(why) => {
            let failed = CertificateSigningRequestCondition {
                type_: "Failed".into(),
                status: "True".into(),
                reason: Some("SignerValidationFailure".into()),
                message: Some(why),
                last_update_time: Some(meta::time(now)),
                last_transition_time: None,
            };
            status.conditions.get_or_insert_default().push(failed);
        }
        Ok(()) => {
            let lifetime = signer.lifetime(request.spec.expiration_seconds);
            match signer.authority.issue(&asked, usages, lifetime, now) {
                Ok(issued) => status.certificate = Some(ByteString(issued.into_bytes())),
                Err(error) => {
                    let name = meta::name(&request.metadata);
                    tracing::warn!(name, error, "a certificate cannot be issued");
                    return Decision::nothing();
                }
            }
        }
    }
    Decision::of(update_status(&new))
}
