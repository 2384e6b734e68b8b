use std::collections::BTreeMap;
use std::io;

use super::read::{Database, Error};
use super::write::{Content, Layout, LengthSink, RowSink};
use super::*;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Buckets in memory.
#[derive(Default)]
struct Model {
    names: Vec<&'static str>,
    rows: BTreeMap<&'static str, Rows>,
}

impl Model {
    fn bucket(&mut self, name: &'static str) -> &mut Rows {
        if let Err(place) = self.names.binary_search(&name) {
            self.names.insert(place, name);
        }
        self.rows.entry(name).or_default()
    }

    fn write(&self) -> Vec<u8> {
        let layout = Layout::of(self).unwrap();
        for knows_all in [true, false] {
            let measured = Measured {
                model: self,
                knows_all,
            };
            assert_eq!(Layout::of(&measured).unwrap(), layout);
        }
        let mut out = Vec::new();
        layout.write(self, &mut out).unwrap();
        assert_eq!(out.len() as u64, layout.file_bytes());
        out
    }
}

impl Content for Model {
    type Error = io::Error;

    fn buckets(&self) -> &[&'static str] {
        &self.names
    }

    fn rows(&self, bucket: &str, row: &mut RowSink<'_, io::Error>) -> io::Result<()> {
        for (key, value) in &self.rows[bucket] {
            let (head, tail) = value.split_at(value.len() / 2);
            row(key, &[head, tail])?;
        }
        Ok(())
    }
}

/// The same buckets, with the lengths of all rows, or of all but the last one of each.
struct Measured<'a> {
    model: &'a Model,
    knows_all: bool,
}

impl Content for Measured<'_> {
    type Error = io::Error;

    fn buckets(&self) -> &[&'static str] {
        self.model.buckets()
    }

    fn rows(&self, bucket: &str, row: &mut RowSink<'_, io::Error>) -> io::Result<()> {
        assert!(!self.knows_all, "lengths are enough to count");
        self.model.rows(bucket, row)
    }

    fn lengths(&self, bucket: &str, row: &mut LengthSink<'_, io::Error>) -> io::Result<bool> {
        let rows = &self.model.rows[bucket];
        let known = rows.len() - usize::from(!self.knows_all && !rows.is_empty());
        for (key, value) in rows.iter().take(known) {
            row(key.len(), value.len())?;
        }
        Ok(self.knows_all)
    }
}

fn read(file: &[u8]) -> Result<BTreeMap<Vec<u8>, Rows>, Error> {
    let database = Database::open(file)?;
    database.check()?;
    let mut found = BTreeMap::new();
    for bucket in database.buckets()? {
        let mut rows = Rows::new();
        database.rows(&bucket, &mut |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            Ok::<(), Error>(())
        })?;
        found.insert(bucket.name, rows);
    }
    Ok(found)
}

fn assert_round_trip(model: &Model) -> Vec<u8> {
    let file = model.write();
    let found = read(&file).unwrap();
    let expected: BTreeMap<Vec<u8>, Rows> = model
        .rows
        .iter()
        .map(|(name, rows)| (name.as_bytes().to_vec(), rows.clone()))
        .collect();
    assert!(found == expected, "what was read is not what was written");
    file
}

fn numbered(count: u32, value_bytes: usize) -> Rows {
    let row = |number: u32| {
        (
            number.to_be_bytes().to_vec(),
            vec![number as u8; value_bytes],
        )
    };
    (0..count).map(row).collect()
}

#[test]
fn a_file_without_buckets_is_read_back() {
    assert_round_trip(&Model::default());
}

#[test]
fn small_buckets_lie_inline_and_large_ones_on_pages() {
    let mut model = Model::default();
    model.bucket("empty");
    *model.bucket("large") = numbered(3000, 100);
    *model.bucket("small") = numbered(3, 10);
    let file = assert_round_trip(&model);
    let used = Database::open(&file[..]).unwrap().used_bytes();
    assert_eq!(used, file.len() as u64);
}

#[test]
fn every_number_of_rows_around_each_page_boundary_is_read_back() {
    // 204 rows of 4 + 0 bytes fill a leaf; the third level begins at about 41,000.
    for count in (0..450).chain(40_500..40_520).chain([41_800, 42_000]) {
        let mut model = Model::default();
        *model.bucket("key") = numbered(count, 0);
        assert_round_trip(&model);
    }
}

#[test]
fn no_branch_has_a_single_child() {
    for count in [205, 206, 400, 41_000, 41_500, 41_616, 41_617, 50_000] {
        let mut model = Model::default();
        *model.bucket("key") = numbered(count, 0);
        let file = model.write();
        for page in file.chunks(PAGE_BYTES).skip(2) {
            let (flags, count) = (page[8], u16::from_le_bytes([page[10], page[11]]));
            assert!(flags != 1 || count >= 2, "a branch of {count}");
        }
    }
}

#[test]
fn two_values_that_each_need_more_than_a_page_share_three() {
    for (count, leaves) in [(1000, 500), (1001, 501)] {
        let mut model = Model::default();
        *model.bucket("key") = numbered(count, PAGE_BYTES);
        let pages = assert_round_trip(&model).len() / PAGE_BYTES;
        // A branch has some 170 of these leaves.
        assert!((3 * leaves..3 * leaves + 10).contains(&pages), "{pages}");
    }
}

