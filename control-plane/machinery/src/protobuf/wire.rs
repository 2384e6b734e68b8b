//! The protobuf wire format: tags, varints, lengths, and the envelope around each body. Does not
//! use the table.

use super::{Error, MAGIC};

/// The most bytes that a tag and a length take.
pub(super) const HEAD_BYTES_MAX: usize = 16;

/// One field as it is encoded.
pub(super) enum Raw<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

/// Iterates over the fields of a message.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes }
    }

    /// The next field and its number; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Raw<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| malformed("field number"))?;
        if number == 0 {
            return Err(malformed("field number"));
        }
        let raw = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| malformed("length"))?;
                Raw::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Raw::Fixed32
            }
            _ => return Err(malformed("wire type")),
        };
        Ok(Some((number, raw)))
    }

    /// The bytes after the field that was read last.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next varint of a packed list; `None` at the end.
    pub(super) fn next_varint(&mut self) -> Result<Option<u64>, Error> {
        if self.rest.is_empty() {
            Ok(None)
        } else {
            self.varint().map(Some)
        }
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        for at in 0..10 {
            let byte = *self.rest.get(at).ok_or_else(|| malformed("varint"))?;
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(malformed("varint"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| malformed("length"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| malformed("length"))
    }
}

/// The `runtime.Unknown` around each body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// What stands behind the object: neither a content encoding nor a content type.
    pub(super) const END: &'static [u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

    pub(super) fn read(body: &'a [u8]) -> Result<Envelope<'a>, Error> {
        let Some(body) = body.strip_prefix(&MAGIC) else {
            return Err(Error::new(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            ));
        };
        let mut envelope = Envelope {
            api_version: "",
            kind: "",
            raw: &[],
        };
        let mut fields = Fields::new(body);
        while let Some((number, raw)) = fields.next()? {
            match (number, raw) {
                (1, Raw::Bytes(bytes)) => {
                    let mut of_type = Fields::new(bytes);
                    while let Some((number, raw)) = of_type.next()? {
                        match (number, raw) {
                            (1, Raw::Bytes(text)) => envelope.api_version = utf8(text)?,
                            (2, Raw::Bytes(text)) => envelope.kind = utf8(text)?,
                            _ => {}
                        }
                    }
                }
                (2, Raw::Bytes(bytes)) => envelope.raw = bytes,
                (3, Raw::Bytes(encoding)) if !encoding.is_empty() => {
                    return Err(Error::new("a content encoding is not taken"));
                }
                _ => {}
            }
        }
        Ok(envelope)
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Envelope::open((self.api_version, self.kind), self.raw.len());
        out.extend_from_slice(self.raw);
        out.extend_from_slice(Envelope::END);
        out
    }

    /// The beginning of an envelope, with room for the rest: an object of `length` bytes and
    /// [`Envelope::END`].
    pub(super) fn open((api_version, kind): (&str, &str), length: usize) -> Vec<u8> {
        let mut of_type = Vec::with_capacity(api_version.len() + kind.len() + 2 * HEAD_BYTES_MAX);
        put_bytes(&mut of_type, 1, api_version.as_bytes());
        put_bytes(&mut of_type, 2, kind.as_bytes());
        let around = MAGIC.len() + of_type.len() + 4 * HEAD_BYTES_MAX;
        let mut out = Vec::with_capacity(around + length);
        out.extend_from_slice(&MAGIC);
        put_bytes(&mut out, 1, &of_type);
        put_head(&mut out, 2, length);
        out
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| malformed("text, it is not UTF-8"))
}

pub(super) fn malformed(what: &str) -> Error {
    Error::new(format!("malformed protobuf: {what}"))
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a field with a number.
pub fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Writes a field with 64 bits, such as those of a float.
pub fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a field with bytes: a text or a message.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_head(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// The length of a field with bytes.
pub(super) fn bytes_field_len(number: u32, length: usize) -> usize {
    varint_len(u64::from(number) << 3) + varint_len(length as u64) + length
}

fn put_head(out: &mut Vec<u8>, number: u32, length: usize) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, length as u64);
}

fn varint_len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}
