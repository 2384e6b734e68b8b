//! The certificates of one run, and the flags for server and load generator.
//!
//! Both sides of a connection have certificates, as between Kubernetes and its store.

#![expect(clippy::disallowed_methods, reason = "writes a run's certificates")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::Result;
use super::options::Side;

pub(super) struct Tls {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

/// Where one server listens.
pub(super) struct Ports {
    encrypted: u16,
    /// Without TLS, for requests outside of the load.
    plain: u16,
}

impl Tls {
    /// The certificates of a run on this side and the ports of its servers; `None` for a side
    /// without TLS.
    pub(super) fn of(
        side: Side,
        folder: &Path,
        servers: usize,
    ) -> Result<Option<(Tls, Vec<Ports>)>> {
        if !side.is_encrypted() {
            return Ok(None);
        }
        let ports = (0..servers).map(|_| Ports::free()).collect();
        Ok(Some((Tls::make(folder)?, ports)))
    }

    /// Makes a CA, and one certificate for both ends (ECDSA with P-256, rcgen's default).
    fn make(folder: &Path) -> Result<Tls> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let authority = params.self_signed(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &issuer)?;

        let file = |name: &str, text: String| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, text)?;
            Ok(path)
        };
        Ok(Tls {
            authority: file("authority.pem", authority.pem())?,
            certificate: file("certificate.pem", certificate.pem())?,
            key: file("key.pem", key.serialize_pem())?,
        })
    }

    pub(super) fn server_flags(&self, ports: &Ports) -> Vec<String> {
        vec![
            format!(
                "--listen-client-urls=https://{},{}",
                ports.endpoint(),
                ports.plain_url()
            ),
            format!("--trusted-ca-file={}", self.authority.display()),
            format!("--cert-file={}", self.certificate.display()),
            format!("--key-file={}", self.key.display()),
            "--client-cert-auth".to_owned(),
        ]
    }

    /// Flags of a member that talks to the others over TLS.
    pub(super) fn peer_flags(&self) -> Vec<String> {
        vec![
            format!("--peer-trusted-ca-file={}", self.authority.display()),
            format!("--peer-cert-file={}", self.certificate.display()),
            format!("--peer-key-file={}", self.key.display()),
            "--peer-client-cert-auth".to_owned(),
        ]
    }

    /// Flags of the load generator, before its command.
    pub(super) fn client_flags(&self) -> Vec<OsString> {
        let files = [
            ("--cacert", &self.authority),
            ("--cert", &self.certificate),
            ("--key", &self.key),
        ];
        let flags = files
            .into_iter()
            .flat_map(|(flag, path)| [OsString::from(flag), path.clone().into()]);
        flags.collect()
    }
}

impl Ports {
    fn free() -> Ports {
        Ports {
            encrypted: testkit::free_port(),
            plain: testkit::free_port(),
        }
    }

    pub(super) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.encrypted)
    }

    pub(super) fn plain_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.plain)
    }
}
