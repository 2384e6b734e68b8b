//! A state in the form that Stele members send each other: rows as stored, read once and loaded as
//! they arrive. etcd's file must be measured before it is written, and must be complete before it
//! is read; here neither side waits.
//!
//! ```text
//! stream   frames; the last one ends with the row "end", and nothing follows
//! frame    payload length u32 | CRC-32C u32 (continues that of the previous frame) | payload
//! payload  complete rows
//! row      kind u8 | fields of that kind:
//!   1 put     main i64 | sub i64 | created i64 | version i64 | lease i64 | key bytes | value bytes
//!   2 delete  main i64 | sub i64 | key bytes
//!   3 side    bucket u8 | key bytes | value bytes
//!   4 end     revision i64 | compacted i64 | applied index u64 | its term u64 | rows so far u64
//! bytes    length u32 | the bytes
//! ```
//! Numbers are little endian. Puts and deletes are in the order of their revisions. Rows made
//! invisible by a compaction are omitted, so in the loaded store the compaction is finished.

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use storage::mvcc::{
    Applied, Bucket, Change, Incoming, Item, Loader, Options, Position, Revision, Root, View,
};
use storage::vfs::Vfs;

use super::{WriteError, scan};

/// The header by which Stele members tell each other, in requests and responses, that they know
/// this form.
pub const HEADER: &str = "X-Stele-Snapshot";
/// The header's value: the form described here.
pub const FORM: &str = "rows-1";

/// A frame is sent when it reaches this size.
const FRAME_BYTES: usize = 32 << 10;
/// Limit for a frame: no row is larger, and a frame of several rows is smaller than two rows.
const FRAME_BYTES_MAX: usize = 512 << 20;
const FRAME_HEAD_BYTES: usize = 8;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const SIDE: u8 = 3;
const END: u8 = 4;

/// All buckets except the keys of leases, which are derived from the keys.
const BUCKETS: [Bucket; 9] = [
    Bucket::Meta,
    Bucket::Lease,
    Bucket::Alarm,
    Bucket::Cluster,
    Bucket::Members,
    Bucket::MembersRemoved,
    Bucket::Auth,
    Bucket::AuthUsers,
    Bucket::AuthRoles,
];

/// Why a stream was refused.
#[derive(Debug)]
pub enum LoadError {
    /// The stream ended early.
    Input(io::Error),
    /// Not a stream that a Stele member sends.
    Damaged(&'static str),
    Storage(storage::Error),
}

impl From<storage::Error> for LoadError {
    fn from(error: storage::Error) -> LoadError {
        LoadError::Storage(error)
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        LoadError::Input(error)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Input(error) => write!(f, "the stream broke off: {error}"),
            LoadError::Damaged(what) => f.write_str(what),
            LoadError::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

/// Writes the whole view with bounded memory; no other work waits.
pub fn write(view: &View, out: &mut dyn Write) -> Result<(), WriteError> {
    let mut frames = Frames::new(out);
    let mut stopped = None;
    view.changes(0, i64::MAX, &mut |change| {
        Ok(match frames.change(&change) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                stopped = Some(error);
                ControlFlow::Break(())
            }
        })
    })?;
    stopped.map_or(Ok(()), Err)?;
    for bucket in BUCKETS {
        scan(view, bucket, &mut |key, value| {
            frames.payload.extend([SIDE, bucket as u8]);
            frames.bytes(key);
            frames.bytes(value);
            Ok(frames.end_row()?)
        })?;
    }
    Ok(frames.finish(view)?)
}

struct Frames<'a> {
    out: &'a mut dyn Write,
    payload: Vec<u8>,
    sum: u32,
    rows: u64,
}

impl<'a> Frames<'a> {
    fn new(out: &'a mut dyn Write) -> Frames<'a> {
        Frames {
            out,
            payload: Vec::with_capacity(FRAME_BYTES * 2),
            sum: 0,
            rows: 0,
        }
    }

    fn number(&mut self, number: i64) {
        self.payload.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.payload.extend((bytes.len() as u32).to_le_bytes());
        self.payload.extend_from_slice(bytes);
    }

    fn change(&mut self, change: &Change<'_>) -> Result<(), WriteError> {
        match change {
            Change::Put { revision, item } => {
                self.payload.push(PUT);
                let create = item.create_revision;
                for number in [
                    revision.main,
                    revision.sub,
                    create,
                    item.version,
                    item.lease,
                ] {
                    self.number(number);
                }
                self.bytes(item.key);
                self.bytes(item.value);
            }
            Change::Delete { revision, key } => {
                self.payload.push(DELETE);
                self.number(revision.main);
                self.number(revision.sub);
                self.bytes(key);
            }
        }
        Ok(self.end_row()?)
    }

    fn end_row(&mut self) -> io::Result<()> {
        self.rows += 1;
        if self.payload.len() >= FRAME_BYTES {
            self.send()
        } else {
            Ok(())
        }
    }

    fn send(&mut self) -> io::Result<()> {
        self.sum = crc32c::crc32c_append(self.sum, &self.payload);
        let length = self.payload.len() as u32;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&self.sum.to_le_bytes())?;
        self.out.write_all(&self.payload)?;
        self.payload.clear();
        Ok(())
    }

