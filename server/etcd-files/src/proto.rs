//! The small part of protobuf that etcd's files need: writing varints and bytes, splitting a
//! message into its fields. Reading never panics.

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Fixed 32 and 64 bits: etcd's files have none that matter.
    Fixed,
}

impl<'a> Value<'a> {
    pub fn varint(self) -> Option<u64> {
        match self {
            Value::Varint(value) => Some(value),
            _ => None,
        }
    }

    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Calls `f` with each field's number and value, in order; `None` if the bytes are not a message or
/// `f` returns `None`.
pub fn fields<'a>(
    mut bytes: &'a [u8],
    mut f: impl FnMut(u64, Value<'a>) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        let tag = take_varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Value::Varint(take_varint(&mut bytes)?),
            1 => take(&mut bytes, 8).map(|_| Value::Fixed)?,
            2 => {
                let len = usize::try_from(take_varint(&mut bytes)?).ok()?;
                Value::Bytes(take(&mut bytes, len)?)
            }
            5 => take(&mut bytes, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        if tag >> 3 == 0 {
            return None;
        }
        f(tag >> 3, value)?;
    }
    Some(())
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An integer field; omitted if it is zero, as in proto3.
pub fn put_int(out: &mut Vec<u8>, field: u8, value: i64) {
    if value != 0 {
        out.push(field << 3);
        // Negative numbers (lease ids may be) take all ten bytes, as in every protobuf int64.
        put_varint(out, value as u64);
    }
}

/// Tag and length of a bytes field; omitted if it is empty.
pub fn put_bytes_head(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push(field << 3 | 2);
        put_varint(out, bytes.len() as u64);
    }
}

/// Bytes of an integer field.
pub fn int_bytes(value: i64) -> usize {
    match value {
        0 => 0,
        value => 1 + varint_bytes(value as u64),
    }
}

/// Bytes of a bytes field of this length.
pub fn field_bytes(length: usize) -> usize {
    match length {
        0 => 0,
        length => 1 + varint_bytes(length as u64) + length,
    }
}

fn varint_bytes(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let mut out = Vec::new();
        put_int(&mut out, 6, -1);
        assert_eq!(out.len(), 11);
        assert_eq!(out.last(), Some(&1));
    }

    #[test]
    fn any_bytes_are_fields_or_none() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = fields(&bytes, |_, _| Some(()));
            Ok(())
        });
    }
}
