use super::*;

fn key() -> Key {
    Key::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap()
}

#[test]
fn a_statement_is_read_back_by_the_key_that_signed_it_alone() {
    let (key, other) = (key(), key());
    let claims = json!({"iss": "me", "sub": "you"});
    let token = key.sign(&claims).unwrap();
    assert_eq!(key.public.verify(&token), Ok(claims));
    assert_eq!(other.public.verify(&token), Err(Refused::Signature));
    assert_eq!(unverified_issuer(&token).as_deref(), Some("me"));
}

#[test]
fn any_change_of_a_token_is_noticed() {
    let key = key();
    let token = key.sign(&json!({"iss": "me", "exp": 1})).unwrap();
    for place in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        // The last letter of the signature has unused bits; decoding requires them to be zero.
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(key.public.verify(&changed).is_err(), "letter {place}");
    }
    for end in 0..token.len() {
        assert!(key.public.verify(&token[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn the_token_does_not_choose_the_algorithm() {
    let key = key();
    let token = key.sign(&json!({"iss": "me"})).unwrap();
    let rest = token.split_once('.').unwrap().1;
    let (claims, signature) = rest.split_once('.').unwrap();
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "HS256", "kid": key.public.id()}),
        json!({"alg": "ES256", "kid": "another"}),
        json!({"alg": "ES256", "crit": ["exp"]}),
        json!({}),
    ] {
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        let forged = format!("{header}.{claims}.{signature}");
        assert_eq!(key.public.verify(&forged), Err(Refused::Signature));
        assert_eq!(
            key.public.verify(&format!("{header}.{claims}.")),
            Err(Refused::Signature)
        );
    }
}

#[test]
fn what_is_no_token_is_told_apart() {
    let key = key();
    let long = "a.".repeat(TOKEN_BYTES_MAX);
    for text in [
        "",
        ".",
        "..",
        "a.b",
        "admin-token",
        "e30.e30.%",
        "WzFd.e30.e30",
        &long,
    ] {
        assert_eq!(key.public.verify(text), Err(Refused::NotOne), "{text:.20}");
    }
}

#[test]
fn the_public_key_is_what_other_tools_make_of_it() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let key = Key::from_pem(&pair.serialize_pem()).unwrap();
    let normal = |pem: &str| pem.replace('\r', "");
    assert_eq!(key.public.pem(), normal(&pair.public_key_pem()));
    let jwk = key.public.jwk();
    assert_eq!(jwk["kid"], key.public.id());
    let decode = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
    assert_eq!(
        [&[4], &decode("x")[..], &decode("y")].concat(),
        pair.public_key_raw()
    );
}

#[test]
fn a_public_key_is_read_from_every_form_it_is_kept_in() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let private = pair.serialize_pem();
    let public = Key::from_pem(&private).unwrap().public;
    let certificate = rcgen::CertificateParams::new(vec!["accounts".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&pair).unwrap().pem();
    for pem in [&private, &public.pem(), &certificate] {
        assert_eq!(
            PublicKey::all_from_pem(pem).unwrap(),
            std::slice::from_ref(&public)
        );
    }
    let two = format!("{}{certificate}", key().public.pem());
    assert_eq!(PublicKey::all_from_pem(&two).unwrap().len(), 2);
    for pem in [
        "",
        "no key",
        "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n",
    ] {
        assert!(PublicKey::all_from_pem(pem).is_err(), "{pem}");
    }
}

#[test]
fn a_key_of_rsa_signs_too() {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    let pair = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let key = Key::from_der(&PrivateKeyDer::Pkcs8(der.as_ref().into())).unwrap();
    let token = key.sign(&json!({"iss": "me"})).unwrap();
    let again = PublicKey::all_from_pem(&key.public.pem()).unwrap();
    assert_eq!(again[0].verify(&token), Ok(json!({"iss": "me"})));
    assert_eq!(
        (again[0].algorithm(), &again[0].jwk()["e"]),
        ("RS256", &json!("AQAB"))
    );
}
