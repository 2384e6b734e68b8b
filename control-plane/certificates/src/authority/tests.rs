use rcgen::string::Ia5String;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType};
use x509_parser::extensions::GeneralName;

use super::*;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn now() -> Timestamp {
    Timestamp::parse("2026-01-02T03:04:05Z").unwrap()
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    Authority::of(&certificate_of(&key), &key.serialize_pem()).unwrap()
}

/// The certificate of an authority. It ends in the year 2027.
fn certificate_of(key: &KeyPair) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = rcgen::date_time_ymd(2025, 1, 1);
    params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    params.self_signed(key).unwrap().pem()
}

fn request(change: impl FnOnce(&mut CertificateParams)) -> Request {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "jane");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "readers");
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    Request::of_pem(pem.as_bytes()).unwrap()
}

fn issue(request: &Request, usages: &[&str], lifetime: Duration) -> Vec<u8> {
    let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
    let pem = authority()
        .issue(request, &usages, lifetime, now())
        .unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n"), "{pem}");
    CertificateDer::from_pem_slice(pem.as_bytes())
        .unwrap()
        .to_vec()
}

#[test]
fn subject_key_and_usages_are_those_of_the_request() {
    let asked = request(|_| {});
    let der = issue(&asked, &["digital signature", "client auth"], YEAR);
    let (rest, issued) = X509Certificate::from_der(&der).unwrap();
    assert!(rest.is_empty());
    assert_eq!(issued.subject().to_string(), "CN=jane, O=readers");
    assert_eq!(issued.issuer().to_string(), "CN=ca");
    assert_eq!(issued.public_key().raw, asked.public_key());
    assert_eq!(issued.key_usage().unwrap().unwrap().value.flags, 1);
    let extended = issued.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.client_auth && !extended.server_auth && !extended.any);
    let constraints = issued.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && !constraints.value.ca);
    assert!(issued.subject_alternative_name().unwrap().is_none());
    let named = issued.extensions().iter().any(|one| {
        let parsed = one.parsed_extension();
        matches!(parsed, ParsedExtension::AuthorityKeyIdentifier(_))
    });
    assert!(named, "no identifier of the authority's key");
}

/// OpenSSL wrote keys so before its version 3, and Go still does.
#[test]
fn an_authority_signs_with_a_key_in_pkcs1() {
    let key = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let certificate = certificate_of(&key);
    // In PKCS#8 it follows a version and an algorithm.
    let pkcs1 = yasna::parse_der(key.serialized_der(), |reader| {
        reader.read_sequence(|parts| {
            parts.next().read_u8()?;
            parts.next().read_der()?;
            parts.next().read_bytes()
        })
    });
    let pem = pem::encode(&pem::Pem::new("RSA PRIVATE KEY", pkcs1.unwrap()));
    let authority = Authority::of(&certificate, &pem).unwrap();
    let usages = ["client auth".to_owned()];
    let issued = authority.issue(&request(|_| {}), &usages, YEAR, now());
    let issued = CertificateDer::from_pem_slice(issued.unwrap().as_bytes()).unwrap();
    let (_, issued) = X509Certificate::from_der(&issued).unwrap();
    let public = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let (_, public) = X509Certificate::from_der(&public).unwrap();
    let algorithms =
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
    let verified = algorithms.all.iter().any(|one| {
        let (message, signature) = (
            issued.tbs_certificate.as_ref(),
            &*issued.signature_value.data,
        );
        let key = &*public.public_key().subject_public_key.data;
        one.verify_signature(key, message, signature).is_ok()
    });
    assert!(verified);
}

#[test]
fn alternative_names_are_those_of_the_request() {
    let text = |text: &str| Ia5String::try_from(text).unwrap();
    let asked = request(|params| {
        params.subject_alt_names = vec![
            SanType::URI(text("spiffe://a/b")),
            SanType::IpAddress("10.0.0.1".parse().unwrap()),
            SanType::Rfc822Name(text("jane@example.com")),
            SanType::DnsName(text("node-0")),
        ];
    });
    let der = issue(&asked, &["server auth"], YEAR);
    let (_, issued) = X509Certificate::from_der(&der).unwrap();
    let names = issued.subject_alternative_name().unwrap().unwrap();
    assert!(!names.critical);
    assert_eq!(
        names.value.general_names,
        [
            GeneralName::DNSName("node-0"),
            GeneralName::RFC822Name("jane@example.com"),
            GeneralName::IPAddress(&[10, 0, 0, 1]),
            GeneralName::URI("spiffe://a/b"),
        ]
    );
    assert!(issued.key_usage().unwrap().is_none());
}

#[test]
fn a_certificate_begins_early_and_ends_with_its_authority_at_the_latest() {
    let of = |seconds: u64| {
        let der = issue(
            &request(|_| {}),
            &["client auth"],
            Duration::from_secs(seconds),
        );
        let (_, issued) = X509Certificate::from_der(&der).unwrap();
        let validity = issued.validity();
        [validity.not_before, validity.not_after].map(|at| at.timestamp() - now().seconds)
    };
    assert_eq!(of(600), [-300, 600]);
    assert_eq!(of(8 * 3600 - 1), [-300, 8 * 3600 - 1]);
    assert_eq!(of(8 * 3600), [-300, 8 * 3600 - 300]);
    let end = Timestamp::parse("2027-01-01T00:00:00Z").unwrap();
    assert_eq!(of(3 * YEAR.as_secs()), [-300, end.seconds - now().seconds]);
}

#[test]
fn times_from_2050_on_have_four_digits_of_the_year() {
    let written = |text: &str| {
        let time = Timestamp::parse(text).unwrap();
        let der = yasna::construct_der(|writer| write_time(writer, time));
        (der[0], String::from_utf8(der[2..].to_vec()).unwrap())
    };
    let (utc, general) = (0x17, 0x18);
    let last = written("2049-12-31T23:59:59Z");
    assert_eq!(last, (utc, "491231235959Z".to_owned()));
    let first = written("2050-01-01T00:00:00Z");
    assert_eq!(first, (general, "20500101000000Z".to_owned()));
}

#[test]
fn an_expired_authority_and_a_foreign_key_are_refused() {
    let later = Timestamp::parse("2027-01-01T00:00:00Z").unwrap();
    let told = authority().issue(&request(|_| {}), &[], YEAR, later);
    let why = "the signer has expired: NotAfter=2027-01-01T00:00:00Z";
    assert_eq!(told, Err(why.to_owned()));

    let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let params = CertificateParams::default();
    let certificate = params.self_signed(&one).unwrap().pem();
    let told = Authority::of(&certificate, &other.serialize_pem()).unwrap_err();
    assert_eq!(told, "the key is not that of the certificate");
}

#[test]
fn the_end_of_a_certificate_can_be_read() {
    let names = [String::from("client auth")];
    let pem = authority().issue(&request(|_| {}), &names, SHORT / 2, now());
    let end = not_after(pem.unwrap().as_bytes()).unwrap();
    assert_eq!(end.since(now()), SHORT / 2);
    assert_eq!(not_after(b"nothing"), None);
}
