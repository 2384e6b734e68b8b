//! Numbers that depend on texts alone, so that every run draws the same requests, and a new field
//! or kind leaves what is drawn of the others.

/// Changes what is drawn everywhere.
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;
/// Runs of one character from this length on are written with their length.
const RUN: usize = 50;

/// A number for texts (FNV-1a).
pub(super) fn number(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    let hash = bytes.fold(SEED, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    // The upper bits of FNV hardly depend on the last bytes.
    (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A number from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "32 bits are few enough")]
pub(super) fn fraction(texts: &[&str]) -> f64 {
    (number(texts) >> 32) as f64 / f64::from(u32::MAX)
}

/// A text with its long runs of one character written as `x{300}`.
pub(super) fn short(text: &str) -> String {
    let mut short = String::new();
    let chars: Vec<char> = text.chars().collect();
    for run in chars.chunk_by(|a, b| a == b) {
        match run {
            [char, ..] if run.len() >= RUN => short.push_str(&format!("{char}{{{}}}", run.len())),
            _ => short.extend(run),
        }
    }
    short
}
