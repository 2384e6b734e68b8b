//! Signed tokens (JWT), which contain their user and expiry. Supports every signature method of
//! etcd's flag, as one table over the workspace's cryptography library: JWT libraries lack the
//! largest curve.

use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self as sig, UnparsedPublicKey, VerificationAlgorithm};
use aws_lc_rs::{hmac, rsa};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::auth::Authenticated;
use crate::basics::error::Error;
use crate::request::AuthInfo;

/// Lifetime of a token if the flag gives none.
const DEFAULT_TTL_NANOS: i64 = 300_000_000_000;

pub(crate) struct Signed {
    method: Method,
    key: Key,
    /// May be negative: then no token is ever valid.
    ttl_nanos: i64,
}

/// A signing method, by its name in a token's header.
struct Method {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Hmac(hmac::Algorithm),
    Rsa(
        &'static dyn sig::RsaEncoding,
        &'static dyn VerificationAlgorithm,
    ),
    Ec(
        &'static sig::EcdsaSigningAlgorithm,
        &'static dyn VerificationAlgorithm,
    ),
    Ed,
}

const METHODS: [Method; 13] = [
    Method::of("HS256", Kind::Hmac(hmac::HMAC_SHA256)),
    Method::of("HS384", Kind::Hmac(hmac::HMAC_SHA384)),
    Method::of("HS512", Kind::Hmac(hmac::HMAC_SHA512)),
    Method::of(
        "RS256",
        Kind::Rsa(&sig::RSA_PKCS1_SHA256, &sig::RSA_PKCS1_2048_8192_SHA256),
    ),
    Method::of(
        "RS384",
        Kind::Rsa(&sig::RSA_PKCS1_SHA384, &sig::RSA_PKCS1_2048_8192_SHA384),
    ),
    Method::of(
        "RS512",
        Kind::Rsa(&sig::RSA_PKCS1_SHA512, &sig::RSA_PKCS1_2048_8192_SHA512),
    ),
    Method::of(
        "PS256",
        Kind::Rsa(&sig::RSA_PSS_SHA256, &sig::RSA_PSS_2048_8192_SHA256),
    ),
    Method::of(
        "PS384",
        Kind::Rsa(&sig::RSA_PSS_SHA384, &sig::RSA_PSS_2048_8192_SHA384),
    ),
    Method::of(
        "PS512",
        Kind::Rsa(&sig::RSA_PSS_SHA512, &sig::RSA_PSS_2048_8192_SHA512),
    ),
    Method::of(
        "ES256",
        Kind::Ec(
            &sig::ECDSA_P256_SHA256_FIXED_SIGNING,
            &sig::ECDSA_P256_SHA256_FIXED,
        ),
    ),
    Method::of(
        "ES384",
        Kind::Ec(
            &sig::ECDSA_P384_SHA384_FIXED_SIGNING,
            &sig::ECDSA_P384_SHA384_FIXED,
        ),
    ),
    Method::of(
        "ES512",
        Kind::Ec(
            &sig::ECDSA_P521_SHA512_FIXED_SIGNING,
            &sig::ECDSA_P521_SHA512_FIXED,
        ),
    ),
    Method::of("EdDSA", Kind::Ed),
];

impl Method {
    const fn of(name: &'static str, kind: Kind) -> Method {
        Method { name, kind }
    }
}

/// The private key, if present, and the public key.
enum Key {
    Secret(Box<hmac::Key>),
    Pair(Option<Private>, Vec<u8>),
}

enum Private {
    Rsa(rsa::KeyPair),
    Ec(sig::EcdsaKeyPair),
    Ed(sig::Ed25519KeyPair),
}

/// The part of `--auth-token` after `jwt`, with files already read.
#[derive(Default)]
pub(super) struct Options<'a> {
    pub(super) method: &'a str,
    pub(super) public: Vec<u8>,
    pub(super) private: Vec<u8>,
    pub(super) ttl_nanos: Option<i64>,
}

impl Signed {
    /// `None`: no such method. The error is etcd's where etcd has one.
    pub(super) fn new(options: &Options<'_>) -> Option<Result<Signed, String>> {
        let method = METHODS.into_iter().find(|m| m.name == options.method)?;
        let key = Key::new(method.kind, &options.public, &options.private);
        let ttl_nanos = options.ttl_nanos.unwrap_or(DEFAULT_TTL_NANOS);
        Some(key.and_then(|key| {
            let signed = Signed {
                method,
                key,
                ttl_nanos,
            };
            signed.check_match(!options.public.is_empty())?;
            Ok(signed)
        }))
    }

    /// A token with the user who logged in, the auth revision, and the expiry.
    pub(crate) fn sign(&self, who: &Authenticated, unix_time: Duration) -> Result<String, Error> {
        let now = unix_time.as_nanos() as i64;
        let exp = now.saturating_add(self.ttl_nanos) / 1_000_000_000;
        let header = json!({ "alg": self.method.name, "typ": "JWT" });
        let claims = json!({ "exp": exp, "revision": who.auth_revision, "username": who.user });
        let text = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = text.join(".");
        let signature = self.signature(text.as_bytes())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The user of a token that is correctly signed and still valid.
    pub(crate) fn verify(&self, token: &str, unix_time: Duration) -> Option<AuthInfo> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
        // The token must not choose its own verification method.
        if header.get("alg")?.as_str()? != self.method.name {
            return None;
        }
        if !self.is_signature(text.as_bytes(), &decode(signature)?) {
            return None;
        }
        let claims: Value = serde_json::from_slice(&decode(claims)?).ok()?;
        let now = unix_time.as_secs_f64();
        // etcd's library treats zero as absent.
        let bound = |name: &str| match claims.get(name) {
            None => Some(None),
            Some(value) => value
                .as_f64()
                .map(|seconds| Some(seconds).filter(|s| *s != 0.0)),
        };
        let is_good = bound("exp")?.is_none_or(|end| now < end)
            && bound("nbf")?.is_none_or(|begin| now >= begin);
        is_good.then_some(())?;
        Some(AuthInfo {
            user: claims.get("username")?.as_str()?.to_owned(),
            revision: claims.get("revision")?.as_f64()? as u64,
        })
    }

