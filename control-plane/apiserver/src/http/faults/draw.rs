//! Numbers that look random and depend on nothing but their arguments, on every machine and in
//! every release: a seed that is written down must find the same again.

/// Whether something with this rate happens to the nth request with a key.
pub(super) fn hits(rate: f64, seed: u64, what: &str, key: u64, nth: u64) -> bool {
    // The upper 53 bits are a number in [0, 1) without rounding.
    let share = (number(seed, what, key, nth) >> 11) as f64 / (1_u64 << 53) as f64;
    share < rate
}

/// A number for the nth request with a key.
pub(super) fn number(seed: u64, what: &str, key: u64, nth: u64) -> u64 {
    let what = hash(&[what]);
    mix(mix(mix(mix(seed) ^ what) ^ key) ^ nth)
}

/// A hash of texts (FNV-1a). A byte that no text has ends each of them, so that `ab`, `c` differs
/// from `a`, `bc`.
pub(super) fn hash(texts: &[&str]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    const END: u8 = 0xff;
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([END]));
    let hash = bytes.fold(BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    mix(hash)
}

/// Spreads a difference in any bit over all bits (the step of SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
