//! The wrapped data keys of one data directory, in a separate file. It holds two equal copies of
//! 4096 bytes, so that a rotten sector costs nothing. A rename always replaces the whole file.
//!
//! | offset | size | name | meaning |
//! |---|---|---|---|
//! | 0 | 4 | crc | crc32c of the rest of the copy |
//! | 4 | 8 | magic | `SteleKey` |
//! | 12 | 4 | version | 1 |
//! | 16 | 4 | active | id of the key for new writes; 0: they stay clear |
//! | 20 | 4 | flags | 1: clear pages and records from before may be left |
//! | 24 | 4 | keys | how many |
//! | 28 | 4 | | zero |
//! | 32 | 68 each | key | id `u32`; salt 16, sealed data key 32, tag 16 |
//!
//! A data key is sealed under a key derived from the salt and the key file's key of the same id, at
//! position 0; its id is authenticated.

use std::path::Path;

use super::cipher::{KEY_BYTES, Key, Purpose, SALT_BYTES, Salt, Subkey, TAG_BYTES, random};
use super::{CLEAR, KEYS_MAX};
use crate::atomic_file;
use crate::codec::Reader;
use crate::vfs::{Open, Vfs};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"SteleKey";
const VERSION: u32 = 1;
const COPY_BYTES: usize = 4096;
const COPIES: usize = 2;
const HEADER: usize = 32;
const ENTRY_BYTES: usize = 4 + SALT_BYTES + KEY_BYTES + TAG_BYTES;
const CLEAR_LEFT: u32 = 1;

const _: () = assert!(HEADER + KEYS_MAX * ENTRY_BYTES <= COPY_BYTES);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keyring {
    pub(super) active: u32,
    pub(super) clear_left: bool,
    pub(super) entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u32,
    salt: Salt,
    sealed: [u8; KEY_BYTES],
    tag: [u8; TAG_BYTES],
}

impl Entry {
    /// A new data key, and its wrapped form.
    pub(super) fn make(id: u32, under: &Key) -> std::io::Result<(Entry, Key)> {
        let (data, salt) = (Key::random()?, random()?);
        let mut sealed = *data.bytes();
        let wrapping = Subkey::derive(under, Purpose::Wrapping, &salt);
        let tag = wrapping.seal(0, &id.to_le_bytes(), &mut sealed);
        let entry = Entry {
            id,
            salt,
            sealed,
            tag,
        };
        Ok((entry, data))
    }

    /// `None` if `under` is not the key that wrapped it.
    pub(super) fn unwrap(&self, under: &Key) -> Option<Key> {
        let mut key = Key::blank();
        *key.bytes_mut() = self.sealed;
        let wrapping = Subkey::derive(under, Purpose::Wrapping, &self.salt);
        let beside = self.id.to_le_bytes();
        wrapping
            .open(0, &beside, self.tag, key.bytes_mut())
            .then_some(key)
    }
}

impl Keyring {
    pub(super) fn entry(&self, id: u32) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// True if pages or records may be left that are sealed differently from new ones.
    pub(super) fn is_mixed(&self) -> bool {
        let others = self.entries.iter().any(|entry| entry.id != self.active);
        others || (self.active != CLEAR && self.clear_left)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut copy = vec![0; 4];
        copy.extend_from_slice(&MAGIC);
        let flags = if self.clear_left { CLEAR_LEFT } else { 0 };
        for field in [VERSION, self.active, flags, self.entries.len() as u32, 0] {
            copy.extend_from_slice(&field.to_le_bytes());
        }
        for entry in &self.entries {
            copy.extend_from_slice(&entry.id.to_le_bytes());
            copy.extend_from_slice(&entry.salt);
            copy.extend_from_slice(&entry.sealed);
            copy.extend_from_slice(&entry.tag);
        }
        assert!(copy.len() <= COPY_BYTES, "too many keys");
        copy.resize(COPY_BYTES, 0);
        let crc = crc32c::crc32c(&copy[4..]);
        copy[..4].copy_from_slice(&crc.to_le_bytes());
        copy.repeat(COPIES)
    }

