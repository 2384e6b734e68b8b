//! For the fuzzer: received tokens, and the options of `--auth-token`.

use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::signed::Signed;
use super::{Credentials, Tokens};

const NOW: Duration = Duration::from_secs(1_000_000_000);

static SIGNED: LazyLock<Tokens> = LazyLock::new(|| {
    let secret = |_: &str| Ok(b"secret".to_vec());
    let opened = Tokens::open("jwt,sign-method=HS256,priv-key=f", secret);
    opened.expect("a key that signs")
});

/// Uses the bytes as a header, as the claims of a token, and as an option with the file it names.
pub(crate) fn any_token(data: &[u8]) {
    let Tokens::Signed(signed) = &*SIGNED else {
        unreachable!("it was opened so");
    };
    let token = Credentials::token_of(data);
    if let Some(index) = Tokens::index_of(&token) {
        assert!(
            token.ends_with(|last: char| last.is_ascii_digit()),
            "{index}"
        );
    }
    // No input can guess a signature.
    assert_eq!(signed.verify(&token, NOW), None);
    any_claims(signed, data);
    let half = data.iter().position(|byte| *byte == b'\n');
    let (options, file) = data.split_at(half.unwrap_or(data.len()));
    let options = String::from_utf8_lossy(options);
    let read = |_: &str| Ok(file.to_vec());
    for options in [options.to_string(), format!("jwt,{options}")] {
        if let Err(error) = Tokens::open(&options, read) {
            assert!(!error.is_empty());
        }
    }
}

/// A correctly signed token with arbitrary claims.
fn any_claims(signed: &Signed, data: &[u8]) {
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let text = format!("{header}.{}", URL_SAFE_NO_PAD.encode(data));
    let signature = signed.signature(text.as_bytes()).expect("it has a secret");
    let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
    // Only the absence of panics is tested, not the result.
    let _ = signed.verify(&token, NOW);
}
