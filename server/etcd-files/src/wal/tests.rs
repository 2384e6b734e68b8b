use super::*;
use crate::proto::{put_bytes_head, put_int, put_varint};

/// Writes segments as etcd does.
#[derive(Default)]
struct Writer {
    segments: Vec<Vec<u8>>,
    crc: u32,
}

impl Writer {
    fn new() -> Writer {
        let mut writer = Writer::default();
        writer.cut();
        writer.numbers(METADATA, &[7, 8]);
        writer.numbers(SNAPSHOT, &[0, 0]);
        writer
    }

    fn cut(&mut self) {
        self.segments.push(Vec::new());
        self.frame(CRC, None);
    }

    fn frame(&mut self, kind: u64, data: Option<&[u8]>) {
        if let Some(data) = data {
            self.crc = crc32c::crc32c_append(self.crc, data);
        }
        let mut record = Vec::new();
        put_int(&mut record, 1, kind as i64);
        put_int(&mut record, 2, i64::from(self.crc));
        if let Some(data) = data {
            put_bytes_head(&mut record, 3, data);
            record.extend_from_slice(data);
        }
        let pad = (8 - record.len() % 8) % 8;
        let mark = if pad > 0 {
            (0x80 | pad as u64) << 56
        } else {
            0
        };
        let segment = self.segments.last_mut().unwrap();
        segment.extend_from_slice(&(record.len() as u64 | mark).to_le_bytes());
        segment.extend_from_slice(&record);
        segment.resize(segment.len() + pad, 0);
    }

    fn numbers(&mut self, kind: u64, numbers: &[u64]) {
        let mut data = Vec::new();
        for (field, number) in (1..).zip(numbers) {
            // With zeros, as etcd before 3.7 writes them.
            data.push(field << 3);
            put_varint(&mut data, *number);
        }
        self.frame(kind, Some(&data));
    }

    fn entry(&mut self, term: u64, index: u64, data: &[u8]) {
        let mut bytes = Vec::new();
        put_int(&mut bytes, 2, term as i64);
        put_int(&mut bytes, 3, index as i64);
        put_bytes_head(&mut bytes, 4, data);
        bytes.extend_from_slice(data);
        self.frame(ENTRY, Some(&bytes));
    }

    fn read(&self, after: u64) -> Result<Log, Error> {
        let mut reader = Reader::new(after);
        for (place, segment) in self.segments.iter().enumerate() {
            let is_last = place + 1 == self.segments.len();
            reader.segment(&format!("{place}.wal"), segment, is_last)?;
        }
        Ok(reader.finish())
    }
}

fn indexes(log: &Log) -> Vec<(u64, u64)> {
    log.entries.iter().map(|e| (e.term, e.index)).collect()
}

fn sample() -> Writer {
    let mut writer = Writer::new();
    for index in 1..=6 {
        writer.entry(2, index, &vec![index as u8; 100 * index as usize]);
    }
    writer.numbers(HARD_STATE, &[2, 7, 5]);
    writer.cut();
    writer.numbers(METADATA, &[7, 8]);
    writer.numbers(HARD_STATE, &[2, 7, 5]);
    writer.entry(3, 5, b"new five");
    writer.entry(3, 6, b"");
    writer.numbers(HARD_STATE, &[3, 7, 6]);
    writer
}

#[test]
fn a_log_of_two_segments_is_read_with_its_tail_replaced() {
    let log = sample().read(3).unwrap();
    assert_eq!(indexes(&log), [(2, 4), (3, 5), (3, 6)]);
    assert_eq!(log.entries[1].data, b"new five");
    assert_eq!((log.term, log.vote, log.commit), (3, 7, 6));
    assert_eq!((log.node_id, log.cluster_id), (7, 8));
    assert_eq!(log.snapshots, [(0, 0)]);
    assert!(!log.torn);
}

#[test]
fn reading_may_begin_with_any_segment() {
    let mut writer = sample();
    writer.segments.remove(0);
    assert_eq!(indexes(&writer.read(4).unwrap()), [(3, 5), (3, 6)]);
}

#[test]
fn entries_before_a_received_snapshot_do_not_count() {
    let mut writer = sample();
    writer.numbers(SNAPSHOT, &[23, 4]);
    writer.entry(4, 24, b"x");
    let log = writer.read(3).unwrap();
    assert_eq!(indexes(&log), [(4, 24)]);
    assert_eq!(log.snapshots, [(0, 0), (23, 4)]);
}

#[test]
fn a_torn_record_ends_the_log_and_only_in_the_last_segment() {
    let whole = sample();
    let mut writer = sample();
    writer.entry(3, 7, &[9; 3000]);
    let full = writer.segments[1].clone();
    let begin = whole.segments[1].len();
    for cut in [begin + 8, begin + 9, full.len() - 1] {
        writer.segments[1] = full[..cut].to_vec();
        let log = writer.read(3).unwrap();
        assert!(log.torn);
        assert_eq!(indexes(&log).len(), 3);
    }
    // A sector that was never written, in a file preallocated with zeros.
    writer.segments[1] = full.clone();
    writer.segments[1].resize(64_000, 0);
    writer.segments[1][begin / 512 * 512 + 1024..][..512].fill(0);
    assert!(writer.read(3).unwrap().torn);
    // The same in an earlier segment is damage.
    writer.cut();
    let error = writer.read(3).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("1.wal (byte {begin}): the checksum does not match")
    );
}

#[test]
fn a_flipped_bit_is_damage() {
    let mut writer = sample();
    let at = writer.segments[0].len() / 2;
    writer.segments[0][at] ^= 1;
    let error = writer.read(0).unwrap_err().to_string();
    assert!(error.starts_with("0.wal (byte "), "{error}");
}

#[test]
fn any_bytes_end_in_a_log_or_an_error() {
    let whole = sample();
    arbtest::arbtest(|u| {
        let mut writer = sample();
        for _ in 0..u.int_in_range(1..=4)? {
            let segment = &mut writer.segments[usize::from(u.ratio(1, 2)?)];
            let at = u.choose_index(segment.len())?;
            segment[at] = u.arbitrary()?;
        }
        let _ = writer.read(0);
        let bytes: Vec<u8> = u.arbitrary()?;
        let _ = Reader::new(0).segment("x", &bytes, true);
        Ok(())
    });
    assert!(whole.read(0).is_ok());
}

#[test]
fn segments_are_chosen_by_the_index_in_their_names() {
    let names: Vec<String> = [
        "0000000000000000-0000000000000000.wal",
        "0000000000000001-000000000000000a.wal",
        "0000000000000002-0000000000000014.wal",
    ]
    .map(str::to_owned)
    .to_vec();
    assert_eq!(segment_name(&names[1]), Some((1, 10)));
    assert_eq!(segment_name("0.tmp"), None);
    assert_eq!(needed(&names, 9).len(), 3);
    assert_eq!(needed(&names, 10).len(), 2);
    assert_eq!(needed(&names, 25).len(), 1);
}
