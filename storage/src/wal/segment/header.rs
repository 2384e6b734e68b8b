//! The header of a segment, in the data part of sector 0 (its crc and tag are the sector's):
//!
//! | offset | size | name         | meaning                                             |
//! |--------|------|--------------|-----------------------------------------------------|
//! | 0      | 8    | magic        | `stelewal`                                          |
//! | 8      | 4    | version      | of the format: 2; 1 is read as well                 |
//! | 12     | 4    | previous_crc | of the last record of the segment before; 0 = none  |
//! | 16     | 8    | sequence     | as in the name                                      |
//! | 24     | 8    | previous_end | where that segment's stream ends                    |
//! | 32     | 8    | highest      | index of any record before this segment             |
//! | 40     | 8    | salt         | random bits of the log's owner                      |
//! | 48     | 4    | key          | id of that its first records are sealed under; 0 = not |
//! | 52     | 24   |              | zero                                                |
//! | 76     |      | zeros        |                                                     |
//!
//! CRC-32 of these 504 bytes (CRC-32C in format 1) is the segment's seed: the checksums of its records start from it.

use crate::codec::Reader;
use crate::wal::record::Checksum;
use crate::wal::sector::DATA_BYTES;

const MAGIC: &[u8; 8] = b"stelewal";
const VERSION: u32 = 2;
/// Of segments whose checksums are CRC-32C.
const VERSION_OF_CRC32C: u32 = 1;
const RESERVED_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wal) struct Header {
    pub(in crate::wal) sequence: u64,
    pub(in crate::wal) previous_crc: u32,
    pub(in crate::wal) previous_end: u64,
    pub(in crate::wal) highest: u64,
    pub(in crate::wal) salt: u64,
    /// Informs people and older programs; only the key records count.
    pub(in crate::wal) key: u32,
    /// Of the records; stored as the version.
    pub(in crate::wal) checksum: Checksum,
}

impl Header {
    pub(in crate::wal) fn encode(&self) -> [u8; DATA_BYTES] {
        let mut out = [0; DATA_BYTES];
        out[..8].copy_from_slice(MAGIC);
        let version = match self.checksum {
            Checksum::Crc32c => VERSION_OF_CRC32C,
            Checksum::Crc32 => VERSION,
        };
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[12..16].copy_from_slice(&self.previous_crc.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.previous_end.to_le_bytes());
        out[32..40].copy_from_slice(&self.highest.to_le_bytes());
        out[40..48].copy_from_slice(&self.salt.to_le_bytes());
        out[48..52].copy_from_slice(&self.key.to_le_bytes());
        out
    }

    /// The error says what is wrong and at which byte.
    pub(in crate::wal) fn decode(data: &[u8]) -> std::result::Result<Header, (usize, String)> {
        let fields = |r: &mut Reader<'_>| {
            let (magic, version) = (r.array::<8>()?, r.u32()?);
            let checksum = if version == VERSION_OF_CRC32C {
                Checksum::Crc32c
            } else {
                Checksum::Crc32
            };
            let header = Header {
                previous_crc: r.u32()?,
                sequence: r.u64()?,
                previous_end: r.u64()?,
                highest: r.u64()?,
                salt: r.u64()?,
                key: r.u32()?,
                checksum,
            };
            Ok((magic, version, header, r.array::<RESERVED_BYTES>()?))
        };
        let (magic, version, header, reserved) = fields(&mut Reader::new(data))
            .map_err(|e: crate::codec::Malformed| (e.at, e.what.to_owned()))?;
        if magic != *MAGIC {
            return Err((0, "not a segment of the log".to_owned()));
        }
        if ![VERSION_OF_CRC32C, VERSION].contains(&version) {
            let what = format!(
                "log format {version}, this program reads {VERSION_OF_CRC32C} and {VERSION}"
            );
            return Err((8, what));
        }
        if reserved != [0; RESERVED_BYTES] {
            return Err((52, "reserved bytes are set".to_owned()));
        }
        Ok(header)
    }

    /// The start value of the checksums of this segment's records.
    pub(in crate::wal) fn seed(&self) -> u32 {
        self.checksum.append(0, &self.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_as_written_and_every_truncation_is_an_error() {
        let header = Header {
            sequence: 7,
            previous_crc: 1,
            previous_end: 2,
            highest: 3,
            salt: 4,
            key: 5,
            checksum: Checksum::Crc32,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for len in 0..76 {
            assert!(Header::decode(&bytes[..len]).is_err());
        }
        let mut newer = bytes;
        newer[8] = 3;
        assert_eq!(Header::decode(&newer).unwrap_err().0, 8);
        let mut sealed = bytes;
        sealed[60] = 1;
        assert_eq!(Header::decode(&sealed).unwrap_err().0, 52);
    }
}
