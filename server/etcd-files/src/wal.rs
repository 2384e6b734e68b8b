//! Reading etcd's write-ahead log: the segments of `member/wal`, oldest first.
//!
//! ```text
//! segment name  sequence %016x - first raft index %016x .wal
//! frame         length u64 (low 56 bits; top bit: bits 56..58 count pad bytes) | record | pad to 8
//! record        protobuf: type = 1, crc = 2, data = 3
//! ```
//! | type | data |
//! |---|---|
//! | 1 metadata | node id, cluster id |
//! | 2 entry | term, index, kind, data |
//! | 3 hard state | term, vote, commit |
//! | 4 crc | none: its crc is the running sum so far, with which a segment begins |
//! | 5 snapshot | index, term |
//!
//! The crc of a record is CRC32C over the data of all records up to and including it, through all
//! segments. Lengths are little endian. A torn record (only possible in the last segment) ends the
//! log; any other record that does not verify is damage.

use std::fmt;

use crate::proto;

#[cfg(test)]
mod tests;

const FRAME_HEAD_BYTES: usize = 8;
const LENGTH_MASK: u64 = (1 << 56) - 1;
/// The unit that a disk writes as a whole: a torn record has one of these in zeros.
const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub segment: String,
    pub offset: u64,
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {}): {}", self.segment, self.offset, self.what)
    }
}

impl std::error::Error for Error {}

/// The content of a log that was read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub node_id: u64,
    pub cluster_id: u64,
    pub term: u64,
    pub vote: u64,
    pub commit: u64,
    /// Index and term of each snapshot recorded, in order.
    pub snapshots: Vec<(u64, u64)>,
    /// The entries after the requested index, consecutive.
    pub entries: Vec<Entry>,
    /// The last record was torn and left out.
    pub torn: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub term: u64,
    pub index: u64,
    pub kind: u64,
    pub data: Vec<u8>,
}

impl Entry {
    pub const NORMAL: u64 = 0;
    pub const CONF_CHANGE: u64 = 1;
}

/// Sequence and first index in a segment's name; `None` for any other file.
pub fn segment_name(name: &str) -> Option<(u64, u64)> {
    let (sequence, index) = name.strip_suffix(".wal")?.split_once('-')?;
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    Some((hex(sequence)?, hex(index)?))
}

/// The segments, of those sorted by name, that hold the entries after `index`.
pub fn needed(names: &[String], index: u64) -> &[String] {
    let begins = |name: &String| segment_name(name).is_some_and(|(_, first)| first <= index);
    let first = names.iter().rposition(begins).unwrap_or(0);
    &names[first..]
}

/// Reads segments one by one.
#[derive(Debug)]
pub struct Reader {
    log: Log,
    /// Entries up to this index are not kept.
    after: u64,
    /// `None` before the first record.
    crc: Option<u32>,
}

impl Reader {
    /// Keeps the entries after `index`.
    pub fn new(index: u64) -> Reader {
        Reader {
            log: Log::default(),
            after: index,
            crc: None,
        }
    }

    /// Reads one whole segment; `is_last` if none comes after it.
    pub fn segment(&mut self, name: &str, bytes: &[u8], is_last: bool) -> Result<(), Error> {
        let mut at = 0;
        while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let head = u64::from_le_bytes(*head);
            if head == 0 {
                break;
            }
            let pad = if head >> 63 == 1 { head >> 56 & 7 } else { 0 };
            let len = (head & LENGTH_MASK).saturating_add(pad);
            let start = at + FRAME_HEAD_BYTES;
            let frame = usize::try_from(len)
                .ok()
                .and_then(|len| bytes.get(start..)?.get(..len));
            let taken = match frame {
                Some(frame) => self.record(&frame[..frame.len() - pad as usize]),
                None => Err("a record runs over the end".to_owned()),
            };
            if let Err(what) = taken {
                let torn = frame.is_none_or(|frame| has_empty_sector(frame, start));
                if is_last && torn {
                    self.log.torn = true;
                    break;
                }
                return Err(Error {
                    segment: name.to_owned(),
                    offset: at as u64,
                    what,
                });
            }
            at = start + len as usize;
        }
        Ok(())
    }

    pub fn finish(self) -> Log {
        self.log
    }

    fn record(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (mut kind, mut crc, mut data) = (0, 0, &[][..]);
        let parsed = proto::fields(bytes, |field, value| {
            match field {
                1 => kind = value.varint()?,
                2 => crc = value.varint()? as u32,
                3 => data = value.bytes()?,
                _ => {}
            }
            Some(())
        });
        parsed.ok_or("not a record")?;
        if kind == CRC {
            if self.crc.is_some_and(|sum| sum != 0 && sum != crc) {
                return Err("the segment does not continue the one before".into());
            }
            self.crc = Some(crc);
            return Ok(());
        }
        let sum = crc32c::crc32c_append(self.crc.unwrap_or_default(), data);
        if sum != crc {
            return Err("the checksum does not match".into());
        }
        self.crc = Some(sum);
        self.take(kind, data)
            .ok_or_else(|| format!("a damaged record of type {kind}"))
    }

    fn take(&mut self, kind: u64, data: &[u8]) -> Option<()> {
        match kind {
            METADATA => [self.log.node_id, self.log.cluster_id] = numbers(data)?,
            HARD_STATE => {
                [self.log.term, self.log.vote, self.log.commit] = numbers(data)?;
            }
            SNAPSHOT => {
                let [index, term] = numbers(data)?;
                self.log.snapshots.push((index, term));
            }
            ENTRY => self.entry(parse_entry(data)?),
            _ => return None,
        }
        Some(())
    }

    /// An entry replaces all at its index and after. After a snapshot, indexes may jump ahead.
    fn entry(&mut self, entry: Entry) {
        let entries = &mut self.log.entries;
        while entries.last().is_some_and(|last| last.index >= entry.index) {
            entries.pop();
        }
        if entries
            .last()
            .is_some_and(|last| last.index + 1 != entry.index)
        {
            entries.clear();
        }
        if entry.index > self.after {
            entries.push(entry);
        }
    }
}

const METADATA: u64 = 1;
const ENTRY: u64 = 2;
const HARD_STATE: u64 = 3;
const CRC: u64 = 4;
const SNAPSHOT: u64 = 5;

/// The first `N` fields of a message as numbers; absent ones are zero, others are skipped.
fn numbers<const N: usize>(data: &[u8]) -> Option<[u64; N]> {
    let mut found = [0; N];
    proto::fields(data, |field, value| {
        if let Some(place) = usize::try_from(field - 1)
            .ok()
            .and_then(|at| found.get_mut(at))
        {
            *place = value.varint()?;
        }
        Some(())
    })?;
    Some(found)
}

fn parse_entry(data: &[u8]) -> Option<Entry> {
    let mut entry = Entry::default();
    proto::fields(data, |field, value| {
        match field {
            1 => entry.kind = value.varint()?,
            2 => entry.term = value.varint()?,
            3 => entry.index = value.varint()?,
            4 => entry.data = value.bytes()?.to_vec(),
            _ => {}
        }
        Some(())
    })?;
    Some(entry)
}

/// `start` is the offset of the bytes in the file.
fn has_empty_sector(mut bytes: &[u8], start: usize) -> bool {
    let mut left = SECTOR_BYTES - start % SECTOR_BYTES;
    while !bytes.is_empty() {
        let (sector, rest) = bytes.split_at(left.min(bytes.len()));
        if sector.iter().all(|byte| *byte == 0) {
            return true;
        }
        (bytes, left) = (rest, SECTOR_BYTES);
    }
    false
}
