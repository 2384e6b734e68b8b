//! Files that only the process that writes them can read: temporary storage for incoming data that
//! must be complete before use. Always sealed, whether or not data at rest is. The key is drawn for
//! the file and never written, so a file that a crash leaves behind reveals nothing, and neither do
//! its blocks after it is removed. Knows nothing of the content.
//!
//! Blocks of 4096 bytes, the last one shorter, each behind the tag of its seal. The file is a scope
//! (see `encryption`), the number of a block its position: blocks are sealed in order, each once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cipher::{self, Key, Purpose, Subkey, TAG_BYTES};
use crate::vfs::{File, Open, Vfs};
use crate::{Error, Result};

const BLOCK_BYTES: usize = 4096;
const STORED_BYTES: usize = TAG_BYTES + BLOCK_BYTES;

/// Sealed blocks per write.
const BLOCKS_PER_WRITE: usize = 64;

/// A file being written.
#[derive(Debug)]
pub struct ScratchWriter {
    scratch: Scratch,
    /// The block that is not full yet.
    block: Vec<u8>,
    /// Sealed blocks not yet written.
    sealed: Vec<u8>,
    written: u64,
}

/// A complete file.
#[derive(Debug)]
pub struct Scratch {
    file: Arc<dyn File>,
    path: PathBuf,
    subkey: Subkey,
    /// Length of the content, in bytes.
    len: u64,
}

impl ScratchWriter {
    /// The file must not exist. Its owner removes it: this type keeps no file system.
    pub fn create(vfs: &dyn Vfs, path: &Path) -> Result<ScratchWriter> {
        let draw = || -> std::io::Result<_> { Ok((Key::random()?, cipher::random()?)) };
        let (key, salt) = draw().map_err(Error::io("draw a key for", path))?;
        let file = vfs
            .open(path, Open::New)
            .map_err(Error::io("create", path))?;
        Ok(ScratchWriter {
            scratch: Scratch {
                file,
                path: path.to_owned(),
                subkey: Subkey::derive(&key, Purpose::Scratch, &salt),
                len: 0,
            },
            block: Vec::with_capacity(BLOCK_BYTES),
            sealed: Vec::with_capacity(BLOCKS_PER_WRITE * STORED_BYTES),
            written: 0,
        })
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(part);
            bytes = rest;
            if self.block.len() == BLOCK_BYTES {
                self.seal();
                if self.sealed.len() == BLOCKS_PER_WRITE * STORED_BYTES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Nothing is made durable: a new process could not read it.
    pub fn finish(mut self) -> Result<Scratch> {
        if !self.block.is_empty() {
            self.seal();
        }
        self.flush()?;
        Ok(self.scratch)
    }

    fn seal(&mut self) {
        let position = self.scratch.len / BLOCK_BYTES as u64;
        self.scratch.len += self.block.len() as u64;
        let tag = self.scratch.subkey.seal(position, b"", &mut self.block);
        self.sealed.extend_from_slice(&tag);
        self.sealed.append(&mut self.block);
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.scratch.file.write_at(&self.sealed, self.written);
        written.map_err(Error::io("write", &self.scratch.path))?;
        self.written += self.sealed.len() as u64;
        self.sealed.clear();
        Ok(())
    }
}

#[expect(
    clippy::len_without_is_empty,
    reason = "an empty file is nothing special here"
)]
impl Scratch {
    /// Length of the content, in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Fills all of `buf`, or fails: `UnexpectedEof` past the end, `InvalidData` if the file is not
    /// as it was written.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (mut rest, mut at) = (buf, offset);
        while !rest.is_empty() {
            let (position, from) = (at / BLOCK_BYTES as u64, at as usize % BLOCK_BYTES);
            let mut stored = [0; STORED_BYTES];
            let block = self.open(position, &mut stored)?;
            let count = rest.len().min(block.len() - from);
            let (part, more) = rest.split_at_mut(count);
            part.copy_from_slice(&block[from..from + count]);
            (rest, at) = (more, at + count as u64);
        }
        Ok(())
    }

    fn open<'b>(
        &self,
        position: u64,
        stored: &'b mut [u8; STORED_BYTES],
    ) -> std::io::Result<&'b [u8]> {
        let left = self.len - position * BLOCK_BYTES as u64;
        let stored = &mut stored[..TAG_BYTES + left.min(BLOCK_BYTES as u64) as usize];
        self.file.read_at(stored, position * STORED_BYTES as u64)?;
        let (tag, block) = stored.split_at_mut(TAG_BYTES);
        let tag = (&*tag).try_into().expect("split there");
        if !self.subkey.open(position, b"", tag, block) {
            let at = position * STORED_BYTES as u64;
            let what = format!("{} is damaged at byte {at}", self.path.display());
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
        }
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::SimVfs;

    const PATH: &str = "/scratch";

    /// The same text repeated, written in pieces of all lengths.
    fn written(vfs: &SimVfs, len: usize) -> (Vec<u8>, Scratch) {
        let text = b"a secret that is kept. ";
        let bytes: Vec<u8> = text.iter().copied().cycle().take(len).collect();
        let mut writer = ScratchWriter::create(vfs, Path::new(PATH)).unwrap();
        let (mut rest, mut piece) = (&bytes[..], 1);
        while !rest.is_empty() {
            let (part, more) = rest.split_at(rest.len().min(piece));
            writer.write(part).unwrap();
            (rest, piece) = (more, piece * 3 % 10_007);
        }
        (bytes, writer.finish().unwrap())
    }

    #[test]
    fn what_was_written_is_read_at_any_place_and_not_seen_on_disk() {
        for len in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 700_001] {
            let vfs = SimVfs::new(1);
            let (bytes, scratch) = written(&vfs, len);
            assert_eq!(scratch.len(), len as u64);
            let mut all = vec![0; len];
            scratch.read_at(&mut all, 0).unwrap();
            assert!(all == bytes);
            for from in (0..len).step_by(7_919) {
                let mut part = vec![0; (len - from).min(9_000)];
                scratch.read_at(&mut part, from as u64).unwrap();
                assert!(part == bytes[from..from + part.len()]);
            }
            let error = scratch.read_at(&mut [0; 2], (len as u64).saturating_sub(1));
            assert!(error.is_err());
            let stored = vfs.contents(Path::new(PATH)).unwrap();
            assert!(!stored.windows(6).any(|window| window == b"secret"));
        }
    }

    #[test]
    fn a_changed_or_moved_block_is_not_taken() {
        let vfs = SimVfs::new(1);
        let (_, scratch) = written(&vfs, 10_000);
        let path = Path::new(PATH);
        vfs.flip(path, (STORED_BYTES as u64 + 100) * 8);
        let mut byte = [0];
        scratch.read_at(&mut byte, 4095).unwrap();
        let error = scratch.read_at(&mut byte, 4096).unwrap_err();
        assert_eq!(error.to_string(), "/scratch is damaged at byte 4112");
        let stored = vfs.contents(path).unwrap();
        let (first, rest) = stored.split_at(STORED_BYTES);
        scratch.file.write_at(first, STORED_BYTES as u64).unwrap();
        scratch.file.write_at(&rest[..STORED_BYTES], 0).unwrap();
        assert!(scratch.read_at(&mut byte, 0).is_err());
        assert!(scratch.read_at(&mut byte, 4096).is_err());
    }
}
