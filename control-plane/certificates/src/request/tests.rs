use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;

use super::*;

fn pem(groups: &[&str]) -> String {
    let mut params = CertificateParams::default();
    for group in groups {
        params
            .distinguished_name
            .push(DnType::OrganizationName, *group);
    }
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

fn object(pem: &str) -> Value {
    json!({"spec": {"request": STANDARD.encode(pem)}})
}

#[test]
fn a_request_says_its_groups_and_is_signed() {
    let request = Request::of(&object(&pem(&["devs"]))).unwrap();
    assert_eq!(request.organizations, ["devs"]);
    assert_eq!(request.check_signature(), Ok(()));
}

#[test]
fn a_changed_request_is_not_signed() {
    let mut request = Request::of(&object(&pem(&["devs"]))).unwrap();
    let at = request
        .der
        .windows(4)
        .position(|bytes| bytes == b"devs")
        .unwrap();
    request.der[at] = b'D';
    assert!(request.check_signature().is_err());
}

#[test]
fn what_is_no_request_is_refused() {
    let begin = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    // Only the first block counts, because other readers ignore what follows it.
    for text in ["", "x", begin, &format!("{begin}{}", pem(&["devs"]))] {
        let told = Request::of(&object(text)).unwrap_err();
        assert_eq!(told, "PEM block type must be CERTIFICATE REQUEST", "{text}");
    }
}

#[test]
fn alternative_names_are_read() {
    let mut params = CertificateParams::new(vec!["a.example".into()]).unwrap();
    let address = rcgen::SanType::IpAddress("fd00::1".parse().unwrap());
    params.subject_alt_names.push(address);
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = Request::of(&object(&pem)).unwrap();
    assert_eq!(request.dns_names, ["a.example"]);
    assert_eq!(request.addresses.len(), 1);
    assert_eq!(request.addresses[0].len(), 16);
    assert!(request.emails.is_empty() && request.uris.is_empty());
}
