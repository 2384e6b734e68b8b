use super::*;

fn key() -> Key {
    Key::from_pem(&rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap()
}

#[test]
fn a_statement_is_read_back_by_the_key_that_signed_it_alone() {
    let (key, other) = (key(), key());
    let claims = json!({"iss": "me", "sub": "you"});
    let token = key.sign(&claims).unwrap();
    assert_eq!(key.verify(&token), Ok(claims));
    assert_eq!(other.verify(&token), Err(Refused::Signature));
    assert_eq!(unverified_issuer(&token).as_deref(), Some("me"));
}

#[test]
fn any_change_of_a_token_is_noticed() {
    let key = key();
    let token = key.sign(&json!({"iss": "me", "exp": 1})).unwrap();
    for place in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        // The last letter of the signature carries bits that mean nothing; decoding refuses those.
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(key.verify(&changed).is_err(), "letter {place}");
    }
    for end in 0..token.len() {
        assert!(key.verify(&token[..end]).is_err(), "cut at {end}");
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
        json!({"alg": "HS256", "kid": key.id()}),
        json!({"alg": "ES256", "kid": "another"}),
        json!({"alg": "ES256", "crit": ["exp"]}),
        json!({}),
    ] {
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        let forged = format!("{header}.{claims}.{signature}");
        assert_eq!(key.verify(&forged), Err(Refused::Signature));
        assert_eq!(
            key.verify(&format!("{header}.{claims}.")),
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
        assert_eq!(key.verify(text), Err(Refused::NotOne), "{text:.20}");
    }
}

#[test]
fn the_public_key_is_what_other_tools_make_of_it() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let key = Key::from_pem(&pair.serialize_pem()).unwrap();
    let normal = |pem: &str| pem.replace('\r', "");
    assert_eq!(key.public_pem(), normal(&pair.public_key_pem()));
    let jwk = key.public_jwk();
    assert_eq!(jwk["kid"], key.id());
    let decode = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
    assert_eq!(
        [&[4], &decode("x")[..], &decode("y")].concat(),
        pair.public_key_raw()
    );
}

#[test]
fn the_public_key_of_an_rsa_key_is_what_other_tools_make_of_it() {
    let algorithm = &rcgen::PKCS_RSA_SHA256;
    let pair = rcgen::KeyPair::generate_rsa_for(algorithm, rcgen::RsaKeySize::_2048).unwrap();
    let key = Key::from_pem(&pair.serialize_pem()).unwrap();
    assert_eq!(key.algorithm(), "RS256");
    assert_eq!(key.public_pem(), pair.public_key_pem().replace('\r', ""));
}
