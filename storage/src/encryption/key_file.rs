//! The text with the keys: `--encryption-key-file`, or the output of `--encryption-key-command`.
//!
//! One key per line: its id, a number from 1 on, and 32 bytes as 64 hexadecimal digits, as
//! `openssl rand -hex 32` prints them. The first key seals new data; the others open older data.
//! The word `clear` in place of the first key means that new data is not sealed. Empty lines and
//! lines that begin with `#` are ignored.
//!
//! ```text
//! # since May
//! 2 8f1c...
//! 1 03ab...
//! ```

use std::collections::BTreeMap;

use zeroize::Zeroize;

use super::cipher::{KEY_BYTES, Key};
use super::{CLEAR, KEYS_MAX};

/// Keys as they were given. An id means the same key forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// The name of the source, for messages.
    pub(super) name: String,
    /// `CLEAR` for none.
    pub(super) first: u32,
    pub(super) keys: BTreeMap<u32, Key>,
}

impl KeyFile {
    /// Like `parse`, and leaves nothing of the text in memory.
    pub fn take(name: &str, mut text: String) -> Result<KeyFile, String> {
        let parsed = KeyFile::parse(name, &text);
        erase(&mut text);
        parsed
    }

    /// An error names the source and the line, and never contains a part of a key.
    pub fn parse(name: &str, text: &str) -> Result<KeyFile, String> {
        let mut keys = BTreeMap::new();
        let mut first = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |what: &str| format!("{name}, line {number}: {what}");
            if line == "clear" {
                if first.is_some() {
                    return Err(refuse("`clear` is for the place of the first key"));
                }
                first = Some(CLEAR);
                continue;
            }
            let (id, key) = parse_line(line).map_err(refuse)?;
            first = first.or(Some(id));
            if keys.insert(id, key).is_some() {
                return Err(refuse(&format!("there is a key {id} already")));
            }
            if keys.len() > KEYS_MAX {
                return Err(refuse(&format!("more than {KEYS_MAX} keys")));
            }
        }
        match first {
            Some(first) => Ok(KeyFile {
                name: name.to_owned(),
                first,
                keys,
            }),
            None => Err(format!("{name}: no key in it")),
        }
    }
}

pub(super) fn erase(text: &mut String) {
    text.zeroize();
}

fn parse_line(line: &str) -> Result<(u32, Key), &'static str> {
    let (id, digits) = line
        .split_once(char::is_whitespace)
        .ok_or("not an id and a key")?;
    let id = id.parse().ok().filter(|id| *id != CLEAR);
    let id = id.ok_or("an id is a number from 1 to 4294967295")?;
    let digits = digits.trim().as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return Err("a key is 32 bytes, as 64 hexadecimal digits");
    }
    let mut key = Key::blank();
    for (byte, pair) in key.bytes_mut().iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => *byte = (high << 4 | low) as u8,
            _ => return Err("a key is 32 bytes, as 64 hexadecimal digits"),
        }
    }
    Ok((id, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_is_for_new_writes() {
        let (a, b) = ("0a".repeat(32), "B1".repeat(32));
        let text = format!("# keys\n\n 7\t{a}\n2 {b} \n");
        let file = KeyFile::parse("keys", &text).unwrap();
        assert_eq!(file.first, 7);
        assert_eq!(file.keys[&7], Key::of(0x0a));
        assert_eq!(file.keys[&2], Key::of(0xb1));
        let off = KeyFile::parse("keys", &format!("clear\n2 {b}\n")).unwrap();
        assert_eq!((off.first, off.keys.len()), (CLEAR, 1));
    }

    #[test]
    fn a_damaged_file_is_refused_by_line_and_without_its_secrets() {
        let key = "c4".repeat(32);
        let cases = [
            (String::new(), "keys: no key in it"),
            (key.clone(), "keys, line 1: not an id and a key"),
            (
                format!("0 {key}"),
                "keys, line 1: an id is a number from 1 to 4294967295",
            ),
            (
                format!("#\n1 {key}c4"),
                "keys, line 2: a key is 32 bytes, as 64 hexadecimal digits",
            ),
            (
                format!("1 {}x{}", &key[..10], &key[11..]),
                "keys, line 1: a key is 32 bytes, as 64 hexadecimal digits",
            ),
            (
                format!("1 {key}\n1 {key}"),
                "keys, line 2: there is a key 1 already",
            ),
            (
                format!("1 {key}\nclear"),
                "keys, line 2: `clear` is for the place of the first key",
            ),
        ];
        for (text, error) in cases {
            let found = KeyFile::parse("keys", &text).unwrap_err();
            assert_eq!(found, error);
        }
        let shown = format!("{:?}", KeyFile::parse("keys", &format!("1 {key}")).unwrap());
        assert!(!shown.contains("196"), "{shown}");
    }
}
