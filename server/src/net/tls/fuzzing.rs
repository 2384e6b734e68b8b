//! For the fuzzer: what TLS reads from files and from clients.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};

use super::verify::{Allowed, ClientVerifier, ServerVerifier};
use super::{check, files, names};

/// Uses the bytes as a certificate, as a revocation list, and as a PEM file of certificates or a
/// key.
pub(crate) fn any_file(data: &[u8]) {
    look_at(&CertificateDer::from(data));
    // Without certificates to check, a list either passes or is malformed.
    let nobody = check::revocation(data, &[]);
    assert!(nobody.is_ok() || nobody.is_err_and(|error| error.contains("malformed crl")));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificates = files::certificates(data).unwrap_or_default();
    for certificate in &certificates {
        look_at(certificate);
    }
    let client = ClientVerifier::new(&provider, Some(data), Allowed::All);
    let server = ServerVerifier::new(&provider, Some(data), Allowed::All);
    assert_eq!(client.is_ok(), server.is_ok());
    // A certificate that cannot be parsed is not accepted.
    assert!(client.is_err() || !certificates.is_empty());
    // Only termination without a panic is tested.
    drop(files::key(data));
}

fn look_at(certificate: &CertificateDer<'_>) {
    let found = names::alternative_names(certificate);
    for name in &found.dns {
        let _ = names::is_for(certificate, name);
    }
    for address in &found.addresses {
        let _ = names::is_for(certificate, &address.to_string());
    }
    let _ = (
        names::common_name(certificate),
        names::is_valid_at(certificate, UnixTime::now()),
        check::revocation(certificate, std::slice::from_ref(certificate)),
    );
    if let Some(serial) = names::serial(certificate) {
        assert_ne!(serial.first(), Some(&0), "zeros in front say nothing");
    }
}
