//! Whether bytes are what the encoder would write again for the object they decode to.
//!
//! Such bytes can be shown as they are, and fields of them can be read or replaced in place.
//! The walk allocates nothing but for quantities and raw JSON, so it costs a fraction of decoding. It may
//! refuse bytes that would do, never the other way round: whatever it is not sure of, it refuses.

use super::wire::{self, put_varint};
use crate::basics::budget::Budget;
use crate::edit::apply::InOrder;
use crate::schema::zero;
use crate::schema::{Field, Message, Type};
use crate::values::quantity::Quantity;
use crate::values::time::{Timestamp, go_duration, parse_go_duration};

/// The decoder's own bound.
const DEPTH_MAX: usize = super::decode::DEPTH_MAX;

/// The wire types in use.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

/// Whether decoding the message and encoding it again gives these bytes.
pub(super) fn is_canonical(of: &'static Message, bytes: &[u8]) -> bool {
    Walk::default().message(of, bytes, 1).is_some()
}

/// `None` from any step means: not canonical, or not sure.
#[derive(Default)]
struct Walk {
    budget: Budget,
}

impl Walk {
    fn message(&mut self, of: &'static Message, bytes: &[u8], depth: usize) -> Option<()> {
        ensure(depth <= DEPTH_MAX && self.budget.object() && !of.list)?;
        self.fields(of, bytes, depth)
    }

    fn fields(&mut self, of: &'static Message, bytes: &[u8], depth: usize) -> Option<()> {
        let mut rest = Rest(bytes);
        for field in of.wire_fields() {
            self.field(field, &mut rest, depth)?;
        }
        ensure(rest.0.is_empty())
    }

    fn field(&mut self, field: &'static Field, rest: &mut Rest<'_>, depth: usize) -> Option<()> {
        let number = field.number;
        match &field.kind {
            Type::Message(id) if field.inline => {
                ensure(depth < DEPTH_MAX)?;
                self.fields(id.get(), rest.bytes(number)?, depth + 1)
            }
            Type::List(item) => {
                while rest.begins(number, wire_type(item)) {
                    ensure(self.budget.item())?;
                    self.value(item, number, rest, depth)?;
                }
                Some(())
            }
            Type::Map(item) => {
                let mut last = None;
                while rest.begins(number, BYTES) {
                    let mut entry = Rest(rest.bytes(number)?);
                    let key = std::str::from_utf8(entry.bytes(1)?).ok()?;
                    ensure(last.is_none_or(|last| last < key))?;
                    last = Some(key);
                    self.value(item, 2, &mut entry, depth)?;
                    ensure(entry.0.is_empty())?;
                }
                Some(())
            }
            // Of bytes, nothing and empty are different, and only Go knows when it writes which.
            Type::Bytes if rest.begins(number, BYTES) => ensure(!rest.bytes(number)?.is_empty()),
            Type::Bytes => Some(()),
            kind if field.pointer && !rest.begins(number, wire_type(kind)) => Some(()),
            // What is empty inside reads as not set: a pointer to it would not be written again.
            Type::Time | Type::MicroTime | Type::Raw | Type::Fields | Type::Json
                if !field.pointer && rest.peeks_empty(number) =>
            {
                rest.bytes(number).map(drop)
            }
            kind => self.value(kind, number, rest, depth),
        }
    }

    /// One value with its tag, not a list or map.
    fn value(&mut self, kind: &Type, number: u32, rest: &mut Rest<'_>, depth: usize) -> Option<()> {
        match kind {
            Type::String(_) => std::str::from_utf8(rest.bytes(number)?).ok().map(drop),
            Type::Bool => ensure(rest.number(number)? <= 1),
            Type::Int32 => is_int32(rest.number(number)?),
            Type::Int64 => rest.number(number).map(drop),
            Type::Float64 => {
                let value = f64::from_bits(rest.fixed64(number)?);
                ensure(value.is_finite() && !(value == 0.0 && value.is_sign_negative()))
            }
            Type::Bytes => rest.bytes(number).map(drop),
            Type::Message(id) => self.message(id.get(), rest.bytes(number)?, depth + 1),
            kind => special(kind, &mut Rest(rest.bytes(number)?)),
        }
    }
}

