//! The certificates and keys of a cluster. They are created once, kept in a directory and reused at
//! every start. A certificate that expires soon, or lacks a name of the server, is issued anew by
//! the same authority, so clients need no new authority.
//!
//! | file | content |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority that clients and server trust |
//! | `apiserver.crt`, `apiserver.key` | the server's certificate |
//! | `admin.crt`, `admin.key` | the owner of the cluster, in group `system:masters` |
//! | `sa.key`, `sa.pub` | the keys for tokens of service accounts |
//!
//! Keys are P-256, and only their owner can read them.
#![expect(
    clippy::disallowed_methods,
    reason = "keys and certificates are files that other programs read, written before serving"
)]

mod sec1;
#[cfg(test)]
mod tests;
mod wanted;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machinery::time::Timestamp;
use rcgen::{
    BasicConstraints, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use super::authenticate::jwt::Key;
use super::authorize::rbac::MASTERS;
use wanted::{Wanted, dated};

const DAY_SECONDS: i64 = 24 * 3600;
/// Validity of the authority.
const AUTHORITY_SECONDS: i64 = 3650 * DAY_SECONDS;
/// The names of the server inside a cluster.
const NAMES: [&str; 5] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
];

/// Why the files could not be read or written.
#[derive(Debug)]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub what: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for Error {}

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PKCS#8 in PEM.
    pub key: String,
}

/// The certificates and keys of a cluster.
pub struct Pki {
    directory: PathBuf,
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// The server's identity.
    pub server: Identity,
    /// The identity of the cluster's owner.
    pub admin: Identity,
    /// The private key that signs tokens, in PEM.
    pub token_key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Opens the directory and creates missing files. `names` are names and addresses of the
    /// server, besides those inside the cluster and of this machine.
    pub fn open(directory: &Path, names: &[String], now: Timestamp) -> Result<Pki, Error> {
        fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        let (authority, issuer) = authority(directory, now)?;
        let names = with_usual(names);
        let server = Wanted::server(&names);
        let admin = Wanted {
            name: "kubernetes-admin",
            group: MASTERS,
            names: &[],
            usage: ExtendedKeyUsagePurpose::ClientAuth,
        };
        Ok(Pki {
            server: kept(
                directory,
                "apiserver",
                &authority.fresh,
                &issuer,
                &server,
                now,
            )?,
            admin: kept(directory, "admin", &authority.fresh, &issuer, &admin, now)?,
            token_key: token_key(directory)?,
            directory: directory.to_owned(),
            authority: authority.pem,
            issuer,
        })
    }

    /// Issues a client certificate for a part of the cluster that has none. An empty group means no
    /// group.
    pub fn client(&self, name: &str, group: &str, now: Timestamp) -> Result<Identity, Error> {
        let wanted = Wanted {
            name,
            group,
            names: &[],
            usage: ExtendedKeyUsagePurpose::ClientAuth,
        };
        wanted
            .issue(&self.issuer, now)
            .map_err(|error| failed(&self.directory, &error))
    }

    /// Returns a kubeconfig to reach the server at `url` as `identity`.
    pub fn kubeconfig(&self, url: &str, user: &str, identity: &Identity) -> String {
        let data = |text: &str| STANDARD.encode(text);
        let key = sec1::of(&identity.key);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: stele\n  cluster:\n    \
             certificate-authority-data: {}\n    server: {url}\ncontexts:\n- name: {user}@stele\n  \
             context:\n    cluster: stele\n    user: {user}\ncurrent-context: {user}@stele\n\
             preferences: {{}}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    \
             client-key-data: {}\n",
            data(&self.authority),
            data(&identity.certificate),
            data(key.as_ref().unwrap_or(&identity.key)),
        )
    }

    /// Writes the kubeconfig of the cluster's owner, unless the file already has this content.
    pub fn write_admin(&self, path: &Path, url: &str) -> Result<(), Error> {
        self.write_kubeconfig(path, url, "kubernetes-admin", &self.admin)
    }

    /// Writes the kubeconfig of a further user who may do everything.
    pub fn write_master(
        &self,
        path: &Path,
        url: &str,
        user: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let identity = self.client(user, MASTERS, now)?;
        self.write_kubeconfig(path, url, user, &identity)
    }

    fn write_kubeconfig(
        &self,
        path: &Path,
        url: &str,
        user: &str,
        identity: &Identity,
    ) -> Result<(), Error> {
        let text = self.kubeconfig(url, user, identity);
        if read(path)?.as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        write(path, &text, 0o600)
    }
}

