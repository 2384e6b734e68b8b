//! etcd's `raftpb` encoding of messages, entries and their contents, written by hand.
//!
//! A protobuf message is a sequence of fields; the tables in [`message`] and [`parts`] give their
//! numbers. Zero fields are left out, as in etcd 3.7 (3.5 and 3.6 write them, which reads the
//! same). Unknown fields are skipped. Reading never panics, and never allocates more than a bounded
//! multiple of its input: byte strings are slices of the input.

mod field;
mod message;
mod parts;

pub use field::Malformed;
pub use message::{decode_message, encode_message, message_size_hint};
pub use parts::{
    decode_conf_change, decode_conf_change_v2, decode_conf_state, decode_entry, decode_hard_state,
    decode_snapshot, encode_conf_change, encode_conf_change_v2, encode_conf_state, encode_entry,
    encode_hard_state, encode_snapshot,
};

#[cfg(test)]
mod tests;