    fn finish(mut self, root: &Root) -> io::Result<()> {
        self.payload.push(END);
        let Applied { index, term } = root.applied();
        let (index, term, rows) = (index as i64, term as i64, self.rows as i64);
        for number in [root.revision(), root.compacted(), index, term, rows] {
            self.number(number);
        }
        self.send()
    }
}

/// Fills a new store in `dir`, beside an existing one, from a stream read to its end.
pub fn load(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    options: Options,
    input: &mut dyn Read,
) -> Result<Incoming, LoadError> {
    let mut loader = Loader::create(vfs, dir, options)?;
    let mut frame = Vec::new();
    let (mut sum, mut rows) = (0, 0);
    loop {
        sum = read_frame(input, sum, &mut frame)?;
        let mut rest = Rest(&frame);
        while !rest.0.is_empty() {
            match rest.row()? {
                Row::Change(change) => loader.push(change)?,
                Row::Side(bucket, key, value) => loader.set(bucket, key, value)?,
                Row::End(position, expected) => {
                    if expected != rows || !rest.0.is_empty() || input.read(&mut [0])? != 0 {
                        return Err(LoadError::Damaged("the end is not where it says to be"));
                    }
                    return Ok(loader.finish(position)?);
                }
            }
            rows += 1;
        }
    }
}

/// Returns the frame's checksum, which continues in the next frame.
fn read_frame(input: &mut dyn Read, sum: u32, frame: &mut Vec<u8>) -> Result<u32, LoadError> {
    let mut head = [0; FRAME_HEAD_BYTES];
    input.read_exact(&mut head)?;
    let mut rest = Rest(&head);
    let (length, expected) = (rest.word()? as usize, rest.word()?);
    if length > FRAME_BYTES_MAX {
        return Err(LoadError::Damaged("a frame is too long"));
    }
    frame.clear();
    // Allocates only as bytes arrive, not by the announced length.
    input.take(length as u64).read_to_end(frame)?;
    if frame.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    if crc32c::crc32c_append(sum, frame) == expected {
        Ok(expected)
    } else {
        Err(LoadError::Damaged("a frame's checksum is wrong"))
    }
}

enum Row<'a> {
    Change(Change<'a>),
    Side(Bucket, &'a [u8], &'a [u8]),
    /// The state's position, and the number of rows before this one.
    End(Position, u64),
}

/// The unread rest of a payload.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], LoadError> {
        let split = self.0.split_at_checked(length);
        let (taken, rest) = split.ok_or(LoadError::Damaged("a row goes over its frame's end"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, LoadError> {
        Ok(self.take(1)?[0])
    }

    fn word(&mut self) -> Result<u32, LoadError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("4 bytes")))
    }

    fn number(&mut self) -> Result<i64, LoadError> {
        let bytes = self.take(8)?;
        Ok(i64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    }

    fn bytes(&mut self) -> Result<&'a [u8], LoadError> {
        let length = self.word()? as usize;
        self.take(length)
    }

    fn revision(&mut self) -> Result<Revision, LoadError> {
        let (main, sub) = (self.number()?, self.number()?);
        Ok(Revision { main, sub })
    }

    fn row(&mut self) -> Result<Row<'a>, LoadError> {
        Ok(match self.byte()? {
            PUT => {
                let revision = self.revision()?;
                let item = Item {
                    create_revision: self.number()?,
                    version: self.number()?,
                    lease: self.number()?,
                    mod_revision: revision.main,
                    key: self.bytes()?,
                    value: self.bytes()?,
                };
                Row::Change(Change::Put { revision, item })
            }
            DELETE => Row::Change(Change::Delete {
                revision: self.revision()?,
                key: self.bytes()?,
            }),
            SIDE => {
                let bucket = self.byte()?;
                let bucket = BUCKETS.into_iter().find(|known| *known as u8 == bucket);
                let bucket = bucket.ok_or(LoadError::Damaged("a row of an unknown bucket"))?;
                Row::Side(bucket, self.bytes()?, self.bytes()?)
            }
            END => self.end()?,
            _ => return Err(LoadError::Damaged("a row of an unknown kind")),
        })
    }

    fn end(&mut self) -> Result<Row<'a>, LoadError> {
        let (revision, compacted) = (self.number()?, self.number()?);
        let (index, term) = (self.number()? as u64, self.number()? as u64);
        let position = Position {
            revision,
            compacted,
            removed_through: compacted,
            applied: Applied { index, term },
        };
        Ok(Row::End(position, self.number()? as u64))
    }
}
