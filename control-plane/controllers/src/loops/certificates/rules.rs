//! What each signer demands of a request. The texts are Kubernetes'.

use std::collections::BTreeSet;

use certificates::Request;

use super::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY};

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const SIGNATURE: &str = "digital signature";
/// Only keys of RSA have a use for it, so it may be left out.
const ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// Checks a request for one of Kubernetes' signers. `None` if the signer is another.
pub(super) fn check(
    signer: &str,
    request: &Request,
    usages: &[String],
) -> Option<Result<(), String>> {
    match signer {
        CLIENT => Some(client(usages)),
        KUBELET_CLIENT => Some(kubelet_client(request, usages)),
        KUBELET_SERVING => Some(kubelet_serving(request, usages)),
        LEGACY => Some(Ok(())),
        _ => None,
    }
}

fn client(usages: &[String]) -> Result<(), String> {
    let allowed = [SIGNATURE, ENCIPHERMENT, CLIENT_AUTH];
    if let Some(other) = usages.iter().find(|one| !allowed.contains(&one.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.iter().any(|one| one == CLIENT_AUTH) {
        let why = format!("missing required usage for client certificate: {CLIENT_AUTH}");
        return Err(why);
    }
    Ok(())
}

pub(super) fn kubelet_client(request: &Request, usages: &[String]) -> Result<(), String> {
    is_of_nodes(request)?;
    let kinds = [
        ("DNS", request.dns_names.is_empty()),
        ("Email", request.emails.is_empty()),
        ("IP", request.addresses.is_empty()),
        ("URI", request.uris.is_empty()),
    ];
    has_no_names(&kinds)?;
    is_of_a_node(request)?;
    are(usages, CLIENT_AUTH)
}

fn kubelet_serving(request: &Request, usages: &[String]) -> Result<(), String> {
    is_of_nodes(request)?;
    if request.dns_names.is_empty() && request.addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".into());
    }
    let kinds = [
        ("Email", request.emails.is_empty()),
        ("URI", request.uris.is_empty()),
    ];
    has_no_names(&kinds)?;
    are(usages, SERVER_AUTH)?;
    is_of_a_node(request)
}

fn is_of_nodes(request: &Request) -> Result<(), String> {
    if request.organizations == [NODES] {
        return Ok(());
    }
    Err(format!("subject organization is not {NODES}"))
}

fn is_of_a_node(request: &Request) -> Result<(), String> {
    if request.common_name.starts_with(NODE_PREFIX) {
        return Ok(());
    }
    let why = format!("subject common name does not begin with {NODE_PREFIX}");
    Err(why)
}

fn has_no_names(kinds: &[(&str, bool)]) -> Result<(), String> {
    match kinds.iter().find(|(_, absent)| !absent) {
        Some((kind, _)) => Err(format!("{kind} subjectAltNames are not allowed")),
        None => Ok(()),
    }
}

/// The usages of a kubelet's certificate, in any order.
fn are(usages: &[String], auth: &str) -> Result<(), String> {
    let asked: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let mut wanted = BTreeSet::from([SIGNATURE, ENCIPHERMENT, auth]);
    let all: Vec<&str> = wanted.iter().copied().collect();
    if asked == wanted {
        return Ok(());
    }
    wanted.remove(ENCIPHERMENT);
    if asked == wanted {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", all.join(" ")))
}
