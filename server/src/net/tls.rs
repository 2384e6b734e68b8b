//! TLS for clients and members: the certificate shown, the authorities trusted, and when files are
//! read again.
//!
//! Certificates, keys, authorities and revocation lists are checked for changes at each handshake,
//! so all of them can be replaced while the server runs. Settings from flags are fixed.

mod check;
mod client;
mod files;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod handshake;
mod names;
mod self_signed;
mod server;
mod suites;
mod verify;
mod words;

pub(crate) use client::{Connection, Dialing};
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzing::any_file;
pub(crate) use handshake::{Acceptor, Secured};

use std::path::Path;
use std::sync::Arc;

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};

use crate::config::{Config, TlsFiles, TlsVersion, Url};
use crate::net::socket::BindError;
use handshake::Handshakes;

type Versions = &'static [&'static SupportedProtocolVersion];
const OLD: Versions = &[&TLS12];
const NEW: Versions = &[&TLS13];
const BOTH: Versions = &[&TLS13, &TLS12];

/// The kind of peer on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Peer,
}

/// TLS settings for clients and for members, including self-signed certificates.
#[derive(Clone)]
pub(crate) struct Security {
    pub(crate) client: Identity,
    pub(crate) peer: Identity,
    /// The name in the certificates of all other members; `None`: the host of each.
    pub(crate) peer_name: Option<String>,
    protocol: Protocol,
    handshakes: Handshakes,
}

/// The files of one end. A self-signed certificate counts as given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) files: TlsFiles,
    /// The certificate is self-signed by the server: others cannot verify it, so nobody does.
    pub(crate) is_made_up: bool,
}

/// TLS versions and cipher suites.
#[derive(Clone)]
pub(crate) struct Protocol {
    provider: Arc<CryptoProvider>,
    versions: Versions,
}

/// Reads a file of authorities; an empty path is fine. The error is Go's.
pub(crate) fn check_authorities(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Ok(());
    }
    let pem = files::Watched::new(path).read()?;
    verify::authorities(Some(&pem)).map(drop)
}

impl Security {
    /// Creates the requested self-signed certificates, and logs which files are used. The errors
    /// are etcd's.
    pub(crate) fn prepare(config: &Config) -> Result<Security, BindError> {
        let versions = (config.tls_min_version, config.tls_max_version);
        let protocol = Protocol::new(&config.cipher_suites, versions)?;
        let peer = identity(config, End::Peer)?;
        let client = identity(config, End::Client)?;
        let security = Security {
            client,
            peer,
            peer_name: None,
            protocol,
            handshakes: Handshakes::default(),
        };
        for (end, identity) in [(End::Peer, &security.peer), (End::Client, &security.client)] {
            let files = &identity.files;
            if !files.is_empty() {
                let info = files.to_string();
                let suites = crate::telemetry::logging::json(&config.cipher_suites);
                match end {
                    End::Peer => {
                        tracing::info!("tls-info" = info, "cipher-suites" = %suites, "starting with peer TLS")
                    }
                    End::Client => {
                        tracing::info!("tls-info" = info, "cipher-suites" = %suites, "starting with client TLS")
                    }
                }
            }
        }
        Ok(security)
    }

    /// The settings of a program that is no member: one end or the other.
    pub(crate) fn of_one_end(end: End, identity: Identity, protocol: Protocol) -> Security {
        let none = Identity::default();
        let (client, peer) = match end {
            End::Client => (identity, none),
            End::Peer => (none, identity),
        };
        Security {
            client,
            peer,
            peer_name: None,
            protocol,
            handshakes: Handshakes::default(),
        }
    }

    pub(crate) fn identity(&self, end: End) -> &Identity {
        match end {
            End::Client => &self.client,
            End::Peer => &self.peer,
        }
    }
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol {
            provider: Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
            versions: BOTH,
        }
    }
}

impl Identity {
    /// A self-signed certificate for the hosts of `urls`, kept in `dir`. As in etcd, it replaces all
    /// other files that were given.
    pub(crate) fn self_signed(dir: &Path, urls: &[&Url], years: u64) -> Result<Identity, String> {
        let made = self_signed::make(dir, urls, years)?;
        Ok(Identity {
            files: TlsFiles {
                cert_file: made.cert.clone(),
                key_file: made.key.clone(),
                client_cert_file: made.cert,
                client_key_file: made.key,
                ..TlsFiles::default()
            },
            is_made_up: true,
        })
    }
}

/// The common name of the first certificate in a PEM file; empty if it has none. The error is Go's.
pub(crate) fn common_name_in(cert_file: &str) -> Result<String, String> {
    let pem = files::Watched::new(cert_file).read()?;
    let certificates = files::certificates(&pem)?;
    Ok(names::common_name(&certificates[0]))
}

impl Protocol {
    /// `versions` are the oldest, and the newest if it is limited.
    pub(crate) fn new(
        cipher_suites: &[String],
        versions: (TlsVersion, Option<TlsVersion>),
    ) -> Result<Protocol, BindError> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        if !cipher_suites.is_empty() {
            suites::known(cipher_suites).map_err(BindError)?;
            suites::restrict(&mut provider, cipher_suites);
        }
        let versions = match versions {
            (TlsVersion::Tls13, _) => NEW,
            (TlsVersion::Tls12, Some(TlsVersion::Tls12)) => OLD,
            (TlsVersion::Tls12, _) => BOTH,
        };
        Ok(Protocol {
            provider: Arc::new(provider),
            versions,
        })
    }
}

fn identity(config: &Config, end: End) -> Result<Identity, BindError> {
    let (files, auto, urls, name): (_, _, Vec<&Url>, _) = match end {
        End::Client => {
            let urls = config.listen_client_urls.iter();
            let urls = urls.chain(&config.listen_client_http_urls).collect();
            (&config.client_tls, config.auto_tls, urls, "client")
        }
        End::Peer => {
            let urls = config.listen_peer_urls.iter().collect();
            (&config.peer_tls, config.peer_auto_tls, urls, "peer")
        }
    };
    if !auto || !files.is_empty() {
        if auto {
            tracing::warn!("ignoring {name} auto TLS since certs given");
        }
        return Ok(Identity {
            files: files.clone(),
            is_made_up: false,
        });
    }
    let dir = config.data_dir.join("fixtures").join(name);
    Identity::self_signed(&dir, &urls, config.self_signed_cert_validity)
        .map_err(|error| BindError(format!("failed to get {name} self-signed certs: {error}")))
}
