//! The TLS settings from flags.

use std::fmt;

use super::Invalid;
use super::args::Values;

/// The TLS files and settings of one end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// In all of these, empty means not given.
    pub cert_file: String,
    pub key_file: String,
    /// Shown when this server is the client; if not given, `cert_file` is shown.
    pub client_cert_file: String,
    pub client_key_file: String,
    /// If given, every client must show a certificate signed by this authority.
    pub trusted_ca_file: String,
    pub client_cert_auth: bool,
    /// In DER format.
    pub crl_file: String,
    /// Empty: all are allowed.
    pub allowed_cns: Vec<String>,
    /// Empty: all are allowed.
    pub allowed_hostnames: Vec<String>,
    /// Do not check that a member's certificate names its host.
    pub skip_client_san_verification: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

impl TlsVersion {
    /// `None` for an empty text. The error is etcd's.
    pub(crate) fn parse(text: &str) -> Result<Option<TlsVersion>, String> {
        match text {
            "" => Ok(None),
            "TLS1.2" => Ok(Some(TlsVersion::Tls12)),
            "TLS1.3" => Ok(Some(TlsVersion::Tls13)),
            other => Err(format!(
                "unexpected TLS version {other:?} (must be one of: TLS1.2, TLS1.3)"
            )),
        }
    }
}

impl TlsFiles {
    /// True if there is neither certificate nor key.
    pub fn is_empty(&self) -> bool {
        self.cert_file.is_empty() && self.key_file.is_empty()
    }
}

/// In etcd's log format.
impl fmt::Display for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cert = {}, key = {}, client-cert={}, client-key={}, trusted-ca = {}, client-cert-auth = {}, crl-file = {}",
            self.cert_file,
            self.key_file,
            self.client_cert_file,
            self.client_key_file,
            self.trusted_ca_file,
            self.client_cert_auth,
            self.crl_file
        )
    }
}

/// The files for clients.
pub(super) fn client(values: &Values) -> TlsFiles {
    let text = |name| values.text(name).to_owned();
    TlsFiles {
        cert_file: text("cert-file"),
        key_file: text("key-file"),
        client_cert_file: text("client-cert-file"),
        client_key_file: text("client-key-file"),
        trusted_ca_file: text("trusted-ca-file"),
        client_cert_auth: values.bool("client-cert-auth"),
        crl_file: text("client-crl-file"),
        allowed_cns: list(values.text("client-cert-allowed-cn")),
        allowed_hostnames: list(values.text("client-cert-allowed-hostname")),
        // Clients may connect from any host.
        skip_client_san_verification: true,
    }
}

/// The files for members.
pub(super) fn peer(values: &Values) -> TlsFiles {
    let text = |name| values.text(name).to_owned();
    TlsFiles {
        cert_file: text("peer-cert-file"),
        key_file: text("peer-key-file"),
        client_cert_file: text("peer-client-cert-file"),
        client_key_file: text("peer-client-key-file"),
        trusted_ca_file: text("peer-trusted-ca-file"),
        client_cert_auth: values.bool("peer-client-cert-auth"),
        crl_file: text("peer-crl-file"),
        allowed_cns: list(values.text("peer-cert-allowed-cn")),
        allowed_hostnames: list(values.text("peer-cert-allowed-hostname")),
        skip_client_san_verification: values.bool("peer-skip-client-san-verification"),
    }
}

/// The oldest version, and the newest if limited.
pub(super) fn versions(values: &Values) -> Result<(TlsVersion, Option<TlsVersion>), Invalid> {
    let (min, max) = (
        values.text("tls-min-version"),
        values.text("tls-max-version"),
    );
    let oldest = version(min)?.unwrap_or(TlsVersion::Tls12);
    let newest = version(max)?;
    if newest.is_some_and(|newest| oldest > newest) {
        return Err(Invalid::flags(format!(
            "min version ({min}) is greater than max version ({max})"
        )));
    }
    if oldest == TlsVersion::Tls13 && !cipher_suites(values).is_empty() {
        return Err(Invalid::flags(
            "cipher suites cannot be configured when only TLS1.3 is enabled",
        ));
    }
    Ok((oldest, newest))
}

pub(super) fn cipher_suites(values: &Values) -> Vec<String> {
    list(values.text("cipher-suites"))
}

fn version(text: &str) -> Result<Option<TlsVersion>, Invalid> {
    TlsVersion::parse(text).map_err(Invalid::flags)
}

fn list(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim);
    items
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}
