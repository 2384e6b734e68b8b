//! One key and how it seals values: the bytes behind the prefix that names provider and key.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    self, AES_CBC_IV_LEN, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use crypto_secretbox::aead::Aead;
use crypto_secretbox::{KeyInit, XSalsa20Poly1305};

const GCM_NONCE_BYTES: usize = 12;
const SECRETBOX_NONCE_BYTES: usize = 24;
const BLOCK_BYTES: usize = 16;

const TOO_SHORT: &str = "the stored data was shorter than the required size";
const UNAUTHENTIC: &str =
    "message authentication failed: it was sealed with another secret, or it was changed";

/// A key of a provider.
pub(super) enum Cipher {
    /// A random vector, then blocks with PKCS#7 padding. Nothing authenticates them.
    AesCbc(Box<Cbc>),
    /// A random nonce, then the sealed value and its tag. The store's key is authenticated, too: a
    /// value that was moved to another key does not open.
    AesGcm(Box<LessSafeKey>),
    /// A random nonce, then the box.
    Secretbox(Box<XSalsa20Poly1305>),
}

/// A key of AES in CBC mode.
pub(super) struct Cbc {
    seal: PaddedBlockEncryptingKey,
    open: PaddedBlockDecryptingKey,
}

impl Cipher {
    /// AES in CBC mode; `None` unless the secret has 16, 24 or 32 bytes.
    pub(super) fn aes_cbc(secret: &[u8]) -> Option<Cipher> {
        let algorithm = match secret.len() {
            16 => &cipher::AES_128,
            24 => &cipher::AES_192,
            32 => &cipher::AES_256,
            _ => return None,
        };
        let key = || UnboundCipherKey::new(algorithm, secret).ok();
        Some(Cipher::AesCbc(Box::new(Cbc {
            seal: PaddedBlockEncryptingKey::cbc_pkcs7(key()?).ok()?,
            open: PaddedBlockDecryptingKey::cbc_pkcs7(key()?).ok()?,
        })))
    }

    /// AES in GCM mode; `None` unless the secret has 16, 24 or 32 bytes.
    pub(super) fn aes_gcm(secret: &[u8]) -> Option<Cipher> {
        let algorithm = match secret.len() {
            16 => &aead::AES_128_GCM,
            24 => &aead::AES_192_GCM,
            32 => &aead::AES_256_GCM,
            _ => return None,
        };
        let key = UnboundKey::new(algorithm, secret).ok()?;
        Some(Cipher::AesGcm(Box::new(LessSafeKey::new(key))))
    }

    /// XSalsa20 with Poly1305; `None` unless the secret has 32 bytes.
    pub(super) fn secretbox(secret: &[u8]) -> Option<Cipher> {
        let key = XSalsa20Poly1305::new_from_slice(secret).ok()?;
        Some(Cipher::Secretbox(Box::new(key)))
    }

    /// Seals the value of a key of the store.
    pub(super) fn seal(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Cipher::AesCbc(cbc) => {
                let mut blocks = value.to_vec();
                let context = cbc.seal.encrypt(&mut blocks);
                let context = context.map_err(|_| failed("AES-CBC"))?;
                let DecryptionContext::Iv128(vector) = context else {
                    return Err(failed("AES-CBC"));
                };
                let vector: &[u8; AES_CBC_IV_LEN] = vector.as_ref();
                Ok([&vector[..], &blocks].concat())
            }
            Cipher::AesGcm(sealing) => {
                let nonce: [u8; GCM_NONCE_BYTES] = random()?;
                let mut sealed = Vec::with_capacity(nonce.len() + value.len() + BLOCK_BYTES);
                sealed.extend_from_slice(&nonce);
                sealed.extend_from_slice(value);
                let tag = sealing
                    .seal_in_place_separate_tag(
                        Nonce::assume_unique_for_key(nonce),
                        Aad::from(key.as_bytes()),
                        &mut sealed[GCM_NONCE_BYTES..],
                    )
                    .map_err(|_| failed("AES-GCM"))?;
                sealed.extend_from_slice(tag.as_ref());
                Ok(sealed)
            }
            Cipher::Secretbox(sealing) => {
                let nonce: [u8; SECRETBOX_NONCE_BYTES] = random()?;
                let sealed = sealing.encrypt(&nonce.into(), value);
                let sealed = sealed.map_err(|_| failed("secretbox"))?;
                Ok([&nonce[..], &sealed].concat())
            }
        }
    }

    /// Opens what was sealed for a key of the store.
    pub(super) fn open(&self, key: &str, sealed: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Cipher::AesCbc(cbc) => {
                let (vector, blocks) = split::<AES_CBC_IV_LEN>(sealed)?;
                if !blocks.len().is_multiple_of(BLOCK_BYTES) {
                    return Err("the stored data is not a multiple of the block size".to_owned());
                }
                if blocks.is_empty() {
                    return Err("invalid PKCS7 data (empty or not padded)".to_owned());
                }
                let context = DecryptionContext::Iv128(FixedLength::from(vector));
                let mut blocks = blocks.to_vec();
                let opened = cbc.open.decrypt(&mut blocks, context);
                let length = opened.map_err(|_| "invalid padding on input")?.len();
                blocks.truncate(length);
                Ok(blocks)
            }
            Cipher::AesGcm(opening) => {
                let (nonce, sealed) = split::<GCM_NONCE_BYTES>(sealed)?;
                let mut bytes = sealed.to_vec();
                let nonce = Nonce::assume_unique_for_key(nonce);
                let opened = opening.open_in_place(nonce, Aad::from(key.as_bytes()), &mut bytes);
                let opened = opened.map_err(|_| UNAUTHENTIC)?;
                let length = opened.len();
                bytes.truncate(length);
                Ok(bytes)
            }
            Cipher::Secretbox(opening) => {
                let (nonce, sealed) = split::<SECRETBOX_NONCE_BYTES>(sealed)?;
                let opened = opening.decrypt(&nonce.into(), sealed);
                opened.map_err(|_| UNAUTHENTIC.to_owned())
            }
        }
    }
}

/// Random bytes of the operating system.
pub(super) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], String> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(bytes)
}

fn split<const LENGTH: usize>(sealed: &[u8]) -> Result<([u8; LENGTH], &[u8]), String> {
    let split = sealed.split_first_chunk::<LENGTH>();
    split
        .map(|(first, rest)| (*first, rest))
        .ok_or_else(|| TOO_SHORT.to_owned())
}

fn failed(what: &str) -> String {
    format!("{what} failed to encrypt")
}
