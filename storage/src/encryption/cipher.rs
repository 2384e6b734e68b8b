//! AES-256-GCM under derived keys. Knows neither pages nor records nor where keys come from. The
//! module `encryption` shows why no nonce repeats.

use std::fmt;
use std::io;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroize;

pub(crate) const KEY_BYTES: usize = 32;
pub(crate) const SALT_BYTES: usize = 16;
pub(crate) const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;

pub(crate) type Salt = [u8; SALT_BYTES];

/// The use of a derived key; part of its derivation, so that one salt never serves two uses.
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

/// A key of 32 bytes that is never printed, and is zeroed when it is dropped. It is in a box,
/// because a moved value leaves a copy that nobody zeroes. (The subkeys are aws-lc's, which zeroes
/// them, too.)
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(Box<[u8; KEY_BYTES]>);

impl Key {
    /// A zero key, to be filled in place.
    pub(crate) fn blank() -> Key {
        Key(Box::new([0; KEY_BYTES]))
    }

    pub(crate) fn random() -> io::Result<Key> {
        let mut key = Key::blank();
        fill(key.bytes_mut())?;
        Ok(key)
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; KEY_BYTES] {
        &mut self.0
    }

    #[cfg(test)]
    pub(crate) fn of(byte: u8) -> Key {
        Key(Box::new([byte; KEY_BYTES]))
    }

    fn erase(&mut self) {
        self.0.zeroize();
        #[cfg(test)]
        tests::ERASED.set(tests::ERASED.get() + 1);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.erase();
    }
}

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
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(key.bytes());
        let info = [purpose.label()];
        let expanded = extracted.expand(&info, &AES_256_GCM);
        let expanded = expanded.expect("as long as one hash");
        Subkey(LessSafeKey::new(UnboundKey::from(expanded)))
    }

    /// Encrypts `bytes` in place; `beside` is authenticated and stays clear.
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

    /// Decrypts `bytes` in place; false if they, or `beside`, are not what was sealed.
    #[must_use]
    pub(crate) fn open(
        &self,
        position: u64,
        beside: &[u8],
        tag: [u8; TAG_BYTES],
        bytes: &mut [u8],
    ) -> bool {
        self.0
            .open_in_place_separate_tag(nonce(position), Aad::from(beside), &tag, bytes)
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
    fill(&mut bytes)?;
    Ok(bytes)
}

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| io::Error::other("the system gives no random bytes"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How many keys this thread has erased.
        pub(super) static ERASED: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn a_key_is_zeroed_when_it_is_dropped() {
        let mut key = Key::of(7);
        key.erase();
        assert_eq!(key.bytes(), &[0; KEY_BYTES]);
        // Dropping does the same. The memory is not the test's any more then.
        let before = ERASED.get();
        drop(Key::of(7));
        assert_eq!(ERASED.get(), before + 1);
        let mut text = "1 5c5c".to_owned();
        super::super::key_file::erase(&mut text);
        assert!(text.is_empty());
    }

    #[test]
    fn what_was_sealed_opens_at_its_place_under_its_key_and_nowhere_else() {
        let key = Key::of(7);
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
            subkey(&Key::of(8), Purpose::Page, 1),
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
