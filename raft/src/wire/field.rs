//! Protobuf fields: keys, varints, byte strings. Knows no message.

use std::fmt;

use bytes::Bytes;

/// Why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed raft message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// 64 bits in groups of seven.
const VARINT_BYTES_MAX: usize = 10;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

pub(super) enum Value {
    Number(u64),
    Bytes(Bytes),
    /// Of a wire type that no message here uses.
    Other,
}

impl Value {
    pub(super) fn number(self) -> Result<u64, Malformed> {
        match self {
            Value::Number(number) => Ok(number),
            _ => Err(Malformed("a field that should be a number is not")),
        }
    }

    pub(super) fn bytes(self) -> Result<Bytes, Malformed> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed("a field that should be bytes is not")),
        }
    }
}

/// The fields of one message, in order.
pub(super) struct Fields(Bytes);

impl Fields {
    pub(super) fn of(message: &Bytes) -> Fields {
        Fields(message.clone())
    }

    pub(super) fn next(&mut self) -> Result<Option<(u64, Value)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            VARINT => Value::Number(self.varint()?),
            BYTES => {
                let len = self.varint()?;
                let len = usize::try_from(len).map_err(|_| Malformed("a length is too large"))?;
                Value::Bytes(self.take(len)?)
            }
            FIXED64 => {
                self.take(8)?;
                Value::Other
            }
            FIXED32 => {
                self.take(4)?;
                Value::Other
            }
            _ => return Err(Malformed("unknown wire type")),
        };
        match key >> 3 {
            0 => Err(Malformed("field number 0")),
            number => Ok(Some((number, value))),
        }
    }

    fn take(&mut self, len: usize) -> Result<Bytes, Malformed> {
        if len > self.0.len() {
            return Err(Malformed("cut off"));
        }
        Ok(self.0.split_to(len))
    }

    /// For packed repeated numbers.
    pub(super) fn next_varint(&mut self) -> Result<Option<u64>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for (at, byte) in self.0.iter().take(VARINT_BYTES_MAX).enumerate() {
            let group = u64::from(byte & 0x7f);
            if at == VARINT_BYTES_MAX - 1 && group > 1 {
                return Err(Malformed("a number has more than 64 bits"));
            }
            number |= group << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = self.0.slice(at + 1..);
                return Ok(number);
            }
        }
        if self.0.len() < VARINT_BYTES_MAX {
            return Err(Malformed("cut off"));
        }
        Err(Malformed("a number has more than 64 bits"))
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Left out when zero.
pub(super) fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        put_repeated_number(out, field, number);
    }
}

pub(super) fn put_repeated_number(out: &mut Vec<u8>, field: u64, number: u64) {
    put_varint(out, field << 3 | VARINT);
    put_varint(out, number);
}

/// Left out when empty.
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    if !bytes.is_empty() {
        put_message(out, field, bytes);
    }
}

pub(super) fn put_message(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Like `put_message`, for contents of a known length that `fill` writes in place.
pub(super) fn put_sized(
    out: &mut Vec<u8>,
    field: u64,
    len: usize,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    put_varint(out, field << 3 | BYTES);
    put_varint(out, len as u64);
    let start = out.len();
    fill(out);
    assert_eq!(
        out.len() - start,
        len,
        "the size of field {field} was miscounted"
    );
}

pub(super) fn varint_len(number: u64) -> usize {
    let bits = 64 - (number | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}
