//! Signed statements (JSON web tokens) and the keys that sign them: ES256 and RS256, the two that
//! service account keys are made for. It does not know what a statement says.
//!
//! The mathematics is aws-lc's; here are the frame around it and its refusals. The algorithm is the
//! key's and never the token's choice.

#[cfg(test)]
mod tests;

use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

/// The longest token that is looked at. The longest we make has about 1.5 KiB.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A key that signs statements and checks them.
pub struct Key {
    pair: Pair,
    public_info: PublicKeyX509Der<'static>,
    id: String,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// Why a token says nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no signed statement at all.
    NotOne,
    /// It is one, but not signed with this key.
    Signature,
}

impl Key {
    /// Reads a private key: PKCS#8 of either kind, or PKCS#1.
    pub fn from_pem(pem: &str) -> Result<Key, String> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|e| e.to_string())?;
        let pair = match &der {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der())
                .map(Pair::Rsa)
                .map_err(|e| e.to_string()),
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der)
                    .map(Pair::Ec)
                    .or_else(|_| RsaKeyPair::from_pkcs8(der).map(Pair::Rsa))
                    .map_err(|e| e.to_string())
            }
            _ => Err("the key is neither PKCS#8 nor PKCS#1".to_owned()),
        }?;
        let public_info = public_info(&pair).map_err(|e| e.to_string())?;
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, public_info.as_ref()));
        Ok(Key {
            pair,
            public_info,
            id,
        })
    }

    /// The name of the key in the tokens it signed: a hash of the public key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The public key in PEM.
    pub fn public_pem(&self) -> String {
        use base64::engine::general_purpose::STANDARD;
        let text = STANDARD.encode(self.public_info.as_ref());
        let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
        for line in text.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem.push_str("-----END PUBLIC KEY-----\n");
        pem
    }

    /// The public key as the list of keys on `/openid/v1/jwks` has it.
    pub fn public_jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &self.pair {
            Pair::Ec(pair) => {
                // An uncompressed point: a byte 4, then x and y.
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({
                    "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
                    "x": text(x), "y": text(y),
                })
            }
            Pair::Rsa(pair) => {
                let public =
                    aws_lc_rs::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({
                    "use": "sig", "kty": "RSA", "kid": self.id, "alg": "RS256",
                    "n": text(&public.n), "e": text(&public.e),
                })
            }
        }
    }

    /// The name of the key's algorithm.
    pub fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Ec(_) => "ES256",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// Signs a statement. It fails only when the system has no randomness.
    pub fn sign(&self, claims: &Value) -> Result<String, String> {
        let header = json!({ "alg": self.algorithm(), "kid": self.id });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(claims));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Ec(pair) => pair
                .sign(&random, message.as_bytes())
                .map(|signature| URL_SAFE_NO_PAD.encode(signature)),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(
                    &RSA_PKCS1_SHA256,
                    &random,
                    message.as_bytes(),
                    &mut signature,
                )
                .map(|()| URL_SAFE_NO_PAD.encode(&signature))
            }
        };
        let signature = signature.map_err(|_| "the system has no randomness".to_owned())?;
        Ok(format!("{message}.{signature}"))
    }

    /// What the statement says, once its signature is checked.
    pub fn verify(&self, token: &str) -> Result<Value, Refused> {
        let parts = Parts::of(token)?;
        let header = parts.header()?;
        let text = |key: &str| header.get(key).and_then(Value::as_str);
        // A header that must be understood is not understood here.
        let ours = text("alg") == Some(self.algorithm())
            && text("kid").is_none_or(|id| id == self.id)
            && header.get("crit").is_none();
        let message = parts.message.as_bytes();
        let valid = ours
            && match &self.pair {
                Pair::Ec(pair) => {
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key())
                        .verify(message, &parts.signature)
                }
                Pair::Rsa(pair) => {
                    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key())
                        .verify(message, &parts.signature)
                }
            }
            .is_ok();
        if valid {
            parts.claims()
        } else {
            Err(Refused::Signature)
        }
    }
}

/// What the token says of its issuer, unchecked: tells whose it is to check.
pub fn unverified_issuer(token: &str) -> Option<String> {
    let claims = Parts::of(token).ok()?.claims().ok()?;
    Some(claims.get("iss")?.as_str()?.to_owned())
}

struct Parts<'a> {
    header: &'a str,
    claims: &'a str,
    /// Header and claims: what is signed.
    message: &'a str,
    signature: Vec<u8>,
}

impl<'a> Parts<'a> {
    fn of(token: &'a str) -> Result<Parts<'a>, Refused> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refused::NotOne);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(Refused::NotOne)?;
        let (header, claims) = message.split_once('.').ok_or(Refused::NotOne)?;
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| Refused::NotOne)?;
        Ok(Parts {
            header,
            claims,
            message,
            signature,
        })
    }

    fn header(&self) -> Result<Value, Refused> {
        object(self.header)
    }

    fn claims(&self) -> Result<Value, Refused> {
        object(self.claims)
    }
}

fn object(part: &str) -> Result<Value, Refused> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::NotOne)?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| Refused::NotOne)?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Refused::NotOne)
    }
}

/// The public key as certificates hold it (SubjectPublicKeyInfo).
fn public_info(pair: &Pair) -> Result<PublicKeyX509Der<'static>, Unspecified> {
    match pair {
        Pair::Ec(pair) => pair.public_key().as_der(),
        Pair::Rsa(pair) => pair.public_key().as_der(),
    }
}
