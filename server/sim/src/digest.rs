//! Digests of what members hold. 64-bit FNV-1a is enough to tell entries and states of one run
//! apart.

pub(crate) fn of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

pub(crate) fn of_entry(entry: &raft::Entry) -> u64 {
    of(&entry.data) ^ entry.kind as u64
}
