//! Tree pages under encryption at rest: which part of a page is sealed, and where the seal is
//! stored. The module `encryption` shows why no nonce repeats.
//!
//! Everything behind the header is sealed. The header stays clear and is authenticated, except the
//! tag itself. So is the page's place, as the position in its scope: a page moved elsewhere does
//! not open. The header has the key id at 24, the tag at 40, and the scope's salt: its first 12
//! bytes at 28, its last 4 at 60. In memory all of these are zero, sealed or not.

use std::sync::Arc;

use crate::Result;
use crate::btree::node::page::{HEADER, at, u32_at};
use crate::encryption::decrypted::{DECRYPTED_BYTES, DecryptedPages};
use crate::encryption::{CLEAR, DataKeys, Purpose, SALT_BYTES, Salt, Scope, TAG_BYTES};

const SALT_HEAD: usize = at::TAG - at::NONCE;
const _: () = assert!(SALT_HEAD + (HEADER - at::SPARE) == SALT_BYTES);
const _: () = assert!(at::TAG + TAG_BYTES == at::SKIP);

/// What a page file with keys needs for reading.
#[derive(Debug)]
pub(crate) struct Sealing {
    pub(crate) data_keys: Arc<DataKeys>,
    pub(crate) decrypted: DecryptedPages,
}

impl Sealing {
    pub(crate) fn new(data_keys: Arc<DataKeys>) -> Sealing {
        Sealing {
            data_keys,
            decrypted: DecryptedPages::new(DECRYPTED_BYTES),
        }
    }

    /// Decrypts a sealed page; the error says why it cannot be opened.
    pub(crate) fn open(&self, unit: u64, sealed: &[u8]) -> std::result::Result<Arc<[u8]>, String> {
        let key = key_id(sealed);
        let Some(subkey) = self.data_keys.page_subkey(key, &salt(sealed)) else {
            return Err(format!("sealed under key {key}, which is not at hand"));
        };
        let beside = beside(sealed);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&sealed[at::TAG..at::SKIP]);
        let mut page: Arc<[u8]> = Arc::from(sealed);
        let bytes = Arc::get_mut(&mut page).expect("just made");
        if !subkey.open(unit, &beside, tag, &mut bytes[HEADER..]) {
            return Err(format!("does not open with key {key}"));
        }
        bytes[at::KEY_ID..at::SKIP].fill(0);
        bytes[at::SPARE..HEADER].fill(0);
        Ok(page)
    }
}

/// Seals the pages that one checkpoint, or one spill, writes.
#[derive(Debug)]
pub(crate) struct PageSealer(Scope);

impl PageSealer {
    /// `None` if pages stay clear.
    pub(crate) fn new(sealing: Option<&Sealing>) -> Result<Option<PageSealer>> {
        let scope = sealing
            .map(|s| s.data_keys.scope(Purpose::Page))
            .transpose()?;
        Ok(scope.flatten().map(PageSealer))
    }

    /// At most once for each unit.
    pub(crate) fn seal(&self, unit: u64, page: &mut [u8]) {
        page[at::KEY_ID..at::NONCE].copy_from_slice(&self.0.key.to_le_bytes());
        page[at::NONCE..at::TAG].copy_from_slice(&self.0.salt[..SALT_HEAD]);
        page[at::SPARE..HEADER].copy_from_slice(&self.0.salt[SALT_HEAD..]);
        let beside = beside(page);
        let tag = self.0.subkey.seal(unit, &beside, &mut page[HEADER..]);
        page[at::TAG..at::SKIP].copy_from_slice(&tag);
    }
}

/// The id of the key that seals a page on disk.
#[inline]
pub(crate) fn key_id(page: &[u8]) -> u32 {
    u32_at(page, at::KEY_ID)
}

#[inline]
pub(crate) fn is_sealed(page: &[u8]) -> bool {
    key_id(page) != CLEAR
}

fn salt(page: &[u8]) -> Salt {
    let mut salt = [0; SALT_BYTES];
    salt[..SALT_HEAD].copy_from_slice(&page[at::NONCE..at::TAG]);
    salt[SALT_HEAD..].copy_from_slice(&page[at::SPARE..HEADER]);
    salt
}

/// The header without its tag.
fn beside(page: &[u8]) -> [u8; HEADER - TAG_BYTES] {
    let mut beside = [0; HEADER - TAG_BYTES];
    beside[..at::TAG].copy_from_slice(&page[..at::TAG]);
    beside[at::TAG..].copy_from_slice(&page[at::SKIP..HEADER]);
    beside
}
