//! JSON web tokens and the keys that sign them: ES256 and RS256, the two kinds of service account
//! keys. It does not know the meaning of claims.
//!
//! The cryptography is aws-lc's; this module parses, and rejects. The key determines the algorithm,
//! never the token.

pub mod foreign;
pub mod public;
#[cfg(test)]
mod tests;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use public::PublicKey;

/// The longest token that is looked at. The longest we make has about 1.5 KiB.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A key that signs and verifies tokens.
pub struct Key {
    pair: Pair,
    /// The half that others may know.
    pub public: PublicKey,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// Why a token is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no signed token.
    NotOne,
    /// It is one, but its signature is not by this key.
    Signature,
}

impl Key {
    /// Parses a private key: PKCS#8 of either kind, or PKCS#1.
    pub fn from_pem(pem: &str) -> Result<Key, String> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|e| e.to_string())?;
        Key::from_der(&der)
    }

    fn from_der(der: &PrivateKeyDer<'_>) -> Result<Key, String> {
        let pair = match der {
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
            PrivateKeyDer::Sec1(der) => EcdsaKeyPair::from_private_key_der(
                &ECDSA_P256_SHA256_FIXED_SIGNING,
                der.secret_sec1_der(),
            )
            .map(Pair::Ec)
            .map_err(|e| e.to_string()),
            _ => Err("the key is neither PKCS#8, PKCS#1 nor SEC 1".to_owned()),
        }?;
        let info: Result<PublicKeyX509Der<'_>, _> = match &pair {
            Pair::Ec(pair) => pair.public_key().as_der(),
            Pair::Rsa(pair) => pair.public_key().as_der(),
        };
        let info = info.map_err(|_| "the key has no public half".to_owned())?;
        let public = PublicKey::from_info(info.as_ref())?;
        Ok(Key { pair, public })
    }

    /// Signs claims. Fails only if the system has no randomness.
    pub fn sign(&self, claims: &Value) -> Result<String, String> {
        let header = json!({ "alg": self.public.algorithm(), "kid": self.public.id() });
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
}

/// Returns the issuer without verification, to choose who verifies the token.
pub fn unverified_issuer(token: &str) -> Option<String> {
    let claims = Parts::of(token).ok()?.claims().ok()?;
    Some(claims.get("iss")?.as_str()?.to_owned())
}

struct Parts<'a> {
    header: &'a str,
    claims: &'a str,
    /// Header and claims, the signed part.
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
