//! Authorities, certificates and revocation lists for tests, as files.
#![expect(clippy::disallowed_methods, reason = "tests write files of their own")]

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, date_time_ymd,
};

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// What a certificate is to say.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) common_name: &'static str,
    /// Names and addresses.
    pub(crate) hosts: &'static [&'static str],
    pub(crate) serial: u64,
    pub(crate) is_expired: bool,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish {
            common_name: "root",
            hosts: &["127.0.0.1", "localhost"],
            serial: 1000,
            is_expired: false,
        }
    }
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Writes the authority's own certificate.
    pub(crate) fn write(&self, path: &Path) -> PathBuf {
        fs::write(path, &self.pem).unwrap();
        path.to_owned()
    }

    /// Writes a certificate as `NAME.pem`, and its key as `NAME-key.pem`.
    pub(crate) fn sign(&self, dir: &Path, name: &str, wish: &Wish) -> Pair {
        let hosts: Vec<String> = wish.hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        let subject = &mut params.distinguished_name;
        subject.push(DnType::CommonName, wish.common_name);
        // Strict readers, such as Python's since 3.13, want to see whose key signed.
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(SerialNumber::from(wish.serial));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        if wish.is_expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair {
            cert: dir.join(format!("{name}.pem")),
            key: dir.join(format!("{name}-key.pem")),
        };
        fs::write(&pair.cert, certificate.pem()).unwrap();
        fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }

    /// Writes a list of revoked serial numbers.
    pub(crate) fn revoke(&self, path: &Path, serials: &[u64]) {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2094, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap();
        fs::write(path, list.der()).unwrap();
    }
}
