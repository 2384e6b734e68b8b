//! The only module of the crate that reads the time or random numbers.
#![expect(
    clippy::disallowed_methods,
    reason = "objects carry the time of their making"
)]

use std::time::SystemTime;

use data_encoding::HEXLOWER;
use machinery::time::Timestamp;

/// Characters of generated names, without vowels so that they form no words.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Number of random characters in a name.
const NAME_LETTERS_COUNT: usize = 5;
/// Longest prefix that is kept: names have at most 63 characters.
const NAME_PREFIX_BYTES_MAX: usize = 63 - NAME_LETTERS_COUNT;

/// The current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}

/// The day of a time, such as `2026-01-31`.
pub(crate) fn day(time: Timestamp) -> String {
    let text = time.to_seconds();
    let (day, _) = text.split_once('T').unwrap_or((&text, ""));
    day.to_owned()
}

/// A random uid (version 4).
pub(crate) fn uid() -> String {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = HEXLOWER.encode(&bytes);
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// A name with this prefix and a random suffix.
pub(crate) fn generated_name(prefix: &str) -> String {
    let mut name: String = prefix.chars().take(NAME_PREFIX_BYTES_MAX).collect();
    for _ in 0..NAME_LETTERS_COUNT {
        name.push(char::from(
            NAME_LETTERS[below(NAME_LETTERS.len() as u64) as usize],
        ));
    }
    name
}

/// A random number below `end`.
pub(crate) fn below(end: u64) -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes) % end.max(1)
}

fn fill(bytes: &mut [u8]) {
    // A system without randomness cannot generate uids at all.
    getrandom::fill(bytes).expect("the system gives random bytes");
}
