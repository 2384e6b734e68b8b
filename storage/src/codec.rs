//! Bounded readers and writers for the small formats on disk: little-endian integers, varints,
//! length-prefixed bytes. Reading never panics on any input. Knows nothing of files.

/// The input ends early or has an impossible value at offset `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub at: usize,
    pub what: &'static str,
}

pub type Result<T> = std::result::Result<T, Malformed>;

/// Most bytes that a varint of 64 bits takes.
pub const VARINT_BYTES_MAX: usize = 10;

/// Reads from the front of a slice. After an error nothing has been consumed.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Number of bytes consumed so far.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn remaining(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self.remaining().get(..len);
        let taken = taken.ok_or_else(|| self.malformed("ends early"))?;
        self.at += len;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.remaining().first_chunk::<N>();
        let taken = *taken.ok_or_else(|| self.malformed("ends early"))?;
        self.at += N;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a LEB128 number; refuses one that does not fit into 64 bits.
    pub fn varint(&mut self) -> Result<u64> {
        // Most are small.
        if let Some(byte) = self.remaining().first().filter(|byte| **byte < 0x80) {
            self.at += 1;
            return Ok(u64::from(*byte));
        }
        let mut value = 0u64;
        for (i, byte) in self.remaining().iter().take(VARINT_BYTES_MAX).enumerate() {
            let part = u64::from(byte & 0x7f);
            let shifted = part << (7 * i);
            if shifted >> (7 * i) != part {
                return Err(self.malformed("integer of more than 64 bits"));
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                self.at += i + 1;
                return Ok(value);
            }
        }
        Err(self.malformed("integer without an end"))
    }

    /// Reads a varint length and that many bytes; `max` bounds a damaged length.
    pub fn prefixed(&mut self, max: usize) -> Result<&'a [u8]> {
        let start = *self;
        let taken = self.varint().and_then(|len| match usize::try_from(len) {
            Ok(len) if len <= max => self.bytes(len),
            _ => Err(self.malformed("length above its limit")),
        });
        if taken.is_err() {
            *self = start;
        }
        taken
    }

    /// Refuses trailing bytes.
    pub fn finish(self) -> Result<()> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.malformed("bytes after the end"))
        }
    }

    fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }
}

pub fn put_u8(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; VARINT_BYTES_MAX];
    let len = write_varint(&mut bytes, value);
    out.extend_from_slice(&bytes[..len]);
}

/// Writes LEB128 to the start of `out`; returns its length.
pub fn write_varint(out: &mut [u8], mut value: u64) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        out[len] = value as u8 | 0x80;
        len += 1;
        value >>= 7;
    }
    out[len] = value as u8;
    len + 1
}

/// Bytes of a number as LEB128.
pub fn varint_len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

pub fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
