//! AES-256-GCM under derived keys. Knows neither pages nor records nor where keys come from; why
//! no nonce repeats is argued in `seal`.

use std::fmt;
use std::io;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hkdf;
use ring::rand::{SecureRandom, SystemRandom};

pub(crate) const KEY_BYTES: usize = 32;
pub(crate) const SALT_BYTES: usize = 16;
pub(crate) const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;

pub(crate) type Salt = [u8; SALT_BYTES];

/// What a derived key seals; part of its derivation, so that one salt never serves two purposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Page,
    Record,
    Wrapping,
    Scratch,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Purpose::Page => b"stele page 1",
            Purpose::Record => b"stele record 1",
            Purpose::Wrapping => b"stele wrapping 1",
            Purpose::Scratch => b"stele scratch 1",
        }
    }
}

/// A key of 32 bytes that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// A key for one purpose and one salt. Each position is sealed at most once under it.
pub(crate) struct Subkey(LessSafeKey);

impl fmt::Debug for Subkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subkey(..)")
    }
}

impl Subkey {
    pub(crate) fn derive(key: &Key, purpose: Purpose, salt: &Salt) -> Subkey {
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&key.0);
        let info = [purpose.label()];
        let expanded = extracted.expand(&info, &AES_256_GCM);
        let expanded = expanded.expect("as long as one hash");
        Subkey(LessSafeKey::new(UnboundKey::from(expanded)))
    }

    /// Seals `bytes` where they lie; `beside` is authenticated and stays clear.
    pub(crate) fn seal(&self, position: u64, beside: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let beside = Aad::from(beside);
        let sealed = self
            .0
            .seal_in_place_separate_tag(nonce(position), beside, bytes);
        let tag = sealed.expect("far below the most that AES-GCM takes at once");
        let mut out = [0; TAG_BYTES];
        out.copy_from_slice(tag.as_ref());
        out
    }

    /// Opens `bytes` where they lie; false when they, or `beside`, are not what was sealed.
    #[must_use]
    pub(crate) fn open(
        &self,
        position: u64,
        beside: &[u8],
        tag: [u8; TAG_BYTES],
        bytes: &mut [u8],
    ) -> bool {
        let (beside, tag) = (Aad::from(beside), Tag::from(tag));
        self.0
            .open_in_place_separate_tag(nonce(position), beside, tag, bytes, 0..)
            .is_ok()
    }
}

fn nonce(position: u64) -> Nonce {
    let mut bytes = [0; NONCE_BYTES];
    bytes[NONCE_BYTES - 8..].copy_from_slice(&position.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_at_its_place_under_its_key_and_nowhere_else() {
        let key = Key([7; KEY_BYTES]);
        let subkey = |key: &Key, purpose, salt| Subkey::derive(key, purpose, &[salt; SALT_BYTES]);
        let sealer = subkey(&key, Purpose::Page, 1);
        let mut sealed = *b"some bytes";
        let tag = sealer.seal(5, b"head", &mut sealed);
        assert_ne!(&sealed, b"some bytes");
        let opens = |opener: &Subkey, position, beside: &[u8], tag, mut bytes: [u8; 10]| {
            opener.open(position, beside, tag, &mut bytes) && &bytes == b"some bytes"
        };
        assert!(opens(
            &subkey(&key, Purpose::Page, 1),
            5,
            b"head",
            tag,
            sealed
        ));
        assert!(!opens(&sealer, 6, b"head", tag, sealed));
        assert!(!opens(&sealer, 5, b"heat", tag, sealed));
        let others = [
            subkey(&Key([8; KEY_BYTES]), Purpose::Page, 1),
            subkey(&key, Purpose::Record, 1),
            subkey(&key, Purpose::Page, 2),
        ];
        for other in others {
            assert!(!opens(&other, 5, b"head", tag, sealed));
        }
        for bit in 0..sealed.len() * 8 {
            let mut rotten = sealed;
            rotten[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&sealer, 5, b"head", tag, rotten));
        }
    }
}
