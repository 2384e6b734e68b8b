//! Secrets with a certificate and its key: what Go's reader of both says first.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use serde_json::Value;
use x509_parser::pem::Pem;

const TYPE: &str = "kubernetes.io/tls";
const CERTIFICATE: &str = "CERTIFICATE";
const KEY: &str = "PRIVATE KEY";

/// A pair that no server could read is kept, with a warning.
pub(super) fn warnings(_old: Option<&Value>, secret: &Value) -> Vec<String> {
    if object::text(secret, &["type"]) != TYPE {
        return Vec::new();
    }
    let blocks = |key: &str| {
        let text = object::text(secret, &["data", key]);
        labels(&STANDARD.decode(text).unwrap_or_default())
    };
    let wrong = not_certificate(&blocks("tls.crt")).or_else(|| not_key(&blocks("tls.key")));
    wrong.map(|why| format!("tls: {why}")).into_iter().collect()
}

/// What the blocks of a PEM text are.
fn labels(pem: &[u8]) -> Vec<String> {
    let blocks = Pem::iter_from_buffer(pem);
    blocks.flatten().map(|block| block.label).collect()
}

fn not_certificate(blocks: &[String]) -> Option<String> {
    match blocks {
        [] => Some("failed to find any PEM data in certificate input".into()),
        all if all.iter().any(|one| one == CERTIFICATE) => None,
        [key] if key.ends_with(KEY) => Some(
            "failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"
                .into(),
        ),
        others => Some(format!(
            "failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
            others.join(" ")
        )),
    }
}

fn not_key(blocks: &[String]) -> Option<String> {
    let is_key = |label: &String| {
        let before = label.strip_suffix(KEY);
        before.is_some_and(|before| before.is_empty() || before.ends_with(' '))
    };
    match blocks {
        [] => Some("failed to find any PEM data in key input".into()),
        all if all.iter().any(is_key) => None,
        [one] if one == CERTIFICATE => {
            Some("found a certificate rather than a key in the PEM for the private key".into())
        }
        others => Some(format!(
            "failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            others.join(" ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warned(certificate: &str, key: &str) -> Vec<String> {
        let block = |label: &str| match label {
            "" => String::new(),
            label => format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n"),
        };
        let [certificate, key] = [certificate, key].map(|label| STANDARD.encode(block(label)));
        let secret = json!({"type": TYPE, "data": {"tls.crt": certificate, "tls.key": key}});
        warnings(None, &secret)
    }

    #[test]
    fn a_pair_that_is_none_is_warned_of() {
        for (certificate, key, why) in [
            ("", "PRIVATE KEY", "find any PEM data in certificate"),
            ("CERTIFICATE", "", "find any PEM data in key"),
            ("EC PRIVATE KEY", "CERTIFICATE", "may have been switched"),
            (
                "CERTIFICATE",
                "CERTIFICATE",
                "a certificate rather than a key",
            ),
            ("X", "PRIVATE KEY", "following types: [X]"),
        ] {
            let told = warned(certificate, key);
            assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
        }
        assert!(warned("CERTIFICATE", "RSA PRIVATE KEY").is_empty());
        assert!(warnings(None, &json!({"type": "Opaque"})).is_empty());
    }
}
