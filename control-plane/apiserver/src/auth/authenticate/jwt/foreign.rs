//! Keys that others sign tokens with, as they publish them (RFC 7517): RSA, and P-256, P-384 and
//! P-521. Here the token names the algorithm, out of those that are allowed and fit the key.

#[cfg(test)]
mod tests;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED,
    EcdsaVerificationAlgorithm, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use machinery::object;
use serde_json::Value;

use super::{Parts, Refused};

/// The algorithms that are known.
pub const ALGORITHMS: [&str; 9] = [
    "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512",
];
/// The longest number of a key, in bytes: that of an RSA key of 8192 bits.
const NUMBER_BYTES_MAX: usize = 1024;

/// A key of somebody else.
#[derive(Debug)]
pub struct ForeignKey {
    /// Its name among the keys of its owner; may be empty.
    id: String,
    numbers: Numbers,
}

#[derive(Debug)]
enum Numbers {
    Ec {
        curve: &'static Curve,
        /// A byte 4, then x and y.
        point: Vec<u8>,
    },
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
}

#[derive(Debug)]
struct Curve {
    name: &'static str,
    /// The size of a coordinate.
    bytes: usize,
    /// The algorithm of its signatures.
    algorithm: &'static str,
}

const CURVES: [Curve; 3] = [
    Curve {
        name: "P-256",
        bytes: 32,
        algorithm: "ES256",
    },
    Curve {
        name: "P-384",
        bytes: 48,
        algorithm: "ES384",
    },
    Curve {
        name: "P-521",
        bytes: 66,
        algorithm: "ES512",
    },
];

/// A token whose signature was not checked yet.
pub struct Unchecked<'a> {
    parts: Parts<'a>,
    /// The algorithm that it says it is signed with.
    pub algorithm: String,
    /// The name of the key that it says it is signed with; may be empty.
    key_id: String,
}

impl ForeignKey {
    /// Reads one key of a set; an error if it is of another kind.
    pub fn of(jwk: &Value) -> Result<ForeignKey, String> {
        let text = |key: &str| object::text(jwk, &[key]);
        let number = |key: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(text(key));
            let bytes = bytes.map_err(|error| format!("{key}: {error}"))?;
            if bytes.is_empty() || bytes.len() > NUMBER_BYTES_MAX {
                return Err(format!("{key} has {} bytes", bytes.len()));
            }
            Ok(bytes)
        };
        let numbers = match text("kty") {
            "RSA" => Numbers::Rsa(RsaPublicKeyComponents {
                n: number("n")?,
                e: number("e")?,
            }),
            "EC" => {
                let curve = CURVES.iter().find(|curve| curve.name == text("crv"));
                let curve = curve.ok_or_else(|| format!("the curve {:?}", text("crv")))?;
                let (x, y) = (number("x")?, number("y")?);
                if x.len() != curve.bytes || y.len() != curve.bytes {
                    return Err("the point has another size than its curve".to_owned());
                }
                let point = [&[4], &x[..], &y].concat();
                Numbers::Ec { curve, point }
            }
            other => return Err(format!("the kind {other:?}")),
        };
        Ok(ForeignKey {
            id: text("kid").to_owned(),
            numbers,
        })
    }

    /// Returns the claims of a token if this key has signed it.
    pub fn verify(&self, token: &Unchecked<'_>) -> Result<Value, Refused> {
        let Unchecked { parts, key_id, .. } = token;
        let is_named = key_id.is_empty() || *key_id == self.id;
        let message = parts.message.as_bytes();
        if is_named && self.has_signed(&token.algorithm, message, &parts.signature) {
            parts.claims()
        } else {
            Err(Refused::Signature)
        }
    }

    fn has_signed(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        match &self.numbers {
            Numbers::Ec { curve, point } => {
                let checked = || {
                    let algorithm = of_curve(algorithm)?;
                    let key = UnparsedPublicKey::new(algorithm, point);
                    key.verify(message, signature).ok()
                };
                curve.algorithm == algorithm && checked().is_some()
            }
            Numbers::Rsa(key) => of_rsa(algorithm)
                .is_some_and(|algorithm| key.verify(algorithm, message, signature).is_ok()),
        }
    }
}

impl<'a> Unchecked<'a> {
    /// Takes a token apart.
    pub fn of(token: &'a str) -> Result<Unchecked<'a>, Refused> {
        let parts = Parts::of(token)?;
        let header = parts.header()?;
        // A header that must be understood is not understood here.
        if header.get("crit").is_some() {
            return Err(Refused::NotOne);
        }
        Ok(Unchecked {
            algorithm: object::text(&header, &["alg"]).to_owned(),
            key_id: object::text(&header, &["kid"]).to_owned(),
            parts,
        })
    }
}

fn of_curve(algorithm: &str) -> Option<&'static EcdsaVerificationAlgorithm> {
    match algorithm {
        "ES256" => Some(&ECDSA_P256_SHA256_FIXED),
        "ES384" => Some(&ECDSA_P384_SHA384_FIXED),
        "ES512" => Some(&ECDSA_P521_SHA512_FIXED),
        _ => None,
    }
}

fn of_rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    match algorithm {
        "RS256" => Some(&RSA_PKCS1_2048_8192_SHA256),
        "RS384" => Some(&RSA_PKCS1_2048_8192_SHA384),
        "RS512" => Some(&RSA_PKCS1_2048_8192_SHA512),
        "PS256" => Some(&RSA_PSS_2048_8192_SHA256),
        "PS384" => Some(&RSA_PSS_2048_8192_SHA384),
        "PS512" => Some(&RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}
