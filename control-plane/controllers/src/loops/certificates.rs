//! Requests for certificates: kubelets' are approved, approved ones are signed, old ones deleted.

pub(crate) mod approving;
pub(crate) mod cleaning;
mod rules;
pub(crate) mod signing;
#[cfg(test)]
mod tests;

use certificates::Request;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};

use crate::cache::Changed;
use crate::known::Key;
use crate::meta;

/// The signer of client certificates that the apiserver trusts.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of kubelets' client certificates.
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of the certificates with which kubelets serve.
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// The signer of requests that named none, in an earlier version of the API.
const LEGACY: &str = "kubernetes.io/legacy-unknown";

/// Calls `wake` for a request that is new or changed.
fn wakes(changed: &Changed, wake: &mut dyn FnMut(Key)) {
    if let Changed::CertificateSigningRequest(diff) = changed {
        let new = diff.new.iter();
        new.for_each(|one| wake(meta::key(&one.metadata)));
    }
}

fn conditions(
    request: &CertificateSigningRequest,
) -> impl Iterator<Item = &CertificateSigningRequestCondition> {
    let status = request.status.iter();
    status.flat_map(|status| status.conditions.iter().flatten())
}

fn has_condition(request: &CertificateSigningRequest, wanted: &str) -> bool {
    conditions(request).any(|one| one.type_ == wanted)
}

/// The issued certificate in PEM; empty if there is none.
fn certificate(request: &CertificateSigningRequest) -> &[u8] {
    let status = request.status.as_ref();
    let certificate = status.and_then(|status| status.certificate.as_ref());
    certificate.map_or(&[], |bytes| &bytes.0)
}

/// The parsed request. The apiserver stores none that it cannot parse.
fn parsed(request: &CertificateSigningRequest) -> Option<Request> {
    match Request::of_pem(&request.spec.request.0) {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            let name = meta::name(&request.metadata);
            tracing::warn!(name, error, "a request for a certificate cannot be parsed");
            None
        }
    }
}

fn usages(request: &CertificateSigningRequest) -> &[String] {
    request.spec.usages.as_deref().unwrap_or_default()
}
