//! Who may approve and sign requests for certificates, and what nobody may ask for.

use machinery::object;
use serde_json::Value;

use super::forbidden;
use crate::api::Api;
use crate::auth::{Admission, Answer, Attributes};
use crate::registry::certificate_request::Request;

pub(super) const GROUP: &str = "certificates.k8s.io";
pub(super) const PLURAL: &str = "certificatesigningrequests";
/// The signer whose certificates this server believes.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// CertificateApproval.
pub(super) fn approval<'a>(
    api: &'a Api,
    admission: &'a Admission<'a>,
    _: &'a mut Value,
) -> Answer<'a, ()> {
    Box::pin(async move {
        let signer = signer(admission);
        if may(api, admission, "approve", signer).await {
            return Ok(());
        }
        let why = format!("user not permitted to approve requests with signerName {signer:?}");
        Err(forbidden(admission, &why))
    })
}

/// CertificateSigning.
pub(super) fn signing<'a>(
    api: &'a Api,
    admission: &'a Admission<'a>,
    new: &'a mut Value,
) -> Answer<'a, ()> {
    Box::pin(async move {
        let changes = |key: &str| {
            let old = admission
                .old
                .and_then(|old| object::at(old, &["status", key]));
            old != object::at(new, &["status", key])
        };
        if !changes("certificate") && !changes("conditions") {
            return Ok(());
        }
        let signer = signer(admission);
        if may(api, admission, "sign", signer).await {
            return Ok(());
        }
        let why = format!("user not permitted to sign requests with signerName {signer:?}");
        Err(forbidden(admission, &why))
    })
}

/// CertificateSubjectRestriction.
pub(super) fn subject<'a>(
    _: &'a Api,
    admission: &'a Admission<'a>,
    new: &'a mut Value,
) -> Answer<'a, ()> {
    let refused = match object::text(new, &["spec", "signerName"]) == CLIENT_SIGNER {
        false => None,
        true => match Request::of(new) {
            Err(why) => Some(format!("failed to parse CSR: {why}")),
            Ok(request) => request
                .organizations
                .iter()
                .any(|one| one == MASTERS)
                .then(|| {
                    format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")
                }),
        },
    };
    Box::pin(async move {
        match refused {
            Some(why) => Err(forbidden(admission, &why)),
            None => Ok(()),
        }
    })
}

/// The signer of the request as it is stored: a write does not choose who must allow it.
fn signer<'a>(admission: &Admission<'a>) -> &'a str {
    let old = admission.old;
    old.map_or("", |old| object::text(old, &["spec", "signerName"]))
}

/// Whether the user may do this for a signer, or for all of its domain.
async fn may(api: &Api, admission: &Admission<'_>, verb: &str, signer: &str) -> bool {
    // This process itself has no name, and nobody else is without one.
    if admission.user.name.is_empty() {
        return true;
    }
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer.to_owned(), format!("{domain}/*")] {
        let asked = Attributes {
            user: admission.user.clone(),
            verb: verb.into(),
            api_group: GROUP.into(),
            resource: "signers".into(),
            name,
            ..Attributes::default()
        };
        if api.0.config.gate.authorize(api, &asked).await.is_ok() {
            return true;
        }
    }
    false
}
