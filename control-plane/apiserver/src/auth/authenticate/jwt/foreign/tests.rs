use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use serde_json::json;

use super::super::public::PublicKey;
use super::*;

const CLAIMS: &str = r#"{"iss":"me"}"#;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token with this header, signed by somebody.
fn token(algorithm: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let header = json!({"alg": algorithm, "kid": "k"}).to_string();
    let message = format!("{}.{}", encoded(header), encoded(CLAIMS));
    let signature = encoded(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn reads(key: &ForeignKey, token: &str) -> bool {
    let token = Unchecked::of(token);
    token.is_ok_and(|token| key.verify(&token) == Ok(json!({"iss": "me"})))
}

fn curve(name: &str, algorithm: &'static EcdsaSigningAlgorithm) -> (EcdsaKeyPair, Value) {
    let pair = EcdsaKeyPair::generate(algorithm).unwrap();
    let point = pair.public_key().as_ref()[1..].to_vec();
    let (x, y) = point.split_at(point.len() / 2);
    let jwk = json!({"kty": "EC", "crv": name, "kid": "k", "x": encoded(x), "y": encoded(y)});
    (pair, jwk)
}

#[test]
fn each_curve_has_its_algorithm() {
    let all = [
        ("P-256", "ES256", &ECDSA_P256_SHA256_FIXED_SIGNING),
        ("P-384", "ES384", &ECDSA_P384_SHA384_FIXED_SIGNING),
        ("P-521", "ES512", &ECDSA_P521_SHA512_FIXED_SIGNING),
    ];
    for (name, algorithm, signing) in all {
        let (pair, jwk) = curve(name, signing);
        let key = ForeignKey::of(&jwk).unwrap();
        let sign = |message: &[u8]| {
            let signature = pair.sign(&SystemRandom::new(), message).unwrap();
            signature.as_ref().to_vec()
        };
        assert!(reads(&key, &token(algorithm, sign)), "{algorithm}");
        for (_, other, _) in all.iter().filter(|one| one.1 != algorithm) {
            assert!(!reads(&key, &token(other, sign)), "{algorithm} as {other}");
        }
        let (_, stranger) = curve(name, signing);
        let stranger = ForeignKey::of(&stranger).unwrap();
        assert!(!reads(&stranger, &token(algorithm, sign)), "{algorithm}");
        let mut renamed = jwk.clone();
        renamed["kid"] = "other".into();
        let renamed = ForeignKey::of(&renamed).unwrap();
        assert!(!reads(&renamed, &token(algorithm, sign)), "{algorithm}");
    }
}

#[test]
fn a_key_of_rsa_has_six_algorithms() {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let info: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    let mut jwk = PublicKey::from_info(info.as_ref()).unwrap().jwk();
    jwk["kid"] = "k".into();
    let key = ForeignKey::of(&jwk).unwrap();
    let all: [(&str, &'static dyn RsaEncoding); 6] = [
        ("RS256", &RSA_PKCS1_SHA256),
        ("RS384", &RSA_PKCS1_SHA384),
        ("RS512", &RSA_PKCS1_SHA512),
        ("PS256", &RSA_PSS_SHA256),
        ("PS384", &RSA_PSS_SHA384),
        ("PS512", &RSA_PSS_SHA512),
    ];
    for (algorithm, encoding) in all {
        let sign = |message: &[u8]| {
            let mut signature = vec![0; pair.public_modulus_len()];
            let random = SystemRandom::new();
            pair.sign(encoding, &random, message, &mut signature)
                .unwrap();
            signature
        };
        for (other, _) in all {
            let is_read = reads(&key, &token(other, sign));
            assert_eq!(is_read, other == algorithm, "{algorithm} as {other}");
        }
        for other in ["none", "HS256", "ES256", ""] {
            assert!(!reads(&key, &token(other, sign)), "{other}");
        }
    }
}

#[test]
fn what_is_no_key_is_refused() {
    let (_, good) = curve("P-256", &ECDSA_P256_SHA256_FIXED_SIGNING);
    for (field, value) in [
        ("kty", "oct"),
        ("crv", "P-224"),
        ("crv", "P-384"),
        ("x", ""),
        ("x", "AAAA"),
        ("y", "%"),
    ] {
        let mut bad = good.clone();
        bad[field] = value.into();
        assert!(ForeignKey::of(&bad).is_err(), "{field}: {value}");
    }
    let long = encoded(vec![1; NUMBER_BYTES_MAX + 1]);
    assert!(ForeignKey::of(&json!({"kty": "RSA", "n": long, "e": "AQAB"})).is_err());
}

#[test]
fn a_header_that_must_be_understood_is_not() {
    let header = encoded(json!({"alg": "ES256", "crit": ["exp"]}).to_string());
    let token = format!("{header}.{}.AAAA", encoded(CLAIMS));
    assert!(Unchecked::of(&token).is_err());
}
