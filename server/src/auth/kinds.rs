//! The kinds of tokens: what a login returns, and what a token proves.

use aws_lc_rs::rand;

use super::signed::{self, Signed};
use crate::basics::error::Error;

const PREFIX_LETTERS: usize = 16;
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

#[derive(Debug)]
pub(crate) enum Tokens {
    /// Random letters that only the members of this cluster can resolve; see
    /// [`super::SimpleTokens`].
    Simple,
    /// Tokens that contain their user and expiry (JWT).
    Signed(Box<Signed>),
    /// No tokens are issued: users authenticate by certificates.
    Off,
}

impl Tokens {
    /// Parses `--auth-token`; `read` reads the files it names. The errors are etcd's.
    pub(crate) fn open(
        options: &str,
        read: impl Fn(&str) -> std::io::Result<Vec<u8>>,
    ) -> Result<Tokens, String> {
        let mut parts = options.split(',');
        let kind = parts.next().unwrap_or_default();
        let mut given = std::collections::BTreeMap::new();
        for part in parts {
            let mut pair = part.split('=');
            let (Some(name), Some(value), None) = (pair.next(), pair.next(), pair.next()) else {
                return Err(INVALID_OPTIONS.to_owned());
            };
            if given.insert(name, value).is_some() {
                return Err(INVALID_OPTIONS.to_owned());
            }
        }
        match kind {
            "simple" => Ok(Tokens::Simple),
            "" => Ok(Tokens::Off),
            "jwt" => {
                let text = |name| given.get(name).copied().filter(|value| !value.is_empty());
                let file = |name| match text(name) {
                    Some(path) => read(path).map_err(|error| {
                        tracing::error!(%error, path, "problem loading JWT options");
                        INVALID_OPTIONS.to_owned()
                    }),
                    None => Ok(Vec::new()),
                };
                let ttl = text("ttl").map(crate::config::parse_duration).transpose();
                let options = signed::Options {
                    method: text("sign-method").unwrap_or_default(),
                    public: file("pub-key")?,
                    private: file("priv-key")?,
                    ttl_nanos: ttl.map_err(|_| INVALID_OPTIONS.to_owned())?,
                };
                let signed = Signed::new(&options);
                signed
                    .unwrap_or_else(|| Err(INVALID_OPTIONS.to_owned()))
                    .map(|signed| Tokens::Signed(Box::new(signed)))
            }
            _ => Err(INVALID_OPTIONS.to_owned()),
        }
    }

    /// The random first part of a simple token.
    pub(crate) fn prefix(&self) -> Result<String, Error> {
        if !matches!(self, Tokens::Simple) {
            return Ok(String::new());
        }
        // The largest multiple of the number of letters. Higher bytes are rejected; they would make
        // some letters more likely.
        const FAIR: u8 = (256 / LETTERS.len() * LETTERS.len()) as u8;
        let mut prefix = String::with_capacity(PREFIX_LETTERS);
        let mut bytes = [0; 2 * PREFIX_LETTERS];
        while prefix.len() < PREFIX_LETTERS {
            let filled = rand::fill(&mut bytes);
            filled.map_err(|_| Error::Other(tonic::Code::Unknown, NO_RANDOMNESS.to_owned()))?;
            let fair = bytes.iter().filter(|byte| **byte < FAIR);
            let letters = fair.map(|byte| char::from(LETTERS[*byte as usize % LETTERS.len()]));
            prefix.extend(letters.take(PREFIX_LETTERS - prefix.len()));
        }
        Ok(prefix)
    }

    /// The index of the log entry before the one that issued a simple token. `None`: not a simple
    /// token.
    pub(crate) fn index_of(token: &str) -> Option<u64> {
        let (_, index) = token.split_once('.')?;
        if index.bytes().all(|b| b.is_ascii_digit()) {
            index.parse().ok()
        } else {
            None
        }
    }
}

const INVALID_OPTIONS: &str = "auth: invalid auth options";
const NO_RANDOMNESS: &str = "the system has no randomness";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_token_tells_when_it_was_made() {
        let prefix = Tokens::Simple.prefix().unwrap();
        assert_eq!(prefix.len(), PREFIX_LETTERS);
        assert!(prefix.bytes().all(|b| b.is_ascii_alphabetic()));
        assert_ne!(prefix, Tokens::Simple.prefix().unwrap());
        assert_eq!(Tokens::index_of(&format!("{prefix}.17")), Some(17));
        for bad in ["", "abc", "abc.", "abc.x", "abc.1.2", "abc.-1", "abc.+1"] {
            assert_eq!(Tokens::index_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn options_are_read_as_etcd_reads_them() {
        let files = |_: &str| Ok(b"secret".to_vec());
        let kind = |options| Tokens::open(options, files).map(|kind| format!("{kind:?}"));
        assert_eq!(kind("simple").as_deref(), Ok("Simple"));
        assert_eq!(kind("simple,a=b").as_deref(), Ok("Simple"));
        assert_eq!(kind("").as_deref(), Ok("Off"));
        let signed = kind("jwt,sign-method=HS256,priv-key=f,ttl=1h,more=x");
        assert_eq!(
            signed.as_deref(),
            Ok("Signed(Signed { method: \"HS256\", .. })")
        );
        assert_eq!(
            kind("jwt,sign-method=HS256"),
            Err("auth: missing key data".to_owned())
        );
        for bad in [
            "jwt",
            "jwt,sign-method=none,priv-key=f",
            "jwt,sign-method=HS256,ttl=x",
            "opaque",
            "simple,a",
            "simple,a=b,a=c",
            "simple,a=b=c",
        ] {
            assert_eq!(kind(bad), Err(INVALID_OPTIONS.to_owned()), "{bad}");
        }
    }
}
