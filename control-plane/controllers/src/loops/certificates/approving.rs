//! Approves kubelets' requests for client certificates, if the requester may have one.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use machinery::api::Call;
use serde_json::json;

use super::{KUBELET_CLIENT, certificate, has_condition, parsed, rules, usages};
use crate::cache::{Caches, Changed};
use crate::decision::{Decision, update_approval};
use crate::known::{Key, kind_of};
use crate::loops::{Context, Loop};

pub(crate) struct CertificateApproving;

impl Loop for CertificateApproving {
    fn name(&self) -> &'static str {
        "certificatesigningrequest-approving"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        super::wakes(changed, wake);
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let Some(request) = context.caches.signing_requests.at(key) else {
            return Decision::nothing();
        };
        let decided = has_condition(request, "Approved") || has_condition(request, "Denied");
        if decided || !certificate(request).is_empty() || request.spec.signer_name != KUBELET_CLIENT
        {
            return Decision::nothing();
        }
        let Some(asked) = parsed(request) else {
            return Decision::nothing();
        };
        if rules::kubelet_client(&asked, usages(request)).is_err() {
            return Decision::nothing();
        }
        // A node that asks for itself needs either permission: after a refusal the other is tried.
        let own = request.spec.username.as_deref() == Some(asked.common_name.as_str());
        let refused = context
            .failure
            .is_some_and(|one| one.message == OWN.refused);
        if own && !refused {
            approve(request, &OWN)
        } else {
            approve(request, &ANY)
        }
    }
}

/// A permission, and the texts about it.
struct Permission {
    subresource: &'static str,
    refused: &'static str,
    approved: &'static str,
}

/// To get a certificate for the node that asks.
const OWN: Permission = Permission {
    subresource: "selfnodeclient",
    refused: "the requester may not create certificatesigningrequests/selfnodeclient",
    approved: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};

/// To get a certificate for any node.
const ANY: Permission = Permission {
    subresource: "nodeclient",
    refused: "the requester may not create certificatesigningrequests/nodeclient",
    approved: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// Asks whether the requester has the permission, and approves.
fn approve(request: &CertificateSigningRequest, permission: &Permission) -> Decision {
    let kind = kind_of::<SubjectAccessReview>();
    let spec = &request.spec;
    let review = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind(),
        "spec": {
            "user": spec.username, "uid": spec.uid, "groups": spec.groups, "extra": spec.extra,
            "resourceAttributes": {
                "group": "certificates.k8s.io", "version": "*", "verb": "create",
                "resource": "certificatesigningrequests",
                "subresource": permission.subresource,
            },
        },
    });
    let mut new = request.clone();
    let status = new.status.get_or_insert_default();
    let approved = CertificateSigningRequestCondition {
        type_: "Approved".into(),
        status: "True".into(),
        reason: Some("AutoApproved".into()),
        message: Some(permission.approved.into()),
        ..CertificateSigningRequestCondition::default()
    };
    status.conditions.get_or_insert_default().push(approved);
    let mut decision = Decision::nothing();
    let call = Call::Create {
        kind: kind.clone(),
        object: review,
    };
    decision.push(call).refused = Some(permission.refused);
    decision.push(update_approval(&new));
    decision
}
