use super::*;

/// The lists of a file of this length.
const UNITS: u64 = 100;

/// Lists as they are in a file: free extents, then pending ones of the generations.
fn lists(free: &[(u64, u32)], pending: &[(u64, u32, u64)]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for field in [VERSION, free.len() as u32, pending.len() as u32] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.resize(HEADER, 0);
    for (start, units) in free {
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&units.to_le_bytes());
    }
    for (start, units, generation) in pending {
        bytes.extend_from_slice(&start.to_le_bytes());
        bytes.extend_from_slice(&units.to_le_bytes());
        bytes.extend_from_slice(&generation.to_le_bytes());
    }
    bytes
}

/// Where the lists are refused, and why.
fn refused(free: &[(u64, u32)], pending: &[(u64, u32, u64)]) -> (usize, &'static str) {
    Space::load(&lists(free, pending), UNITS).expect_err("damaged lists")
}

#[test]
fn lists_with_a_unit_in_two_places_are_refused() {
    let free = [(10, 5), (20, 5)];
    let pending = [(30, 5, 7), (15, 5, 7), (25, 5, 8)];
    let space = Space::load(&lists(&free, &pending), UNITS).expect("each unit once");
    assert_eq!((space.free_units(), space.free_now()), (25, 10));

    let first = HEADER + free.len() * FREE_BYTES;
    let second = first + PENDING_BYTES;
    assert_eq!(refused(&[(10, 5), (14, 5)], &[]).1, "free extents overlap");
    let overlap = "pending extents overlap";
    assert_eq!(refused(&free, &[(14, 2, 7)]), (first, overlap));
    assert_eq!(refused(&free, &[(18, 3, 7)]), (first, overlap));
    assert_eq!(refused(&free, &[(5, 40, 7)]), (first, overlap));
    assert_eq!(refused(&free, &[(30, 5, 7), (34, 1, 8)]), (second, overlap));
    assert_eq!(refused(&free, &[(34, 1, 7), (30, 5, 8)]), (first, overlap));
}
