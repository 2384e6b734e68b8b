use super::changes::{Limits, Records, places_before};
use super::*;

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
    let old = Space::of_lists(&fixed(free, pending), UNITS).expect_err("damaged lists");
    let new = Space::of_lists(&lists(free, pending), UNITS).expect_err("damaged lists");
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
        let space = Space::of_lists(&bytes, UNITS).expect("each unit once");
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
        assert!(Space::of_lists(&whole, 1000).is_ok());
        for len in 0..whole.len() {
            assert!(Space::of_lists(&whole[..len], 1000).is_err(), "{len} bytes");
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
                if let Ok(space) = Space::of_lists(&bytes, 1000) {
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
        let (start, bytes) = space.save(902, u64::MAX);
        assert_eq!(space.lists(0).len(), space.lists_len(), "round {round}");
        let read = Space::of_lists(&bytes, space.units()).expect("as it was saved");
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

/// What a file has of a space, and the pages in it.
struct Saved {
    space: Space,
    records: Vec<(PageRef, Vec<u8>)>,
    used: Vec<PageRef>,
    /// The next checkpoint does without them.
    doomed: Vec<PageRef>,
    generation: u64,
    seed: u64,
}

impl Saved {
    fn random(&mut self, below: u64) -> u64 {
        let seed = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = seed.wrapping_add(1);
        (self.seed >> 33) % below
    }

    fn allocate(&mut self) {
        let units = self.random(5) as u32 + 1;
        let id = self.space.allocate(units);
        self.used.push(PageRef { id, units, crc: 0 });
    }

    fn take(&mut self) -> PageRef {
        let at = self.random(self.used.len() as u64) as usize;
        self.used.swap_remove(at)
    }

    /// A checkpoint that replaces so many pages. Returns the units of its record.
    fn checkpoint(&mut self, pages: usize) -> u64 {
        let kept = self.used.len();
        // Some are spilled before it begins, and some of these taken back.
        for i in 0..pages / 2 {
            self.allocate();
            if i % 3 == 0 {
                let page = self.used.pop().expect("just allocated");
                self.space.give_back(page.id, page.units);
            }
        }
        let mut freed = std::mem::take(&mut self.doomed);
        freed.extend((0..pages).map(|_| self.take()));
        self.generation += 1;
        self.space.settle(self.generation, &freed, &[]);
        while self.used.len() < kept {
            self.allocate();
        }
        // Now and then the disk is full at first.
        if self.generation.is_multiple_of(5) {
            let (id, bytes) = self.space.save(self.generation, u64::MAX);
            self.space.give_back(id, (bytes.len() / UNIT) as u32);
        }
        let (id, bytes) = self.space.save(self.generation, u64::MAX);
        let units = (bytes.len() / UNIT) as u32;
        let place = PageRef { id, units, crc: 7 };
        self.space.saved(place);
        if self.space.records() == [place] {
            self.records.clear();
        }
        self.records.push((place, bytes));
        let before = places_before(&self.records.last().unwrap().1).unwrap();
        assert!(
            before.iter().eq(self
                .records
                .iter()
                .rev()
                .skip(1)
                .rev()
                .map(|(place, _)| place))
        );
        self.space.free_before(self.generation + 1, &[]);
        units.into()
    }

    /// All that is free or older than this checkpoint, and what waits for the next.
    fn content(space: &Space, generation: u64) -> Content {
        let mut all = Space {
            units: space.units,
            ..Space::new()
        };
        let mut waiting = Vec::new();
        for (start, units) in &space.free {
            all.release(*start, *units);
        }
        for pending in &space.pending {
            for (extent, _) in &pending.extents {
                if pending.of == generation {
                    waiting.push((u64::from(extent.units), extent.start));
                } else {
                    all.release(extent.start, extent.units.into());
                }
            }
        }
        let (free, _, _) = content(&all);
        let units = |(units, _): &(u64, u64)| *units;
        let sums = [
            space.units,
            space.free_units,
            waiting.iter().map(units).sum(),
        ];
        let mut units: Vec<u64> = waiting
            .iter()
            .flat_map(|(units, start)| *start..start + units)
            .collect();
        units.sort_unstable();
        let waiting = units.into_iter().map(|start| Extent { start, units: 1 });
        (free, vec![(generation, waiting.collect())], sums)
    }

    fn read(&self) -> Result<Space, (PageRef, Flaw)> {
        Space::load(&self.records, self.space.units, self.generation)
    }

    fn is_read_again(&self) {
        let read = self.read().expect("as it was saved");
        read.check_sums();
        assert_eq!(read.records(), self.space.records());
        let generation = self.generation;
        let (read, kept) = (
            Saved::content(&read, generation),
            Saved::content(&self.space, generation),
        );
        assert_eq!(read, kept);
    }
}

/// A file of which every other page is free.
fn fragmented(pages: usize, seed: u64) -> Saved {
    let mut saved = Saved {
        space: Space::new(),
        records: Vec::new(),
        used: Vec::new(),
        doomed: Vec::new(),
        generation: 0,
        seed,
    };
    (0..pages).for_each(|_| saved.allocate());
    let used = std::mem::take(&mut saved.used);
    let (kept, freed): (Vec<_>, Vec<_>) = used.into_iter().partition(|page| page.id % 2 == 0);
    (saved.used, saved.doomed) = (kept, freed);
    saved.checkpoint(0);
    saved.checkpoint(0);
    saved
}

#[test]
fn what_changed_since_the_lists_is_read_again() {
    for seed in 0..6 {
        let mut saved = fragmented(3000, seed);
        saved.space.limit_records(Limits {
            records: 5,
            part: 4,
            spare: 12,
        });
        let mut longest = 0;
        for round in 0..40 {
            // Now and then the end of the file is cut off.
            if round % 13 == 12 {
                let end = saved.space.units - 200;
                let (kept, freed) = std::mem::take(&mut saved.used)
                    .into_iter()
                    .partition(|page| page.id < end);
                (saved.used, saved.doomed) = (kept, freed);
            }
            let pages = [10, 100, 700][saved.random(3) as usize];
            saved.checkpoint(pages);
            saved.is_read_again();
            longest = longest.max(saved.records.len());
        }
        assert_eq!(longest, 5);
    }
}

#[test]
fn a_checkpoint_of_a_fragmented_file_writes_what_it_changes() {
    let mut saved = fragmented(200_000, 1);
    let lists = saved.space.list_units();
    assert!(lists > 40, "{lists}");
    let mut written = 0;
    for _ in 0..200 {
        written += saved.checkpoint(100);
    }
    saved.is_read_again();
    // Each a unit, and the lists after a quarter of theirs.
    assert!(written < 200 * 6, "{written}");
}

#[test]
fn records_behind_the_new_end_of_the_file_are_written_elsewhere() {
    let mut saved = fragmented(60_000, 1);
    assert_eq!(saved.records.len(), 2);
    let ends = saved.space.records().iter();
    let end = ends.map(|place| place.id + u64::from(place.units)).max();
    let end = end.expect("two records");
    saved.space.move_records_from_behind(end);
    saved.checkpoint(10);
    assert_eq!(saved.records.len(), 3);
    saved.space.move_records_from_behind(end - 1);
    saved.checkpoint(10);
    assert_eq!(saved.records.len(), 1);
}

#[test]
fn a_record_does_not_hold_a_free_end_of_the_file() {
    let mut saved = fragmented(200_000, 1);
    // One behind all that there is.
    let (units, free) = (saved.space.units, std::mem::take(&mut saved.space.free));
    let hints = saved.space.search_from.clone();
    saved.checkpoint(0);
    assert_eq!(saved.records[2].0.id, units);
    saved.space.free = free;
    saved.space.search_from = hints;
    let end = saved.space.units - 500;
    let used = std::mem::take(&mut saved.used).into_iter();
    (saved.used, saved.doomed) = used.partition(|page| page.id + u64::from(page.units) <= end);
    let mut records = Vec::new();
    for _ in 0..5 {
        saved.checkpoint(0);
        saved.is_read_again();
        records.push(saved.records.len());
    }
    // The lists are written once all before the record is free, and lie there themselves.
    assert_eq!(records, [4, 5, 1, 2, 3]);
    let most = end + saved.space.list_units() + 10;
    assert!(saved.space.units <= most, "{}", saved.space.units);
}

#[test]
fn attempts_on_a_full_disk_do_not_make_the_record_longer() {
    let mut saved = fragmented(60_000, 1);
    let units = saved.space.record_units(0);
    for _ in 0..10_000 {
        let id = saved.space.allocate(1);
        saved.space.give_back(id, 1);
    }
    assert_eq!(saved.space.record_units(0), units);
    saved.checkpoint(10);
    assert_eq!(saved.records.len(), 3);
    saved.is_read_again();
}

#[test]
fn records_in_free_space_or_of_another_checkpoint_are_refused() {
    let mut saved = fragmented(60_000, 1);
    saved.checkpoint(10);
    assert_eq!(saved.records.len(), 3);
    let what = |saved: &Saved| saved.read().map(drop).map_err(|(_, (_, what))| what);
    assert_eq!(what(&saved), Ok(()));
    let place = saved.records[1].0;
    let free = saved.space.free.keys().next_back().copied().unwrap();
    for id in [free, saved.records[2].0.id] {
        saved.records[1].0 = PageRef { id, ..place };
        assert_eq!(what(&saved), Err("free list in free space"), "{id}");
    }
    saved.records[1].0 = PageRef { id: 1, ..place };
    assert_eq!(what(&saved), Err("free list outside of the file"));
    saved.records[1].0 = place;
    saved.generation -= 1;
    assert_eq!(what(&saved), Err("given up by a later checkpoint"));
    saved.generation += 1;
    saved.records.swap(1, 2);
    assert!(what(&saved).is_err());
}

/// It is part of the disk format.
#[test]
fn a_record_of_changes_has_this_form() {
    let mut records = Records::default();
    records.limit(Limits {
        records: 5,
        part: 4,
        spare: 2,
    });
    let place = PageRef {
        id: 0x11,
        units: 2,
        crc: 0x3344_5566,
    };
    records.saved(place, 300);
    records.gave_up(Extent { start: 7, units: 3 });
    records.allocated(300, 1);
    records.gave_back(100, 200);
    records.cut(299, 2);
    let mut form = b"StlF\x05\0\0\0\x01\0\0\0\x04\0\0\0".to_vec();
    form.resize(48, 0);
    form.extend_from_slice(b"\x11\0\0\0\0\0\0\0\x02\0\0\0\x66\x55\x44\x33");
    // Generation 5, 300 units; then 7 (+7), 300 (+290), 100 (-201), 299 (-1).
    form.extend_from_slice(b"\x05\xac\x02\x0e\x0c\xc4\x04\x05\x91\x03\xa2\x06\x01\x0b");
    assert_eq!(records.encode(5, 0), Some(form));
}

#[test]
fn the_length_of_a_record_is_known_before_it_is_encoded() {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..200 {
        let mut records = Records::default();
        records.limit(Limits {
            records: 5,
            part: 4,
            spare: 20,
        });
        for _ in 0..=random(3) {
            let place = PageRef {
                id: random(1 << 30),
                units: 1,
                crc: 7,
            };
            records.saved(place, random(1 << 30));
        }
        // Their numbers have any number of bytes.
        for _ in 0..random(300) {
            let start = random(1 << 31) << random(33);
            let units = (random(1 << 31) >> random(31)).max(1) as u32;
            match random(4) {
                0 => records.gave_up(Extent { start, units }),
                1 => records.allocated(start, units),
                2 => records.gave_back(start, units),
                _ => records.cut(start, units),
            }
        }
        let generation = random(1 << 31) << random(33);
        let encoded = records.encode(generation, 0).expect("few changes");
        let len = records.encoded_len(generation);
        assert_eq!(len, encoded.len(), "round {round}");
    }
}

#[test]
fn damaged_changes_end_in_an_error_or_in_another_space_but_never_in_a_panic() {
    let mut saved = fragmented(3000, 1);
    saved.space.limit_records(Limits {
        records: 5,
        part: 4,
        spare: 2,
    });
    saved.checkpoint(10);
    saved.checkpoint(10);
    saved.is_read_again();
    for record in 1..3 {
        let len = saved.records[record]
            .1
            .iter()
            .rposition(|b| *b != 0)
            .unwrap()
            + 1;
        for at in 0..len {
            for flipped in [0x01, 0x02, 0x04, 0x80, 0xff] {
                let mut records = saved.records.clone();
                records[record].1[at] ^= flipped;
                let _ = places_before(&records[record].1);
                if let Ok(space) = Space::load(&records, saved.space.units, saved.generation) {
                    space.check_sums();
                }
            }
        }
        for end in 0..len {
            let mut records = saved.records.clone();
            records[record].1.truncate(end);
            let _ = places_before(&records[record].1);
            assert!(
                Space::load(&records, saved.space.units, saved.generation).is_err(),
                "{end} bytes"
            );
        }
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
        let (_, bytes) = space.save(902, u64::MAX);
        assert_eq!(space.lists_len(), before + 1);
        let read = Space::of_lists(&bytes, space.units()).expect("as it was saved");
        assert_eq!(content(&read), content(&space), "{runs} runs");
    }
}