    /// The first good copy; the error is that of the first one.
    pub(super) fn decode(bytes: &[u8]) -> std::result::Result<Keyring, (usize, String)> {
        if bytes.len() != COPIES * COPY_BYTES {
            return Err((bytes.len(), "not as long as a file of keys is".to_owned()));
        }
        let mut copies = bytes.chunks_exact(COPY_BYTES).map(decode_copy);
        let first = copies.next().expect("there are two");
        match first {
            Ok(ring) => Ok(ring),
            Err(error) => copies.find_map(std::result::Result::ok).ok_or(error),
        }
    }

    /// The result is durable, because data will be sealed under its keys. A process killed between
    /// renaming the file and syncing the directory leaves a name that a power cut may take back.
    pub(super) fn read(vfs: &dyn Vfs, path: &Path) -> Result<Option<Keyring>> {
        let dir = path.parent().unwrap_or(Path::new("."));
        if vfs.exists(dir).map_err(Error::io("look for", dir))? {
            atomic_file::sync_name(vfs, path)?;
        }
        if !vfs.exists(path).map_err(Error::io("look for", path))? {
            return Ok(None);
        }
        let file = vfs
            .open(path, Open::Existing)
            .map_err(Error::io("open", path))?;
        let len = file.len().map_err(Error::io("read the length of", path))?;
        let mut bytes = vec![0; len.min((COPIES * COPY_BYTES + 1) as u64) as usize];
        file.read_at(&mut bytes, 0)
            .map_err(Error::io("read", path))?;
        let ring = Keyring::decode(&bytes)
            .map_err(|(offset, what)| Error::corrupt(path, offset as u64, what))?;
        Ok(Some(ring))
    }

    /// Durable on return. A crash leaves the old file or the new one.
    pub(super) fn write(&self, vfs: &dyn Vfs, path: &Path) -> Result<()> {
        atomic_file::write(vfs, path, &self.encode())
    }

    pub(super) fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
        vfs.remove(path).map_err(Error::io("remove", path))?;
        atomic_file::sync_name(vfs, path)
    }
}

fn decode_copy(copy: &[u8]) -> std::result::Result<Keyring, (usize, String)> {
    let mut r = Reader::new(copy);
    let fields = (|| {
        let (crc, magic, version) = (r.u32()?, r.array::<8>()?, r.u32()?);
        Ok((crc, magic, version, r.u32()?, r.u32()?, r.u32()?, r.u32()?))
    })();
    let (crc, magic, version, active, flags, count, _) =
        fields.map_err(|e: crate::codec::Malformed| (e.at, e.what.to_owned()))?;
    if crc != crc32c::crc32c(&copy[4..]) {
        return Err((0, "checksum does not match".to_owned()));
    }
    if magic != MAGIC {
        return Err((4, "not a file of keys".to_owned()));
    }
    if version != VERSION {
        return Err((12, format!("unknown format version {version}")));
    }
    if count as usize > KEYS_MAX || flags > CLEAR_LEFT {
        return Err((20, "impossible header".to_owned()));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let entry = (|| {
            Ok(Entry {
                id: r.u32()?,
                salt: r.array()?,
                sealed: r.array()?,
                tag: r.array()?,
            })
        })();
        entries.push(entry.map_err(|e: crate::codec::Malformed| (e.at, e.what.to_owned()))?);
    }
    let ring = Keyring {
        active,
        clear_left: flags & CLEAR_LEFT != 0,
        entries,
    };
    if active != CLEAR && ring.entry(active).is_none() {
        return Err((16, format!("key {active} is not among them")));
    }
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_reads_as_written_and_survives_any_flipped_bit() {
        let (one, _) = Entry::make(1, &Key::of(1)).unwrap();
        let (two, data) = Entry::make(2, &Key::of(2)).unwrap();
        assert_eq!(two.unwrap(&Key::of(2)), Some(data));
        assert_eq!(two.unwrap(&Key::of(1)), None);
        let ring = Keyring {
            active: 2,
            clear_left: true,
            entries: vec![one, two],
        };
        let mut bytes = ring.encode();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Keyring::decode(&bytes).as_ref(), Ok(&ring), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        bytes[9] ^= 1;
        bytes[COPY_BYTES + 100] ^= 1;
        let error = Keyring::decode(&bytes).unwrap_err();
        assert_eq!(error, (0, "checksum does not match".to_owned()));
        for len in 0..bytes.len() {
            assert!(Keyring::decode(&bytes[..len]).is_err());
        }
    }
}
