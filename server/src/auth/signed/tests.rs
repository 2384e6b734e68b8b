use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::KeyPair;

use super::*;

const NOW: Duration = Duration::from_secs(1_000_000);

fn pem_of(tag: &str, der: &[u8]) -> Vec<u8> {
    pem::encode(&pem::Pem::new(tag, der.to_vec())).into_bytes()
}

/// A private key for the method, and its public half.
fn keys(method: &Method) -> (Vec<u8>, Vec<u8>) {
    let random = SystemRandom::new();
    match method.kind {
        Kind::Hmac(_) => (b"secret".to_vec(), Vec::new()),
        Kind::Rsa(..) => {
            let pair = rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
            let private: Pkcs8V1Der<'_> = pair.as_der().unwrap();
            let public = pair.public_key().as_der().unwrap();
            let public = pem_of("PUBLIC KEY", public.as_ref());
            (pem_of("PRIVATE KEY", private.as_ref()), public)
        }
        Kind::Ec(algorithm, _) => {
            let private = sig::EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            let pair = sig::EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref()).unwrap();
            let public = pair.public_key().as_der().unwrap();
            let public = pem_of("PUBLIC KEY", public.as_ref());
            (pem_of("PRIVATE KEY", private.as_ref()), public)
        }
        Kind::Ed => {
            let private = sig::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            let pair = sig::Ed25519KeyPair::from_pkcs8(private.as_ref()).unwrap();
            let public = pair.public_key().as_der().unwrap();
            let public = pem_of("PUBLIC KEY", public.as_ref());
            (pem_of("PRIVATE KEY", private.as_ref()), public)
        }
    }
}

fn open(method: &str, private: &[u8], public: &[u8]) -> Result<Signed, String> {
    let options = Options {
        method,
        private: private.to_vec(),
        public: public.to_vec(),
        ttl_nanos: None,
    };
    Signed::new(&options).unwrap()
}

fn alice() -> Authenticated {
    Authenticated {
        user: "alice".to_owned(),
        token: String::new(),
        auth_revision: 7,
    }
}

#[test]
fn every_method_signs_what_it_verifies_and_nothing_else() {
    let info = AuthInfo {
        user: "alice".to_owned(),
        revision: 7,
    };
    for method in METHODS {
        let name = method.name;
        let (private, public) = keys(&method);
        let signed = open(name, &private, b"").unwrap();
        let token = signed.sign(&alice(), NOW).unwrap();
        assert_eq!(signed.verify(&token, NOW), Some(info.clone()), "{name}");
        let later = NOW + Duration::from_secs(300);
        assert_eq!(signed.verify(&token, later), None, "{name}: it is over");
        let forged = token.replacen('.', ".x", 1);
        assert_eq!(signed.verify(&forged, NOW), None, "{name}");
        let unsigned = token.rsplit_once('.').unwrap().0.to_owned() + ".";
        assert_eq!(signed.verify(&unsigned, NOW), None, "{name}");
        if matches!(method.kind, Kind::Hmac(_)) {
            continue;
        }
        open(name, &private, &public).unwrap();
        let (_, of_another) = keys(&method);
        let mismatch = open(name, &private, &of_another).unwrap_err();
        assert_eq!(
            mismatch, "auth: public and private keys don't match",
            "{name}"
        );
        let verifies = open(name, b"", &public).unwrap();
        assert_eq!(verifies.verify(&token, NOW), Some(info.clone()), "{name}");
        let refused = verifies.sign(&alice(), NOW).unwrap_err().to_string();
        assert_eq!(
            refused,
            "auth: token signing attempted with verify-only key"
        );
    }
}

#[test]
fn a_token_does_not_choose_how_it_is_judged() {
    let signed = open("HS256", b"secret", b"").unwrap();
    let other = open("HS512", b"secret", b"").unwrap();
    let token = other.sign(&alice(), NOW).unwrap();
    assert_eq!(signed.verify(&token, NOW), None);
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let claims = URL_SAFE_NO_PAD.encode(r#"{"username":"root","revision":9}"#);
    assert_eq!(signed.verify(&format!("{none}.{claims}."), NOW), None);
}

#[test]
fn without_a_key_there_is_no_token() {
    assert_eq!(
        open("RS256", b"", b"").unwrap_err(),
        "auth: missing key data"
    );
    assert_eq!(
        open("HS256", b"", b"x").unwrap_err(),
        "auth: missing key data"
    );
    assert!(open("ES256", b"garbage", b"").is_err());
    assert!(Signed::new(&Options::default()).is_none());
}
