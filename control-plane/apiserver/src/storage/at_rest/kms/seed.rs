//! The key of a value: each one has a key of its own, derived from a seed that many share.
//!
//! Sealed: 32 random bytes, then nonce, sealed value and tag of AES-GCM under the key that
//! HKDF-Expand with SHA-256 makes of the seed and those 32 bytes. So no key is used twice, and a
//! random nonce of 12 bytes never wears a key out.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};

use crate::storage::at_rest::cipher::{Cipher, random};

const INFO_BYTES: usize = 32;
const KEY_BYTES: usize = 32;
pub(super) const SEED_BYTES: usize = 32;

/// A decrypted source of keys.
pub(super) enum Source {
    /// Of this seed.
    Seed(Prk),
    /// One key for all values; only older releases of Kubernetes seal so.
    Key(Cipher),
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

impl Source {
    /// Keys are derived from a seed.
    pub(super) fn seed(seed: &[u8]) -> Result<Source, String> {
        if seed.len() < SEED_BYTES {
            return Err(format!(
                "invalid seed length {} used for key generation",
                seed.len()
            ));
        }
        Ok(Source::Seed(Prk::new_less_safe(HKDF_SHA256, seed)))
    }

    /// One key.
    pub(super) fn key(key: &[u8]) -> Result<Source, String> {
        let cipher = Cipher::aes_gcm(key);
        cipher
            .map(Source::Key)
            .ok_or_else(|| format!("invalid key length {}", key.len()))
    }

    /// Seals the value of a key of the store.
    pub(super) fn seal(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Source::Seed(seed) => {
                let info: [u8; INFO_BYTES] = random()?;
                let sealed = derived(seed, &info)?.seal(key, value)?;
                Ok([&info[..], &sealed].concat())
            }
            Source::Key(cipher) => cipher.seal(key, value),
        }
    }

    /// Opens what was sealed for a key of the store.
    pub(super) fn open(&self, key: &str, sealed: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Source::Seed(seed) => {
                let (info, sealed) = sealed
                    .split_at_checked(INFO_BYTES)
                    .ok_or("the stored data was shorter than the required size")?;
                derived(seed, info)?.open(key, sealed)
            }
            Source::Key(cipher) => cipher.open(key, sealed),
        }
    }
}

fn derived(seed: &Prk, info: &[u8]) -> Result<Cipher, String> {
    let failed = || "failed to derive a key from the seed".to_owned();
    let mut key = [0; KEY_BYTES];
    let info = [info];
    let expanded = seed.expand(&info, Length).map_err(|_| failed())?;
    expanded.fill(&mut key).map_err(|_| failed())?;
    Cipher::aes_gcm(&key).ok_or_else(failed)
}