    pub(super) fn signature(&self, text: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = || {
            Error::Other(
                tonic::Code::Unknown,
                "the token cannot be signed".to_owned(),
            )
        };
        let random = SystemRandom::new();
        let private = match &self.key {
            Key::Secret(key) => return Ok(hmac::sign(key, text).as_ref().to_vec()),
            Key::Pair(None, _) => {
                let text = "auth: token signing attempted with verify-only key".to_owned();
                return Err(Error::Other(tonic::Code::Unknown, text));
            }
            Key::Pair(Some(private), _) => private,
        };
        match (private, self.method.kind) {
            (Private::Rsa(pair), Kind::Rsa(encoding, _)) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let signed = pair.sign(encoding, &random, text, &mut signature);
                signed.map(|()| signature).map_err(|_| failed())
            }
            (Private::Ec(pair), _) => {
                let signature = pair.sign(&random, text);
                let signature = signature.map_err(|_| failed())?;
                Ok(signature.as_ref().to_vec())
            }
            (Private::Ed(pair), _) => Ok(pair.sign(text).as_ref().to_vec()),
            (Private::Rsa(_), _) => Err(failed()),
        }
    }

    fn is_signature(&self, text: &[u8], signature: &[u8]) -> bool {
        let (algorithm, public): (&'static dyn VerificationAlgorithm, _) =
            match (&self.key, self.method.kind) {
                (Key::Secret(key), _) => return hmac::verify(key, text, signature).is_ok(),
                (Key::Pair(_, public), Kind::Rsa(_, algorithm) | Kind::Ec(_, algorithm)) => {
                    (algorithm, public)
                }
                (Key::Pair(_, public), _) => (&sig::ED25519, public),
            };
        let public = UnparsedPublicKey::new(algorithm, public);
        public.verify(text, signature).is_ok()
    }

    /// Verifies that the public key matches the private key.
    fn check_match(&self, was_given: bool) -> Result<(), String> {
        const PROBE: &[u8] = b"probe";
        if !was_given || matches!(self.key, Key::Secret(_) | Key::Pair(None, _)) {
            return Ok(());
        }
        let signature = self.signature(PROBE).map_err(|error| error.to_string())?;
        if self.is_signature(PROBE, &signature) {
            Ok(())
        } else {
            Err("auth: public and private keys don't match".to_owned())
        }
    }
}

impl Key {
    fn new(kind: Kind, public: &[u8], private: &[u8]) -> Result<Key, String> {
        let missing = || Err("auth: missing key data".to_owned());
        if let Kind::Hmac(algorithm) = kind {
            return if private.is_empty() {
                missing()
            } else {
                Ok(Key::Secret(Box::new(hmac::Key::new(algorithm, private))))
            };
        }
        let private = if private.is_empty() {
            None
        } else {
            Some(Private::read(kind, private)?)
        };
        let public = match (public.is_empty(), &private) {
            (false, _) => read_public(public)?,
            (true, Some(private)) => private.public(),
            (true, None) => return missing(),
        };
        Ok(Key::Pair(private, public))
    }
}

impl Private {
    fn read(kind: Kind, text: &[u8]) -> Result<Private, String> {
        let block = pem::parse(text).map_err(|_| NOT_PEM.to_owned())?;
        let der = block.contents();
        let rejected = |error: aws_lc_rs::error::KeyRejected| format!("the private key: {error}");
        match kind {
            Kind::Rsa(..) => rsa::KeyPair::from_der(der)
                .or_else(|_| rsa::KeyPair::from_pkcs8(der))
                .map(Private::Rsa)
                .map_err(rejected),
            Kind::Ec(algorithm, _) => sig::EcdsaKeyPair::from_private_key_der(algorithm, der)
                .map(Private::Ec)
                .map_err(rejected),
            _ => sig::Ed25519KeyPair::from_pkcs8_maybe_unchecked(der)
                .map(Private::Ed)
                .map_err(rejected),
        }
    }

    fn public(&self) -> Vec<u8> {
        use sig::KeyPair;
        match self {
            Private::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Private::Ec(pair) => pair.public_key().as_ref().to_vec(),
            Private::Ed(pair) => pair.public_key().as_ref().to_vec(),
        }
    }
}

const NOT_PEM: &str = "invalid key: Key must be a PEM encoded PKCS1 or PKCS8 key";

/// A public key, or the key of a certificate.
fn read_public(text: &[u8]) -> Result<Vec<u8>, String> {
    let block = pem::parse(text).map_err(|_| NOT_PEM.to_owned())?;
    match x509_parser::parse_x509_certificate(block.contents()) {
        Ok((_, certificate)) => Ok(certificate.public_key().raw.to_vec()),
        Err(_) => Ok(block.into_contents()),
    }
}

impl std::fmt::Debug for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signed")
            .field("method", &self.method.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
