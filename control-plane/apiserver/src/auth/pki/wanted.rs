//! What a certificate must contain. New certificates are issued with it, and existing ones are
//! checked against it.

use std::net::IpAddr;
use std::time::Duration;

use machinery::time::Timestamp;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{DAY_SECONDS, Identity};
use crate::auth::certificate::Kept;

/// Validity of the certificates that the authority signs.
const CERTIFICATE_SECONDS: i64 = 365 * DAY_SECONDS;
/// A certificate that expires within this time is renewed at a start.
const RENEW_SECONDS: i64 = 30 * DAY_SECONDS;
/// Certificates become valid a little early, because clocks differ.
const EARLY_SECONDS: i64 = 3600;

/// The required contents of a certificate.
pub(super) struct Wanted<'a> {
    pub(super) name: &'a str,
    /// Empty for no group.
    pub(super) group: &'a str,
    pub(super) names: &'a [String],
    pub(super) usage: ExtendedKeyUsagePurpose,
}

impl<'a> Wanted<'a> {
    pub(super) fn server(names: &'a [String]) -> Wanted<'a> {
        Wanted {
            name: "kube-apiserver",
            group: "",
            names,
            usage: ExtendedKeyUsagePurpose::ServerAuth,
        }
    }

    pub(super) fn params(&self, now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
        let mut params = dated(now, CERTIFICATE_SECONDS);
        if !self.group.is_empty() {
            params
                .distinguished_name
                .push(DnType::OrganizationName, self.group);
        }
        params
            .distinguished_name
            .push(DnType::CommonName, self.name);
        for name in self.names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![self.usage.clone()];
        Ok(params)
    }

    pub(super) fn issue(
        &self,
        issuer: &Issuer<'static, KeyPair>,
        now: Timestamp,
    ) -> Result<Identity, rcgen::Error> {
        let mut params = self.params(now)?;
        params.use_authority_key_identifier_extension = true;
        let pair = KeyPair::generate()?;
        let certificate = params.signed_by(&pair, issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: pair.serialize_pem(),
        })
    }

    /// True if an existing certificate with its key meets these requirements. A crash may have
    /// replaced only one of the two.
    pub(super) fn is_met_by(&self, pem: &str, key: &str, now: Timestamp) -> bool {
        let kept = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| error.to_string())
            .and_then(|der| Kept::of(&der));
        let (Ok(kept), Ok(pair)) = (kept, KeyPair::from_pem(key)) else {
            return false;
        };
        kept.lasts(now, RENEW_SECONDS)
            && self.names.iter().all(|name| kept.names.contains(name))
            && kept.public_key == pair.public_key_raw()
    }
}

pub(super) fn dated(now: Timestamp, seconds: i64) -> CertificateParams {
    let at = |seconds: i64| {
        let since = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        rcgen::date_time_ymd(1970, 1, 1) + since
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = at(now.seconds - EARLY_SECONDS);
    params.not_after = at(now.seconds + seconds);
    params
}
