use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certificates::Authority;
use rcgen::string::Ia5String;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, SanType};
use serde_json::{Value, json};

use super::approving::CertificateApproving;
use super::cleaning::CertificateCleaning;
use super::signing::{CertificateSigning, Signer};
use super::*;
use crate::loops::Failure;
use crate::tests::fixtures::{ago, bodies, caches, decide, decide_after, lines, now};

const NODE: &str = "system:node:a";
const NODES: &str = "system:nodes";

fn signing() -> CertificateSigning {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let authority = Authority::of(&certificate, &key.serialize_pem()).unwrap();
    let duration = Signer::DURATION;
    CertificateSigning(Some(Arc::new(Signer {
        authority,
        duration,
    })))
}

fn pem(name: &str, group: &str, names: &[SanType]) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
        .distinguished_name
        .push(DnType::OrganizationName, group);
    params.subject_alt_names = names.to_vec();
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

/// A request for a signer. Usages are separated by commas.
fn request(signer: &str, pem: &str, usages: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "r", "creationTimestamp": ago(60)},
        "spec": {
            "signerName": signer, "request": STANDARD.encode(pem), "username": NODE,
            "groups": [NODES], "usages": usages.split(',').collect::<Vec<_>>(),
        },
    })
}

fn with_conditions(request: Value, kinds: &[&str], seconds_ago: i64) -> Value {
    let mut request = request;
    let conditions = kinds.iter().map(|kind| {
        json!({"type": kind, "status": "True", "reason": "Test",
            "lastUpdateTime": ago(seconds_ago)})
    });
    request["status"]["conditions"] = conditions.collect();
    request
}

/// The status that the signer writes about an approved request.
fn signed(request: Value) -> Option<Value> {
    let approved = with_conditions(request, &["Approved"], 1);
    let decision = decide(&signing(), &caches(&[approved]), ("", "r"));
    match lines(&decision).as_slice() {
        [] => None,
        [line] => {
            let what = "update status of certificatesigningrequests /r";
            assert_eq!(line.replace(" r", " /r"), what);
            Some(bodies(&decision)[0]["status"].clone())
        }
        more => panic!("{more:?}"),
    }
}

/// Why the signer refuses; `None` if it issues a certificate.
fn refused(signer: &str, pem: &str, usages: &str) -> Option<String> {
    let status = signed(request(signer, pem, usages)).expect("a status");
    let conditions = status["conditions"].as_array().unwrap();
    match conditions.as_slice() {
        [_] => {
            assert!(status["certificate"].is_string(), "{status}");
            None
        }
        [_, failed] => {
            assert_eq!(status.get("certificate"), None);
            assert_eq!(failed["type"], "Failed");
            assert_eq!(failed["reason"], "SignerValidationFailure");
            assert_eq!(failed["lastUpdateTime"], ago(0));
            Some(failed["message"].as_str().unwrap().to_owned())
        }
        other => panic!("{other:?}"),
    }
}

/// What the signer says of requests with these usages; an empty text is a certificate.
fn are_answered(signer: &str, cases: &[(&str, &str, &str)]) {
    for (pem, usages, why) in cases {
        let why = (!why.is_empty()).then(|| (*why).to_owned());
        assert_eq!(refused(signer, pem, usages), why, "{signer} {usages}");
    }
}

fn dns() -> SanType {
    SanType::DnsName("a".try_into().unwrap())
}

fn address() -> SanType {
    SanType::IpAddress("10.0.0.1".parse().unwrap())
}

fn mail() -> SanType {
    SanType::Rfc822Name(Ia5String::try_from("a@b.c").unwrap())
}

fn uri() -> SanType {
    SanType::URI(Ia5String::try_from("spiffe://a").unwrap())
}

fn node(names: &[SanType]) -> String {
    pem(NODE, NODES, names)
}

#[test]
fn client_certificates_are_for_clients() {
    let user = &pem("jane", "readers", &[dns()]);
    are_answered(
        CLIENT,
        &[
            (user, "client auth", ""),
            (user, "client auth,key encipherment,digital signature", ""),
            (
                user,
                "client auth,server auth",
                "invalid usage for client certificate: server auth",
            ),
            (
                user,
                "digital signature",
                "missing required usage for client certificate: client auth",
            ),
        ],
    );
    are_answered(LEGACY, &[(user, "any", "")]);
}

