//! The certificates and keys of a cluster: made once, kept in a directory, used again at every
//! start. A certificate that ends soon, or does not say a name that the server is reached by, is
//! made anew with the same authority, so that no client has to learn a new one.
//!
//! | file | what |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority that clients and server believe |
//! | `apiserver.crt`, `apiserver.key` | what the server shows |
//! | `admin.crt`, `admin.key` | the owner of the cluster, of group `system:masters` |
//! | `sa.key`, `sa.pub` | what tokens of service accounts are signed with |
//!
//! Keys are P-256 and readable by their owner alone.
#![expect(
    clippy::disallowed_methods,
    reason = "keys and certificates are files that other programs read, written before serving"
)]

#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machinery::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::certificate::Kept;
use super::jwt::Key;
use super::rbac::MASTERS;

const DAY_SECONDS: i64 = 24 * 3600;
/// How long the authority is believed.
const AUTHORITY_SECONDS: i64 = 3650 * DAY_SECONDS;
/// How long what it signs is good.
const CERTIFICATE_SECONDS: i64 = 365 * DAY_SECONDS;
/// What ends sooner than this is made anew at a start.
const RENEW_SECONDS: i64 = 30 * DAY_SECONDS;
/// Certificates begin a little early, because clocks differ.
const EARLY_SECONDS: i64 = 3600;
/// The names that a server is reached by inside a cluster.
const NAMES: [&str; 5] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
];

/// Why the files could not be read or made.
#[derive(Debug)]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// What went wrong.
    pub what: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for Error {}

/// A certificate and its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: String,
}

/// The files of a cluster.
pub struct Pki {
    directory: PathBuf,
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// What the server shows.
    pub server: Identity,
    /// The owner of the cluster.
    pub admin: Identity,
    /// The private key that signs tokens, in PEM.
    pub token_key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Opens the directory, making what is missing. `names` are names and addresses that the
    /// server is reached by, besides those inside the cluster and of this machine.
    pub fn open(directory: &Path, names: &[String], now: Timestamp) -> Result<Pki, Error> {
        fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        let (authority, issuer) = authority(directory, now)?;
        let mut names: Vec<String> = names.to_vec();
        names.extend(NAMES.map(str::to_owned));
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
        names.sort_unstable();
        names.dedup();
        let server = Wanted {
            name: "kube-apiserver",
            group: "",
            names: &names,
            usage: ExtendedKeyUsagePurpose::ServerAuth,
        };
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

    /// Makes a client certificate, for a part of the cluster that has none yet. It is of one
    /// group, or of none when that is empty.
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

    /// A kubeconfig by which `identity` reaches the server at `url`.
    pub fn kubeconfig(&self, url: &str, user: &str, identity: &Identity) -> String {
        let data = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: stele\n  cluster:\n    \
             certificate-authority-data: {}\n    server: {url}\ncontexts:\n- name: {user}@stele\n  \
             context:\n    cluster: stele\n    user: {user}\ncurrent-context: {user}@stele\n\
             preferences: {{}}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    \
             client-key-data: {}\n",
            data(&self.authority),
            data(&identity.certificate),
            data(&identity.key),
        )
    }

    /// Writes the kubeconfig of the cluster's owner, unless it is there and says the same.
    pub fn write_admin(&self, path: &Path, url: &str) -> Result<(), Error> {
        let text = self.kubeconfig(url, "kubernetes-admin", &self.admin);
        if read(path)?.as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        write(path, &text, 0o600)
    }
}

struct Authority {
    pem: String,
    /// Whether it was made just now: then what an earlier one signed is worth nothing.
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
        // Without its key an authority signs nothing. Making another one would lock out whoever
        // believes in the one that is there, so a person has to decide.
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
            // The key first: a certificate without one is refused above.
            write(&key, &pair.serialize_pem(), 0o600)?;
            write(&certificate, &pem, 0o644)?;
            Ok((Authority { pem, fresh: true }, Issuer::new(wanted, pair)))
        }
    }
}

/// A certificate as it should be.
struct Wanted<'a> {
    name: &'a str,
    /// None when empty.
    group: &'a str,
    names: &'a [String],
    usage: ExtendedKeyUsagePurpose,
}

impl Wanted<'_> {
    fn issue(
        &self,
        issuer: &Issuer<'static, KeyPair>,
        now: Timestamp,
    ) -> Result<Identity, rcgen::Error> {
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
        params.use_authority_key_identifier_extension = true;
        let pair = KeyPair::generate()?;
        let certificate = params.signed_by(&pair, issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: pair.serialize_pem(),
        })
    }

    /// True if a certificate that is there, with the key that is there, still does. A crash may have
    /// left the new one of the two.
    fn is_met_by(&self, pem: &str, key: &str, now: Timestamp) -> bool {
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
        .public_pem();
    if read(&public)?.as_deref() != Some(text.as_str()) {
        write(&public, &text, 0o644)?;
    }
    Ok(key)
}

fn dated(now: Timestamp, seconds: i64) -> CertificateParams {
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

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Writes a file so that a crash leaves the old one or the new one.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let write = || -> io::Result<()> {
        // A file that is there keeps its mode, and this one must never be readable by others.
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