#[test]
fn large_keys_and_values_run_over_pages() {
    let mut model = Model::default();
    let bucket = model.bucket("key");
    for number in 0..40u8 {
        bucket.insert(vec![number; 1 + 700 * usize::from(number)], vec![1; 3]);
        bucket.insert(vec![number, 255], vec![number; 4096 * usize::from(number)]);
    }
    assert_round_trip(&model);
}

#[test]
fn content_that_grew_since_it_was_measured_makes_no_longer_file() {
    let with_values_of = |bytes: usize| {
        let mut model = Model::default();
        for key in 0..100_u8 {
            model.bucket("key").insert(vec![key], vec![7; bytes]);
        }
        model
    };
    let (small, large) = (with_values_of(100), with_values_of(10_000));
    let pages = |layout: &Layout| layout.file_bytes() / PAGE_BYTES as u64;
    let changed_into = |model: &Model, layout: &Layout, out: &mut Vec<u8>| {
        let error = layout.write(model, out).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let text = error.to_string();
        let now = text.strip_prefix("the content changed between two readings of it: ");
        now.unwrap().to_owned()
    };
    let layout = Layout::of(&small).unwrap();
    let mut out = Vec::new();
    let now = changed_into(&large, &layout, &mut out);
    assert_eq!(now, format!("more than {} pages", pages(&layout)));
    assert!(out.len() as u64 <= layout.file_bytes(), "{}", out.len());
    let before = Layout::of(&large).unwrap();
    let now = changed_into(&small, &before, &mut Vec::new());
    assert!(
        now.starts_with(&format!("{} pages ", pages(&layout))),
        "{now}"
    );
    assert!(
        now.contains(&format!(" not {} with ", pages(&before))),
        "{now}"
    );
}

#[test]
fn random_buckets_are_read_back() {
    arbtest::arbtest(|u| {
        let mut model = Model::default();
        for name in ["a", "b", "key", "meta"] {
            if u.ratio(2, 3)? {
                let bucket = model.bucket(name);
                let bytes_max = *u.choose(&[3, 300, 9000])?;
                for _ in 0..u.int_in_range(0..=200)? {
                    let key: [u8; 3] = u.arbitrary()?;
                    let len = u.int_in_range(0..=bytes_max)?;
                    bucket.insert(key.to_vec(), vec![key[0]; len]);
                }
            }
        }
        assert_round_trip(&model);
        Ok(())
    });
}

#[test]
fn damage_ends_in_an_error_or_in_the_same_shape_but_never_in_a_panic() {
    let mut model = Model::default();
    *model.bucket("key") = numbered(2000, 30);
    *model.bucket("meta") = numbered(5, 30);
    let file = model.write();
    arbtest::arbtest(|u| {
        let mut damaged = file.clone();
        for _ in 0..u.int_in_range(1..=4)? {
            let at = u.choose_index(damaged.len())?;
            damaged[at] = u.arbitrary()?;
        }
        seal_metas(&mut damaged);
        let len = if u.ratio(1, 4)? {
            u.choose_index(damaged.len())?
        } else {
            damaged.len()
        };
        crate::fuzzing::bbolt_read(&damaged[..len]);
        Ok(())
    });
}

#[test]
fn errors_name_page_and_offset() {
    let mut model = Model::default();
    *model.bucket("key") = numbered(2000, 30);
    let mut file = model.write();
    // The first leaf is page 2; its third entry gets a position far outside.
    let entry = 2 * PAGE_BYTES + HEADER_BYTES + 2 * ELEMENT_BYTES;
    file[entry + 4..entry + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = read(&file).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("page 2 (byte {entry}): an entry that is not within its page")
    );
}

#[test]
fn either_meta_alone_is_enough() {
    let mut model = Model::default();
    *model.bucket("key") = numbered(500, 30);
    let file = model.write();
    for page in [0, 1] {
        let mut torn = file.clone();
        torn[page * PAGE_BYTES + 40] ^= 1;
        assert_eq!(read(&torn).unwrap().len(), 1);
    }
    let mut lost = file.clone();
    lost[40] ^= 1;
    lost[PAGE_BYTES + 40] ^= 1;
    let error = read(&lost).unwrap_err().to_string();
    assert_eq!(error, "page 0 (byte 0): the meta's checksum does not match");
}

#[test]
fn a_page_used_twice_is_found() {
    let mut model = Model::default();
    *model.bucket("key") = numbered(500, 30);
    let mut file = model.write();
    let branch = file
        .chunks(PAGE_BYTES)
        .position(|page| page[8] == 1)
        .unwrap();
    let child = branch * PAGE_BYTES + HEADER_BYTES + ELEMENT_BYTES + 8;
    file[child..child + 8].copy_from_slice(&2u64.to_le_bytes());
    let error = read(&file).unwrap_err().to_string();
    assert_eq!(error, "page 2 (byte 8192): it is used twice");
}
