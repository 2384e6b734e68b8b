//! The names in certificates.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

/// The subject's last common name, as in Go; empty if there is none.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> String {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return String::new();
    };
    let names = parsed.subject().iter_common_name();
    let last = names.last().and_then(|name| name.as_str().ok());
    last.unwrap_or_default().to_owned()
}

/// True if `host`, a name or an address, is one of the certificate's alternative names.
pub(super) fn is_for(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let (Ok(parsed), Ok(name)) = (
        ParsedCertificate::try_from(certificate),
        ServerName::try_from(host),
    ) else {
        return false;
    };
    verify_server_name(&parsed, &name).is_ok()
}

pub(super) fn is_valid_at(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    validity.not_before.timestamp() <= now && now <= validity.not_after.timestamp()
}

/// The alternative names of a certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AlternativeNames {
    pub(super) dns: Vec<String>,
    pub(super) addresses: Vec<std::net::IpAddr>,
}

pub(super) fn alternative_names(certificate: &CertificateDer<'_>) -> AlternativeNames {
    let mut found = AlternativeNames::default();
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return found;
    };
    let Ok(Some(names)) = parsed.subject_alternative_name() else {
        return found;
    };
    for name in &names.value.general_names {
        match name {
            GeneralName::DNSName(name) => found.dns.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                if let Ok(bytes) = <[u8; 4]>::try_from(*bytes) {
                    found.addresses.push(bytes.into());
                } else if let Ok(bytes) = <[u8; 16]>::try_from(*bytes) {
                    found.addresses.push(bytes.into());
                }
            }
            _ => {}
        }
    }
    found
}

/// The serial number without leading zeros.
pub(super) fn serial(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(trim(parsed.raw_serial()))
}

pub(super) fn trim(serial: &[u8]) -> Vec<u8> {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    serial[zeros..].to_vec()
}
