//! Self-signed certificates that the server creates on request.

use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P521_SHA512, SanType,
};

use crate::config::Url;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Paths of the files.
pub(super) struct Made {
    pub(super) cert: String,
    pub(super) key: String,
}

/// Creates a certificate for the hosts of `urls` in `dir`, unless one exists.
pub(super) fn make(dir: &Path, urls: &[&Url], years: u64) -> Result<Made, String> {
    if years == 0 {
        let error = "selfSignedCertValidity is invalid,it should be greater than 0";
        tracing::warn!(error, "cannot generate cert");
        return Err(error.to_owned());
    }
    let text = |error: io::Error| error.to_string();
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).map_err(text)?;
    let dir = std::path::absolute(dir).map_err(text)?;
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    if !(cert.exists() && key.exists()) {
        let (cert_pem, key_pem) = sign(urls, years).map_err(|error| {
            tracing::warn!(%error, "cannot generate x509 certificate");
            error.to_string()
        })?;
        // Write the key first: a later start takes an existing certificate for a complete pair.
        write(&key, &key_pem, 0o600).map_err(text)?;
        tracing::info!(path = %key.display(), "created key file");
        write(&cert, &cert_pem, 0o644).map_err(text)?;
        tracing::info!(path = %cert.display(), "created cert file");
    }
    let path = |path: &Path| path.to_string_lossy().into_owned();
    Ok(Made {
        cert: path(&cert),
        key: path(&key),
    })
}

fn sign(urls: &[&Url], years: u64) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "etcd");
    params.distinguished_name = name;
    let now = std::time::UNIX_EPOCH + crate::basics::clock::unix_time();
    params.not_before = now.into();
    let years = u32::try_from(years).unwrap_or(u32::MAX);
    // The format has only four digits for the year.
    const YEARS_MAX: u32 = 5000;
    params.not_after = (now + YEAR * years.min(YEARS_MAX)).into();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::CrlSign,
    ];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for url in urls {
        let host = url.host();
        match host.parse::<IpAddr>() {
            Ok(address) => params.subject_alt_names.push(SanType::IpAddress(address)),
            Err(_) if url.is_unix() || host.is_empty() => {}
            Err(_) => {
                let name = SanType::DnsName(host.try_into()?);
                params.subject_alt_names.push(name);
            }
        }
    }
    tracing::warn!(
        "certificate-validity-bound-not-after" = %params.not_after,
        "automatically generate certificates"
    );
    let key = KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512)?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates are no files of the store"
)]
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