/// The types that JSON shows as plain values.
fn special(kind: &Type, rest: &mut Rest<'_>) -> Option<()> {
    match kind {
        Type::Time | Type::MicroTime => {
            let (seconds, nanos) = (rest.number(1)? as i64, rest.number(2)?);
            let nanos = u32::try_from(nanos).ok()?;
            let time = Timestamp { seconds, nanos };
            let whole = match kind {
                Type::Time => nanos == 0,
                _ => nanos % 1000 == 0,
            };
            ensure(whole && super::decode::in_calendar(time))?;
        }
        Type::Duration => {
            let nanos = rest.number(1)? as i64;
            ensure(parse_go_duration(&go_duration(nanos)) == Some(nanos))?;
        }
        Type::Quantity => {
            let text = std::str::from_utf8(rest.bytes(1)?).ok()?;
            ensure(Quantity::parse(text).ok()?.to_string() == text)?;
        }
        Type::IntOrString => {
            let is_text = rest.number(1)?;
            let number = rest.number(2)?;
            let text = std::str::from_utf8(rest.bytes(3)?).ok()?;
            match is_text {
                0 => ensure(text.is_empty()).and_then(|()| is_int32(number))?,
                1 => ensure(number == 0)?,
                _ => return None,
            }
        }
        Type::Raw | Type::Fields | Type::Json => {
            let text = rest.bytes(1)?;
            let value: serde_json::Value = serde_json::from_slice(text).ok()?;
            let written = match kind {
                Type::Fields => serde_json::to_vec(&InOrder(&value)),
                _ => serde_json::to_vec(&value),
            };
            // JSON may leave out what is empty.
            ensure(!zero::is_empty(&value) && written.is_ok_and(|written| written == text))?;
        }
        _ => return None,
    }
    ensure(rest.0.is_empty())
}

/// A negative number has its sign extended.
fn is_int32(number: u64) -> Option<()> {
    ensure(number as i32 as i64 as u64 == number)
}

fn wire_type(kind: &Type) -> u64 {
    match kind {
        Type::Bool | Type::Int32 | Type::Int64 => VARINT,
        Type::Float64 => FIXED64,
        _ => BYTES,
    }
}

fn ensure(holds: bool) -> Option<()> {
    holds.then_some(())
}

/// Bytes not yet looked at. Varints must be as short as can be.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn begins(&self, number: u32, wire_type: u64) -> bool {
        Rest(self.0).varint() == Some(u64::from(number) << 3 | wire_type)
    }

    fn peeks_empty(&self, number: u32) -> bool {
        Rest(self.0).bytes(number).is_some_and(<[u8]>::is_empty)
    }

    fn tag(&mut self, number: u32, wire_type: u64) -> Option<()> {
        ensure(self.varint()? == u64::from(number) << 3 | wire_type)
    }

    fn number(&mut self, number: u32) -> Option<u64> {
        self.tag(number, VARINT)?;
        self.varint()
    }

    fn bytes(&mut self, number: u32) -> Option<&'a [u8]> {
        self.tag(number, BYTES)?;
        let length = usize::try_from(self.varint()?).ok()?;
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn fixed64(&mut self, number: u32) -> Option<u64> {
        self.tag(number, FIXED64)?;
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*taken))
    }

    fn varint(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        if first < 0x80 {
            self.0 = rest;
            return Some(first.into());
        }
        let mut fields = wire::Fields::new(self.0);
        let value = fields.next_varint().ok()??;
        let mut shortest = Vec::new();
        put_varint(&mut shortest, value);
        self.0 = self.0.strip_prefix(shortest.as_slice())?;
        Some(value)
    }
}