/// The pair `apiserver.crt` and `apiserver.key` of a directory, as somebody has put it there. If
/// both are missing, they are made, and the certificate is signed by its own key.
pub fn self_signed(directory: &Path, names: &[String], now: Timestamp) -> Result<Identity, Error> {
    let (certificate, key) = server_files(directory);
    match (read(&certificate)?, read(&key)?) {
        (Some(certificate), Some(key)) => return Ok(Identity { certificate, key }),
        (Some(_), None) => return Err(failed(&key, &"missing, though apiserver.crt is there")),
        (None, Some(_)) => {
            return Err(failed(
                &certificate,
                &"missing, though apiserver.key is there",
            ));
        }
        (None, None) => {}
    }
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
    let names = with_usual(names);
    let made = || -> Result<_, rcgen::Error> {
        let pair = KeyPair::generate()?;
        let signed = Wanted::server(&names).params(now)?.self_signed(&pair)?;
        Ok(Identity {
            certificate: signed.pem(),
            key: pair.serialize_pem(),
        })
    };
    let identity = made().map_err(|error| failed(&certificate, &error))?;
    write(&key, &identity.key, 0o600)?;
    write(&certificate, &identity.certificate, 0o644)?;
    Ok(identity)
}

/// The files of the server's certificate and of its key in a directory.
pub(crate) fn server_files(directory: &Path) -> (PathBuf, PathBuf) {
    (
        directory.join("apiserver.crt"),
        directory.join("apiserver.key"),
    )
}

/// These names, and those that every server is reached by.
fn with_usual(names: &[String]) -> Vec<String> {
    let mut names: Vec<String> = names.to_vec();
    names.extend(NAMES.map(str::to_owned));
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    names.sort_unstable();
    names.dedup();
    names
}

struct Authority {
    pem: String,
    /// True if the authority is new: certificates of an earlier one are then invalid.
    fresh: bool,
}

fn authority(
    directory: &Path,
    now: Timestamp,
) -> Result<(Authority, Issuer<'static, KeyPair>), Error> {
    let (certificate, key) = (directory.join("ca.crt"), directory.join("ca.key"));
    match (read(&certificate)?, read(&key)?) {
        (Some(pem), Some(text)) => {
            let pair = KeyPair::from_pem(&text).map_err(|error| failed(&key, &error))?;
            let issuer = Issuer::from_ca_cert_pem(&pem, pair);
            let issuer = issuer.map_err(|error| failed(&certificate, &error))?;
            Ok((Authority { pem, fresh: false }, issuer))
        }
        // An authority without its key cannot sign. A new one would lock out every client that
        // trusts the old one, so a person has to decide.
        (Some(_), None) => Err(failed(&key, &"missing, though ca.crt is there")),
        (None, _) => {
            let mut wanted = dated(now, AUTHORITY_SECONDS);
            wanted
                .distinguished_name
                .push(DnType::CommonName, "kubernetes");
            wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            wanted.key_usages = vec![
                KeyUsagePurpose::DigitalSignature,
                KeyUsagePurpose::KeyCertSign,
                KeyUsagePurpose::CrlSign,
            ];
            let made = || -> Result<_, rcgen::Error> {
                let pair = KeyPair::generate()?;
                let pem = wanted.self_signed(&pair)?.pem();
                Ok((pem, pair))
            };
            let (pem, pair) = made().map_err(|error| failed(directory, &error))?;
            // The key first: a certificate without a key is refused above.
            write(&key, &pair.serialize_pem(), 0o600)?;
            write(&certificate, &pem, 0o644)?;
            Ok((Authority { pem, fresh: true }, Issuer::new(wanted, pair)))
        }
    }
}

fn kept(
    directory: &Path,
    file: &str,
    fresh: &bool,
    issuer: &Issuer<'static, KeyPair>,
    wanted: &Wanted<'_>,
    now: Timestamp,
) -> Result<Identity, Error> {
    let certificate_path = directory.join(format!("{file}.crt"));
    let key_path = directory.join(format!("{file}.key"));
    if let (false, Some(certificate), Some(key)) =
        (*fresh, read(&certificate_path)?, read(&key_path)?)
        && wanted.is_met_by(&certificate, &key, now)
    {
        return Ok(Identity { certificate, key });
    }
    let identity = wanted.issue(issuer, now);
    let identity = identity.map_err(|error| failed(&certificate_path, &error))?;
    write(&key_path, &identity.key, 0o600)?;
    write(&certificate_path, &identity.certificate, 0o644)?;
    Ok(identity)
}

fn token_key(directory: &Path) -> Result<String, Error> {
    let (private, public) = (directory.join("sa.key"), directory.join("sa.pub"));
    let key = match read(&private)? {
        Some(key) => key,
        None => {
            let pair = KeyPair::generate().map_err(|error| failed(&private, &error))?;
            let key = pair.serialize_pem();
            write(&private, &key, 0o600)?;
            key
        }
    };
    let text = Key::from_pem(&key)
        .map_err(|error| failed(&private, &error))?
        .public
        .pem();
    if read(&public)?.as_deref() != Some(text.as_str()) {
        write(&public, &text, 0o644)?;
    }
    Ok(key)
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Writes a file atomically: a crash leaves the old one or the new one.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let write = || -> io::Result<()> {
        // An existing file keeps its mode, and others must never be able to read this one.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
            _ => Ok(()),
        }
    };
    write().map_err(|error| failed(path, &error))
}

fn failed(path: &Path, what: &dyn std::fmt::Display) -> Error {
    Error {
        path: path.to_owned(),
        what: what.to_string(),
    }
}
