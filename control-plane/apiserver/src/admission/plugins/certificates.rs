//! Restricts who may approve and sign certificate requests, and which subjects a request may name.

use certificates::Request;
use machinery::object;
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, Plugin, UPDATE};
use crate::auth::{self, Answer};

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
/// The signer of client certificates that this server trusts.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// Lets only users who may approve for a signer set the conditions of approval.
pub(crate) struct CertificateApproval;

/// Lets only users who may sign for a signer write certificates.
pub(crate) struct CertificateSigning;

/// Refuses requests for a certificate of the group that may do everything.
pub(crate) struct CertificateSubjectRestriction;

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == UPDATE && attributes.is_about(GROUP, PLURAL, "approval")
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        _: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let signer = signer(attributes);
            if may(context, attributes, "approve", signer).await {
                return Ok(());
            }
            let why = format!("user not permitted to approve requests with signerName {signer:?}");
            Err(attributes.forbidden(&why))
        })
    }
}

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == UPDATE && attributes.is_about(GROUP, PLURAL, "status")
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        new: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let changes = |key: &str| {
                let old = attributes.old;
                let old = old.and_then(|old| object::at(old, &["status", key]));
                old != object::at(new, &["status", key])
            };
            if !changes("certificate") && !changes("conditions") {
                return Ok(());
            }
            let signer = signer(attributes);
            if may(context, attributes, "sign", signer).await {
                return Ok(());
            }
            let why = format!("user not permitted to sign requests with signerName {signer:?}");
            Err(attributes.forbidden(&why))
        })
    }
}

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == CREATE && attributes.is_about(GROUP, PLURAL, "")
    }

    fn validate<'a>(
        &'a self,
        _: &'a Context,
        attributes: &'a Attributes<'a>,
        new: &'a Value,
    ) -> Answer<'a, ()> {
        let refused = refused_subject(new);
        Box::pin(async move {
            match refused {
                Some(why) => Err(attributes.forbidden(&why)),
                None => Ok(()),
            }
        })
    }
}

/// Why the signer of client certificates must not issue this subject.
fn refused_subject(new: &Value) -> Option<String> {
    if object::text(new, &["spec", "signerName"]) != CLIENT_SIGNER {
        return None;
    }
    let request = match Request::of(new) {
        Err(why) => return Some(format!("failed to parse CSR: {why}")),
        Ok(request) => request,
    };
    let master = request.organizations.iter().any(|one| one == MASTERS);
    master.then(|| format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
}

/// The signer of the stored request: the write cannot choose which right it needs.
fn signer<'a>(attributes: &Attributes<'a>) -> &'a str {
    let old = attributes.old;
    old.map_or("", |old| object::text(old, &["spec", "signerName"]))
}

/// True if the user has this verb for the signer, or for all signers of its domain.
async fn may(context: &Context, attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    if attributes.user.is_this_process() {
        return true;
    }
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer.to_owned(), format!("{domain}/*")] {
        let asked = auth::Attributes {
            user: attributes.user.clone(),
            verb: verb.into(),
            api_group: GROUP.into(),
            resource: "signers".into(),
            name,
            ..auth::Attributes::default()
        };
        if context
            .authorizer
            .authorize(&context.reader, &asked)
            .await
            .is_ok()
        {
            return true;
        }
    }
    false
}
