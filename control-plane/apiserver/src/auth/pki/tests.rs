use std::os::unix::fs::PermissionsExt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::super::certificate::{Bearer, Kept};
use super::*;

const NOW: Timestamp = Timestamp {
    seconds: 1_800_000_000,
    nanos: 0,
};

fn open(directory: &Path, names: &[&str], now: Timestamp) -> Pki {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Pki::open(directory, &names, now).unwrap()
}

fn later(days: i64) -> Timestamp {
    Timestamp {
        seconds: NOW.seconds + days * DAY_SECONDS,
        nanos: 0,
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[test]
fn everything_is_made_once_and_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pki");
    let first = open(&path, &["10.96.0.1"], NOW);
    for (file, mode) in [
        ("ca.crt", 0o644),
        ("ca.key", 0o600),
        ("apiserver.crt", 0o644),
        ("apiserver.key", 0o600),
        ("admin.key", 0o600),
        ("sa.key", 0o600),
        ("sa.pub", 0o644),
    ] {
        let found = fs::metadata(path.join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{file}");
    }
    let again = open(&path, &["10.96.0.1"], later(1));
    assert_eq!(first.authority, again.authority);
    assert!(first.server == again.server && first.admin == again.admin);
    assert_eq!(first.token_key, again.token_key);
}

#[test]
fn the_server_is_known_by_every_name_it_is_reached_by() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path(), &["10.96.0.1", "example.test"], NOW);
    let names = Kept::of(&der(&pki.server.certificate)).unwrap().names;
    let wanted = [
        "10.96.0.1",
        "127.0.0.1",
        "::1",
        "example.test",
        "kubernetes.default.svc",
    ];
    for name in wanted {
        assert!(names.iter().any(|has| has == name), "{name} of {names:?}");
    }
}

#[test]
fn the_owner_is_of_the_group_that_may_do_everything() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path(), &[], NOW);
    let bearer = Bearer::of(&der(&pki.admin.certificate)).unwrap().unwrap();
    assert_eq!(bearer.user.name, "kubernetes-admin");
    assert_eq!(bearer.user.groups, [MASTERS]);
    assert_eq!(bearer.not_after, later(365).seconds);
    let node = pki.client("system:node:a", "system:nodes", NOW).unwrap();
    let bearer = Bearer::of(&der(&node.certificate)).unwrap().unwrap();
    assert_eq!(bearer.user.name, "system:node:a");
    assert_eq!(bearer.user.groups, ["system:nodes"]);
    let scheduler = pki.client("system:kube-scheduler", "", NOW).unwrap();
    let bearer = Bearer::of(&der(&scheduler.certificate)).unwrap().unwrap();
    assert!(bearer.user.groups.is_empty());
}

#[test]
fn a_certificate_is_renewed_before_it_ends_and_for_a_new_name() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), &[], NOW);
    let renewed = open(directory.path(), &[], later(340));
    assert!(first.server.certificate != renewed.server.certificate);
    assert!(first.admin.certificate != renewed.admin.certificate);
    assert_eq!(first.authority, renewed.authority);
    let named = open(directory.path(), &["example.test"], later(340));
    assert!(renewed.server.certificate != named.server.certificate);
    assert!(renewed.admin == named.admin);
}

#[test]
fn a_key_of_another_certificate_is_replaced_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), &[], NOW);
    write(
        &directory.path().join("apiserver.key"),
        &first.admin.key,
        0o600,
    )
    .unwrap();
    let again = open(directory.path(), &[], NOW);
    let shown = Kept::of(&der(&again.server.certificate)).unwrap();
    let pair = KeyPair::from_pem(&again.server.key).unwrap();
    assert_eq!(shown.public_key, pair.public_key_raw());
    assert!(first.server.certificate != again.server.certificate);
}

#[test]
fn an_authority_without_its_key_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path(), &[], NOW);
    fs::remove_file(directory.path().join("ca.key")).unwrap();
    let Err(error) = Pki::open(directory.path(), &[], NOW) else {
        panic!("it was replaced");
    };
    assert!(error.to_string().contains("ca.key: missing"), "{error}");
}

#[test]
fn the_kubeconfig_is_written_when_it_says_something_new() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path(), &[], NOW);
    let path = directory.path().join("admin.kubeconfig");
    pki.write_admin(&path, "https://127.0.0.1:6443").unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let config: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(
        config["clusters"][0]["cluster"]["server"],
        "https://127.0.0.1:6443"
    );
    assert_eq!(config["current-context"], config["contexts"][0]["name"]);
    let data = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str();
    assert_eq!(
        STANDARD.decode(data.unwrap()).unwrap(),
        pki.authority.as_bytes()
    );
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    pki.write_admin(&path, "https://127.0.0.1:7443").unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains(":7443"));
}

#[test]
fn the_kubeconfig_has_the_key_in_the_form_of_sec_1() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path(), &[], NOW);
    let text = pki.kubeconfig("https://127.0.0.1:1", "u", &pki.admin);
    let (_, data) = text.trim_end().rsplit_once(' ').unwrap();
    let pem = String::from_utf8(STANDARD.decode(data).unwrap()).unwrap();
    assert!(pem.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "{pem}");
    let (written, made) = (Key::from_pem(&pem), Key::from_pem(&pki.admin.key));
    assert_eq!(written.unwrap().public.pem(), made.unwrap().public.pem());
    assert_eq!(sec1::of(&pem), None);
}

/// OpenSSL wrote keys so before its version 3, and Go still does.
#[test]
fn the_key_of_the_authority_may_be_pkcs1() {
    let directory = tempfile::tempdir().unwrap();
    let key = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let mut params = dated(NOW, AUTHORITY_SECONDS);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    // What precedes it in PKCS#8 is as long for every key of 2048 bits.
    let pkcs1 = STANDARD.encode(&key.serialized_der()[26..]);
    let pem = format!("-----BEGIN RSA PRIVATE KEY-----\n{pkcs1}\n-----END RSA PRIVATE KEY-----\n");
    for (file, text) in [("ca.crt", &certificate), ("ca.key", &pem)] {
        fs::write(directory.path().join(file), text).unwrap();
    }
    let pki = open(directory.path(), &[], NOW);
    assert_eq!(pki.authority, certificate);
    let issuer = Issuer::from_ca_cert_der(&der(&certificate), &key).unwrap();
    let other = dated(NOW, AUTHORITY_SECONDS);
    let pair = KeyPair::generate().unwrap();
    let theirs = other.signed_by(&pair, &issuer).unwrap();
    let signed_by = |der: &[u8]| {
        let (_, parsed) = X509Certificate::from_der(der).unwrap();
        (
            parsed.issuer().to_string(),
            parsed.signature_algorithm.oid().to_string(),
        )
    };
    assert_eq!(
        signed_by(&der(&pki.server.certificate)),
        signed_by(theirs.der())
    );
}