#[test]
fn client_certificates_of_kubelets_name_a_node_and_nothing_else() {
    let usages = "digital signature,client auth";
    let wrong_usages = "usages did not match [client auth digital signature key encipherment]";
    let wrong_group = "subject organization is not system:nodes";
    let wrong_name = "subject common name does not begin with system:node:";
    let refused = |kind| format!("{kind} subjectAltNames are not allowed");
    are_answered(
        KUBELET_CLIENT,
        &[
            (&node(&[]), usages, ""),
            (&node(&[]), "client auth", wrong_usages),
            (&pem(NODE, "readers", &[]), usages, wrong_group),
            (&pem("jane", NODES, &[]), usages, wrong_name),
            (&node(&[dns()]), usages, &refused("DNS")),
            (&node(&[address(), mail()]), usages, &refused("Email")),
            (&node(&[uri(), address()]), usages, &refused("IP")),
            (&node(&[uri()]), usages, &refused("URI")),
        ],
    );
}

#[test]
fn certificates_that_kubelets_serve_with_name_a_machine() {
    let usages = "key encipherment,server auth,digital signature";
    let wrong_usages = "usages did not match [digital signature key encipherment server auth]";
    let wrong_group = "subject organization is not system:nodes";
    let wrong_name = "subject common name does not begin with system:node:";
    let no_name = "DNS or IP subjectAltName is required";
    let refused = |kind| format!("{kind} subjectAltNames are not allowed");
    are_answered(
        KUBELET_SERVING,
        &[
            (&node(&[address()]), usages, ""),
            (&node(&[dns()]), "server auth,digital signature", ""),
            (&node(&[]), usages, no_name),
            (&node(&[dns(), mail()]), usages, &refused("Email")),
            (&node(&[dns(), uri()]), usages, &refused("URI")),
            (&node(&[dns()]), "client auth", wrong_usages),
            (&pem(NODE, "readers", &[dns()]), usages, wrong_group),
            (&pem("a", NODES, &[dns()]), usages, wrong_name),
        ],
    );
}

#[test]
fn certificates_last_as_long_as_was_asked_within_limits() {
    let year = Signer::DURATION.as_secs().cast_signed();
    let day = 24 * 3600;
    // A long one ends five minutes early, as it began.
    let cases = [
        (None, year - 300),
        (Some(1), 600),
        (Some(3600), 3600),
        (Some(day), day - 300),
        (Some(2 * year), year - 300),
    ];
    for (asked, lasts) in cases {
        let mut request = request(CLIENT, &pem("jane", "readers", &[]), "client auth");
        if let Some(asked) = asked {
            request["spec"]["expirationSeconds"] = asked.into();
        }
        let status = signed(request).unwrap();
        let certificate = status["certificate"].as_str().unwrap();
        let certificate = STANDARD.decode(certificate).unwrap();
        let end = certificates::not_after(&certificate).unwrap();
        assert_eq!(end.seconds - now().seconds, lasts, "{asked:?}");
    }
}

#[test]
fn only_approved_requests_of_known_signers_are_signed() {
    let known = || request(CLIENT, &pem("jane", "readers", &[]), "client auth");
    let other = request("example.com/signer", &pem("jane", "readers", &[]), "any");
    assert_eq!(signed(other), None);
    for conditions in [&[][..], &["Approved", "Denied"], &["Approved", "Failed"]] {
        let request = with_conditions(known(), conditions, 1);
        let decision = decide(&signing(), &caches(&[request]), ("", "r"));
        assert_eq!(lines(&decision), Vec::<String>::new(), "{conditions:?}");
    }
    let mut done = with_conditions(known(), &["Approved"], 1);
    done["status"]["certificate"] = STANDARD.encode("x").into();
    let decision = decide(&signing(), &caches(&[done]), ("", "r"));
    assert_eq!(lines(&decision), Vec::<String>::new());
}

