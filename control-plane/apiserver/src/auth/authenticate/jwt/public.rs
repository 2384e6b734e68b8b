//! Public keys: they check what the private ones have signed, and tell others how to.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

use super::{Key, Parts, Refused};

/// The columns of a line in a PEM file.
const PEM_COLUMNS: usize = 64;

/// A key that checks signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// As certificates hold it (`SubjectPublicKeyInfo`), in DER.
    info: Vec<u8>,
    numbers: Numbers,
    id: String,
}

/// The numbers that a key consists of, big-endian.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Numbers {
    /// A point on P-256.
    Ec {
        x: Vec<u8>,
        y: Vec<u8>,
    },
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

impl PublicKey {
    /// Reads a key as certificates hold it.
    pub(super) fn from_info(info: &[u8]) -> Result<PublicKey, String> {
        use x509_parser::public_key::PublicKey as Parsed;
        let bad = |error: &dyn std::fmt::Display| format!("not a public key: {error}");
        let (_, parsed) = SubjectPublicKeyInfo::from_der(info).map_err(|error| bad(&error))?;
        let numbers = match parsed.parsed().map_err(|error| bad(&error))? {
            // An uncompressed point: a byte 4, then x and y.
            Parsed::EC(point) if point.data().len() == 65 && point.data()[0] == 4 => {
                let (x, y) = point.data()[1..].split_at(32);
                Numbers::Ec {
                    x: x.to_vec(),
                    y: y.to_vec(),
                }
            }
            Parsed::RSA(key) => Numbers::Rsa {
                modulus: without_sign(key.modulus),
                exponent: without_sign(key.exponent),
            },
            _ => return Err("the key is neither RSA nor on P-256".to_owned()),
        };
        Ok(PublicKey {
            id: URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, info)),
            info: info.to_vec(),
            numbers,
        })
    }

    /// Reads all keys of a PEM text: public keys, those of certificates, or those that belong to
    /// private keys.
    pub fn all_from_pem(pem: &str) -> Result<Vec<PublicKey>, String> {
        let bytes = pem.as_bytes();
        let mut found = Vec::new();
        for info in SubjectPublicKeyInfoDer::pem_slice_iter(bytes) {
            let info = info.map_err(|error| error.to_string())?;
            found.push(PublicKey::from_info(&info)?);
        }
        for certificate in CertificateDer::pem_slice_iter(bytes) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            let (_, certificate) = X509Certificate::from_der(&certificate)
                .map_err(|error| format!("not a certificate: {error}"))?;
            found.push(PublicKey::from_info(certificate.public_key().raw)?);
        }
        for key in PrivateKeyDer::pem_slice_iter(bytes) {
            let key = key.map_err(|error| error.to_string())?;
            found.push(Key::from_der(&key)?.public);
        }
        if found.is_empty() {
            return Err("there is no key in it".to_owned());
        }
        Ok(found)
    }

    /// The name of the key in the tokens it checks: a hash of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of the key's algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self.numbers {
            Numbers::Ec { .. } => "ES256",
            Numbers::Rsa { .. } => "RS256",
        }
    }

    /// The key in PEM.
    pub fn pem(&self) -> String {
        let text = STANDARD.encode(&self.info);
        let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
        for line in text.as_bytes().chunks(PEM_COLUMNS) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem.push_str("-----END PUBLIC KEY-----\n");
        pem
    }

    /// The key as the list of keys on `/openid/v1/jwks` has it.
    pub fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = json!({ "use": "sig", "kid": self.id, "alg": self.algorithm() });
        match &self.numbers {
            Numbers::Ec { x, y } => {
                jwk["kty"] = "EC".into();
                jwk["crv"] = "P-256".into();
                jwk["x"] = text(x).into();
                jwk["y"] = text(y).into();
            }
            Numbers::Rsa { modulus, exponent } => {
                jwk["kty"] = "RSA".into();
                jwk["n"] = text(modulus).into();
                jwk["e"] = text(exponent).into();
            }
        }
        jwk
    }

    /// Returns the claims of a token after checking its signature.
    pub fn verify(&self, token: &str) -> Result<Value, Refused> {
        let parts = Parts::of(token)?;
        let header = parts.header()?;
        let text = |key: &str| header.get(key).and_then(Value::as_str);
        // A header that must be understood is not understood here.
        let ours = text("alg") == Some(self.algorithm())
            && text("kid").is_none_or(|id| id == self.id)
            && header.get("crit").is_none();
        if ours && self.has_signed(parts.message.as_bytes(), &parts.signature) {
            parts.claims()
        } else {
            Err(Refused::Signature)
        }
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let checked = match self.numbers {
            Numbers::Ec { .. } => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.info)
                .verify(message, signature),
            Numbers::Rsa { .. } => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.info)
                .verify(message, signature),
        };
        checked.is_ok()
    }
}

/// DER puts a zero before a number whose first bit is set.
fn without_sign(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}
