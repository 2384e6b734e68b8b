//! Reads certificates: the common name of a client is the user, organizations are the groups. It
//! does not check whether a certificate is trusted.

use std::sync::Arc;

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use machinery::time::Timestamp;
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::Oid;
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

use super::User;
use super::user;

/// Attribute of a subject for the user's uid: 1.3.6.1.4.1.57683.2.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

/// The user of a client certificate, and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// The user.
    pub user: User,
    /// End of validity, in Unix seconds.
    pub not_after: i64,
}

/// The client certificate of a connection. Every request of the connection has it among its
/// extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// No certificate.
    #[default]
    Nobody,
    /// A trusted certificate.
    Bearer(Arc<Bearer>),
    /// The certificate of a proxy that names users.
    Proxy {
        /// End of validity, in Unix seconds.
        not_after: i64,
        /// What the certificate is apart from that.
        own: Box<Peer>,
    },
    /// An untrusted certificate, and why.
    Refused(String),
}

impl Bearer {
    /// Parses a certificate; `None` if it names no user.
    pub fn of(der: &[u8]) -> Result<Option<Bearer>, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|e| e.to_string())?;
        let subject = certificate.subject();
        let text = |attribute: &AttributeTypeAndValue<'_>| attribute.as_str().map(str::to_owned);
        let all = |attributes: Result<Vec<String>, _>| {
            attributes.map_err(|error: x509_parser::error::X509Error| error.to_string())
        };
        let names = all(subject.iter_common_name().map(text).collect())?;
        let groups = all(subject.iter_organization().map(text).collect())?;
        let uid = Oid::from(UID).map_err(|error| format!("{error:?}"))?;
        let uids = all(subject.iter_by_oid(&uid).map(text).collect())?;
        // Of several common names the last one counts, as in Go.
        let Some(name) = names.last().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let uid = match uids.as_slice() {
            [] => String::new(),
            [one] if one.is_empty() => return Err("UID cannot be an empty string".into()),
            [one] => one.clone(),
            several => return Err(format!("expected 1 UID, but found multiple: {several:?}")),
        };
        let print = digest::digest(&digest::SHA256, der);
        let print = HEXLOWER.encode(print.as_ref());
        let user = User {
            name: name.clone(),
            uid,
            groups,
            extra: [(
                user::CREDENTIAL_ID.into(),
                vec![format!("X509SHA256={print}")],
            )]
            .into(),
        };
        Ok(Some(Bearer {
            user,
            not_after: certificate.validity().not_after.timestamp(),
        }))
    }
}

/// The name and the expiry of a certificate.
pub struct Subject {
    /// The last common name; empty if there is none.
    pub common_name: String,
    /// End of validity, in Unix seconds.
    pub not_after: i64,
}

impl Subject {
    /// Parses a certificate.
    pub fn of(der: &[u8]) -> Result<Subject, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|e| e.to_string())?;
        let names = certificate.subject().iter_common_name();
        let name = names.last().map(AttributeTypeAndValue::as_str);
        let name = name.transpose().map_err(|e| e.to_string())?;
        Ok(Subject {
            common_name: name.unwrap_or_default().to_owned(),
            not_after: certificate.validity().not_after.timestamp(),
        })
    }
}

/// The validity and the names of a certificate in a file.
pub struct Kept {
    /// End of validity, in Unix seconds.
    pub not_after: i64,
    /// Names and addresses of the server that presents it.
    pub names: Vec<String>,
    /// The bits of its public key: for P-256 an uncompressed point.
    pub public_key: Vec<u8>,
}

impl Kept {
    /// Parses one of our own certificates.
    pub fn of(der: &[u8]) -> Result<Kept, String> {
        use x509_parser::extensions::GeneralName;

        let (_, certificate) = X509Certificate::from_der(der).map_err(|e| e.to_string())?;
        let names = certificate
            .subject_alternative_name()
            .map_err(|e| e.to_string())?;
        let names = names
            .iter()
            .flat_map(|extension| &extension.value.general_names);
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        });
        Ok(Kept {
            not_after: certificate.validity().not_after.timestamp(),
            names: names.collect(),
            public_key: certificate.public_key().subject_public_key.data.to_vec(),
        })
    }

    /// True if it is still valid after this many seconds.
    pub fn lasts(&self, now: Timestamp, seconds: i64) -> bool {
        now.seconds + seconds < self.not_after
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    use std::net::IpAddr;

    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(bytes).to_string());
    }
    let bytes = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::from(bytes).to_string())
}