#[test]
fn a_node_may_get_a_certificate_for_itself_or_for_any_node() {
    let usages = "digital signature,client auth";
    let own = request(KUBELET_CLIENT, &pem(NODE, NODES, &[]), usages);
    let known = caches(std::slice::from_ref(&own));
    let asked = |decision| {
        let bodies = bodies(&decision);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        assert_eq!(bodies[0]["spec"]["user"], NODE);
        assert_eq!(bodies[0]["spec"]["groups"], json!([NODES]));
        let condition = &bodies[1]["status"]["conditions"][0];
        assert_eq!(condition["reason"], "AutoApproved");
        (
            text(&bodies[0]["spec"]["resourceAttributes"]["subresource"]),
            text(&condition["message"]),
        )
    };
    let first = decide(&CertificateApproving, &known, ("", "r"));
    let refused = first.steps[0].refused.unwrap();
    let allowed = |allowed: bool| Ok(json!({"status": {"allowed": allowed}}));
    assert!(first.steps[0].verdict(&allowed(true)).is_ok());
    let told = first.steps[0].verdict(&allowed(false)).unwrap_err();
    assert_eq!(told.message, refused);
    let (subresource, message) = asked(first);
    assert_eq!(subresource, "selfnodeclient");
    assert!(message.starts_with("Auto approving self kubelet client"));

    let failure = Failure {
        creating: true,
        deleting: false,
        message: refused.into(),
    };
    let second = decide_after(&CertificateApproving, &known, ("", "r"), Some(&failure));
    let (subresource, message) = asked(second);
    assert_eq!(subresource, "nodeclient");
    assert!(message.starts_with("Auto approving kubelet client"));

    // For another node.
    let other = request(KUBELET_CLIENT, &pem("system:node:b", NODES, &[]), usages);
    let decision = decide(&CertificateApproving, &caches(&[other]), ("", "r"));
    assert_eq!(asked(decision).0, "nodeclient");
}

#[test]
fn other_requests_are_left_to_people() {
    let usages = "digital signature,client auth";
    let node = pem(NODE, NODES, &[]);
    let own = request(KUBELET_CLIENT, &node, usages);
    for left in [
        request(CLIENT, &node, usages),
        request(KUBELET_CLIENT, &pem("jane", NODES, &[]), usages),
        request(KUBELET_CLIENT, &node, "client auth"),
        with_conditions(own.clone(), &["Denied"], 1),
        with_conditions(own, &["Approved"], 1),
    ] {
        let decision = decide(&CertificateApproving, &caches(&[left]), ("", "r"));
        assert_eq!(lines(&decision), Vec::<String>::new());
    }
}

#[test]
fn old_requests_are_deleted() {
    const HOUR: i64 = 3600;
    let plain = || request(CLIENT, &pem("jane", "readers", &[]), "client auth");
    let is_deleted = |request: Value| {
        let decision = decide(&CertificateCleaning, &caches(&[request]), ("", ""));
        match lines(&decision).len() {
            0 => false,
            1 => true,
            more => panic!("{more}"),
        }
    };
    let pending = |seconds| {
        let mut request = plain();
        request["metadata"]["creationTimestamp"] = ago(seconds).into();
        request
    };
    assert!(is_deleted(pending(24 * HOUR + 1)));
    assert!(!is_deleted(pending(24 * HOUR)));
    for kind in ["Denied", "Failed"] {
        assert!(is_deleted(with_conditions(plain(), &[kind], HOUR + 1)));
        assert!(!is_deleted(with_conditions(plain(), &[kind], HOUR)));
    }
    let approved = |seconds| with_conditions(plain(), &["Approved"], seconds);
    assert!(is_deleted(approved(24 * HOUR + 1)));
    assert!(!is_deleted(approved(24 * HOUR)));
    let issued = |expired: bool, seconds| {
        let mut params = CertificateParams::default();
        let year = if expired { 2026 } else { 2027 };
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let mut request = approved(seconds);
        request["status"]["certificate"] = STANDARD.encode(certificate).into();
        request
    };
    assert!(is_deleted(issued(false, HOUR + 1)));
    assert!(!is_deleted(issued(false, HOUR)));
    assert!(is_deleted(issued(true, 1)));
}
