use super::*;
use crate::btree::node::page::PageRef;

/// The lists of a file of this length.
const UNITS: u64 = 100;

/// The bytes of extents in lists whose numbers are not varints.
const FIXED_FREE_BYTES: usize = 12;
const FIXED_PENDING_BYTES: usize = 20;

type Free = (u64, u32);
/// With its generation.
type GivenUp = (u64, u32, u64);

fn header(version: u32, free: &[Free], pending: &[GivenUp]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for field in [version, free.len() as u32, pending.len() as u32] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.resize(HEADER, 0);
    bytes
}

/// Lists as they are in a file of an earlier version.
fn fixed(free: &[Free], pending: &[GivenUp]) -> Vec<u8> {
    let mut bytes = header(VERSIONS_OF_FIXED[1], free, pending);
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

/// Lists as they are in a file.
fn lists(free: &[Free], pending: &[GivenUp]) -> Vec<u8> {
    let mut bytes = header(VERSION, free, pending);
    let (mut end, mut before) = (0_u64, 0_u64);
    let extents = free.iter().map(|(start, units)| (*start, *units, None));
    let given_up = pending.iter().map(|(s, n, of)| (*s, *n, Some(*of)));
    for (start, units, generation) in extents.chain(given_up) {
        put_varint(&mut bytes, start.wrapping_sub(end));
        put_varint(&mut bytes, units.into());
        end = start.wrapping_add(units.into());
        if let Some(generation) = generation {
            put_varint(&mut bytes, generation.wrapping_sub(before));
            before = generation;
        }
    }
    bytes
}

/// Where the lists of an earlier version are refused, and why. Those of this one are, too.
fn refused(free: &[Free], pending: &[GivenUp]) -> Flaw {
    let old = Space::load(&fixed(free, pending), UNITS).expect_err("damaged lists");
    let new = Space::load(&lists(free, pending), UNITS).expect_err("damaged lists");
    assert_eq!(old.1, new.1);
    old
}

/// Everything in a space that is saved: what is free, what is pending of each generation, and sums.
type Content = (Vec<(u64, u64)>, Vec<(u64, Vec<Extent>)>, [u64; 3]);

fn content(space: &Space) -> Content {
    let free = space.free.iter().map(|(start, units)| (*start, *units));
    let pending = space.pending.iter().map(|given_up| {
        let extents = given_up.extents.iter().map(|(extent, _)| *extent);
        (given_up.of, extents.collect::<Vec<_>>())
    });
    let sums = [space.units, space.free_units, space.pending_units];
    (free.collect(), pending.collect(), sums)
}

#[test]
fn lists_with_a_unit_in_two_places_are_refused() {
    let free = [(10, 5), (20, 5)];
    let pending = [(30, 5, 7), (15, 5, 7), (25, 5, 8)];
    for bytes in [fixed(&free, &pending), lists(&free, &pending)] {
        let space = Space::load(&bytes, UNITS).expect("each unit once");
        assert_eq!((space.free_units(), space.free_now()), (25, 10));
        space.check_sums();
    }

    let first = HEADER + free.len() * FIXED_FREE_BYTES;
    let second = first + FIXED_PENDING_BYTES;
    assert_eq!(refused(&[(10, 5), (14, 5)], &[]).1, "free extents overlap");
    let overlap = "pending extents overlap";
    assert_eq!(refused(&free, &[(14, 2, 7)]), (first, overlap));
    assert_eq!(refused(&free, &[(18, 3, 7)]), (first, overlap));
    assert_eq!(refused(&free, &[(5, 40, 7)]), (first, overlap));
    assert_eq!(refused(&free, &[(30, 5, 7), (34, 1, 8)]), (second, overlap));
    assert_eq!(refused(&free, &[(34, 1, 7), (30, 5, 8)]), (first, overlap));
    let outside = "free extent outside of the file";
    for extent in [(1, 5), (98, 3), (u64::MAX, 1), (50, 0)] {
        assert_eq!(refused(&[extent], &[]), (HEADER, outside));
    }
    let disorder = "pending extents out of order";
    assert_eq!(refused(&[], &[(30, 5, 7), (40, 1, 6)]).1, disorder);
}

#[test]
fn lists_that_end_early_are_refused_at_each_byte() {
    let (free, pending) = ([(10, 5), (200, 5)], [(300, 5, 700), (250, 5, 900)]);
    for whole in [fixed(&free, &pending), lists(&free, &pending)] {
        assert!(Space::load(&whole, 1000).is_ok());
        for len in 0..whole.len() {
            assert!(Space::load(&whole[..len], 1000).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn damage_of_any_byte_ends_in_an_error_or_in_other_lists_but_never_in_a_panic() {
    let (free, pending) = ([(10, 5), (200, 5)], [(300, 5, 700), (250, 5, 900)]);
    for whole in [fixed(&free, &pending), lists(&free, &pending)] {
        for at in 0..whole.len() {
            for flipped in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flipped;
                if let Ok(space) = Space::load(&bytes, 1000) {
                    space.check_sums();
                }
            }
        }
    }
}

#[test]
fn what_is_saved_is_read_again_and_takes_few_bytes() {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..50 {
        let mut space = Space::new();
        let (mut given_back, mut freed) = (Vec::new(), vec![Vec::new(); 4]);
        for _ in 0..round * round * 2 {
            let units = random(20) as u32 + 1;
            let page = PageRef {
                id: space.allocate(units),
                units,
                crc: 0,
            };
            match random(8) as usize {
                group @ 0..=3 => freed[group].push(page),
                4 | 5 => given_back.push(page),
                _ => {}
            }
        }
        for page in given_back {
            space.give_back(page.id, page.units);
        }
        for (pages, generation) in freed.iter().zip([5, 6, 900, 901]) {
            space.settle(generation, pages, &[1]);
        }
        let (start, bytes) = space.save(u64::MAX);
        assert_eq!(space.lists(0).len(), space.lists_len(), "round {round}");
        let read = Space::load(&bytes, space.units()).expect("as it was saved");
        assert_eq!(content(&read), content(&space), "round {round}");
        read.check_sums();
        let end = start + (bytes.len() / UNIT) as u64;
        let mut extents = read.extents();
        assert!(extents.all(|(first, units)| first + units <= start || end <= first));
        let all = HEADER + read.extents().count() * PENDING_BYTES;
        // The first extent of each generation has a gap of ten bytes.
        let most = all + 5 * VARINT_BYTES_MAX + GROWTH_MAX + UNIT;
        assert!(bytes.len() < most, "{} bytes, {all}", bytes.len());
    }
}

#[test]
fn lists_have_room_for_the_wider_gap_behind_their_own_run() {
    // Among so many are those whose lists fill two units to the last byte.
    for runs in 4060..4080 {
        let mut space = Space::new();
        space.units = 1 << 20;
        for run in 0..runs {
            space.give_back(200 + 4 * run, 1);
        }
        // The only one that is long enough. The gap before it has one byte, and then two.
        space.give_back(200 + 4 * runs + 124, 5000);
        let before = space.lists_len();
        let (_, bytes) = space.save(u64::MAX);
        assert_eq!(space.lists_len(), before + 1);
        let read = Space::load(&bytes, space.units()).expect("as it was saved");
        assert_eq!(content(&read), content(&space), "{runs} runs");
    }
}
