use super::*;
use crate::encryption::sample;
use crate::vfs::sim::SimVfs;

const DIR: &str = "data/log";
const SMALL: Options = Options {
    segment_bytes: 4096,
    seed: 42,
    data_keys: None,
    from: 0,
};

/// A record as appended: kind, index, payload.
type Plain = (u8, u64, Vec<u8>);

const ENTRY: u8 = 1;
const STATE: u8 = 2;

/// The records that a log returned at open.
#[derive(Debug, Default)]
struct Seen {
    appended: Vec<Plain>,
    /// The newest carried record, repeated or not.
    state: Option<Plain>,
    cases: String,
}

fn open(vfs: &SimVfs, options: Options) -> Result<(Wal, Seen)> {
    let mut seen = Seen::default();
    let options = Options {
        data_keys: sample::keys_of(vfs)?,
        ..options
    };
    let (wal, recovery) = Wal::open(
        Arc::new(vfs.clone()),
        Path::new(DIR),
        options,
        &mut |record| {
            let plain = (record.kind, record.index, record.payload.to_vec());
            if record.kind == STATE {
                seen.state = Some(plain.clone());
            }
            if !record.repeated {
                seen.appended.push(plain);
            }
            Ok(())
        },
    )?;
    seen.cases = recovery.removed.into_iter().chain([recovery.end]).collect();
    Ok((wal, seen))
}

pub(super) fn payload(n: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (n * 31 + i) as u8).collect()
}

/// A log's expected content.
#[derive(Debug, Default)]
struct Model {
    appended: Vec<Plain>,
    /// Number of records that were synced.
    synced: usize,
    dropped_before: u64,
}

impl Model {
    fn append(&mut self, wal: &mut Wal, kind: u8, index: u64, payload: Vec<u8>) {
        let (left, right) = payload.split_at(payload.len() / 2);
        match kind {
            STATE => wal.append_carried(kind, index, &[left, right]),
            _ => wal.append(kind, index, &[left, right]),
        }
        self.appended.push((kind, index, payload));
    }

    fn sync(&mut self, wal: &mut Wal) -> Result<()> {
        wal.write()?;
        wal.sync()?;
        self.synced = self.appended.len();
        Ok(())
    }

    /// The log returned a run of the appended records: none invented, none out of order, no synced
    /// one lost. Appended records that did not come back are forgotten.
    fn check(&mut self, seen: &Seen) {
        let first = seen.appended.first();
        let start = match first {
            Some(first) => self.appended.iter().position(|p| p == first),
            None => Some(self.appended.len() - seen.appended.len()),
        };
        let start = start.expect("the first record shown was never appended");
        let end = start + seen.appended.len();
        assert!(end <= self.appended.len(), "more shown than appended");
        assert_eq!(seen.appended, self.appended[start..end]);
        if first.is_some() || self.synced > 0 {
            assert!(end >= self.synced, "{end} shown of {}", self.synced);
        }
        if first.is_none() {
            self.appended.clear();
        } else {
            self.appended.truncate(end);
        }
        let lost = self.appended.iter().take(start);
        for (kind, index, _) in lost {
            assert!(*index < self.dropped_before, "{kind} {index} is missing");
        }
        let state = self.appended.iter().rev().find(|p| p.0 == STATE);
        assert_eq!(seen.state.as_ref(), state);
        self.synced = self.appended.len();
    }
}

/// Appends, syncs, rolls over, drops and prepares, in a fixed order. Stops at the first error.
fn workload(vfs: &SimVfs, model: &mut Model, steps: u64) -> Result<()> {
    let (mut wal, seen) = open(vfs, SMALL)?;
    model.check(&seen);
    for step in 1..=steps {
        let n = model.appended.len() as u64 + 1;
        // Sizes around those of sectors and of a segment, and above.
        let len = [0, 8, 100, 1640, 470, 504, 1700, 3000, 5000, 20][(step % 10) as usize];
        model.append(&mut wal, ENTRY, n, payload(n, len));
        if step % 3 == 0 {
            model.append(&mut wal, STATE, n, payload(n, 16));
        }
        match step % 4 {
            0 => wal.write()?,
            1 => {}
            _ => model.sync(&mut wal)?,
        }
        if step % 5 == 0
            && let Some(job) = wal.prepare_next()
        {
            job.run()?;
        }
        if step % 7 == 0 {
            model.dropped_before = n.saturating_sub(4);
            wal.drop_before(n.saturating_sub(4))?;
        }
        // Some steps later: more may be dropped meanwhile, and still be there in a crash.
        if step % 9 == 0
            && let Some(job) = wal.finish_drop()
        {
            job.run(|| ())?;
        }
    }
    Ok(())
}

/// Opens the log after a crash, checks it, and checks that it accepts new records.
fn check_and_go_on(vfs: &SimVfs, model: &mut Model) {
    let (mut wal, seen) = open(vfs, SMALL).unwrap();
    model.check(&seen);
    for n in 0..3 {
        model.append(&mut wal, ENTRY, 1_000 + n, payload(n, 200));
    }
    model.append(&mut wal, STATE, 1_002, payload(77, 16));
    model.sync(&mut wal).unwrap();
    drop(wal);
    for seed in 0..3 {
        let (_, seen) = open(&vfs.power_cut(seed), SMALL).unwrap();
        model.copy().check(&seen);
    }
}

/// A disk for a sealed log, or for a clear one.
fn disk(seed: u64, sealed: bool) -> SimVfs {
    let vfs = SimVfs::new(seed);
    if sealed {
        sample::give_key(&vfs);
    }
    vfs
}

#[test]
fn any_power_cut_keeps_what_was_synced_and_nothing_that_was_not_appended() {
    cut_at_every_call(false);
}

#[test]
fn any_power_cut_keeps_what_was_synced_of_a_sealed_log() {
    cut_at_every_call(true);
}

fn cut_at_every_call(sealed: bool) {
    let whole = disk(1, sealed);
    let begin = whole.calls();
    workload(&whole, &mut Model::default(), 40).unwrap();
    assert!(whole.calls() > 100);
    let mut cases = std::collections::BTreeMap::new();
    for call in 0..whole.calls() - begin {
        let vfs = disk(call, sealed);
        vfs.fail_after(call);
        let mut model = Model::default();
        workload(&vfs, &mut model, 40).unwrap_err();
        for seed in 0..12 {
            let image = vfs.power_cut(seed);
            for letter in open(&image.power_cut(0), SMALL).unwrap().1.cases.chars() {
                *cases.entry(letter).or_insert(0) += 1;
            }
            check_and_go_on(&image, &mut model.copy());
        }
        check_and_go_on(&vfs.process_killed(), &mut model.copy());
    }
    // The workload meets every case that a power cut can lead to.
    let met: String = cases.keys().collect();
    assert_eq!(met, "ABCDLMQ", "{cases:?}");
}

#[test]
fn a_power_cut_during_recovery_loses_nothing_more() {
    for sealed in [false, true] {
        cut_recovery(sealed);
    }
}

fn cut_recovery(sealed: bool) {
    let whole = disk(1, sealed);
    let begin = whole.calls();
    workload(&whole, &mut Model::default(), 24).unwrap();
    for call in (0..whole.calls() - begin).step_by(3) {
        let vfs = disk(call, sealed);
        vfs.fail_after(call);
        let mut model = Model::default();
        workload(&vfs, &mut model, 24).unwrap_err();
        let first = vfs.power_cut(call);
        for second in 0.. {
            let image = first.power_cut(0);
            image.fail_after(second);
            let mut again = model.copy();
            let done = workload(&image, &mut again, 2).is_ok();
            check_and_go_on(&image.power_cut(second), &mut again);
            if done {
                break;
            }
        }
    }
}

/// The unsynced data stays readable in memory but is not on the disk. The restarted process
/// continues with it, fails, too, and is restarted; then power fails.
#[test]
fn a_restart_after_a_failed_sync_trusts_nothing_that_only_memory_has() {
    for sealed in [false, true] {
        let whole = disk(1, sealed);
        let begin = whole.calls();
        workload(&whole, &mut Model::default(), 24).unwrap();
        for call in (0..whole.calls() - begin).step_by(2) {
            let vfs = disk(call, sealed);
            vfs.fail_after(call);
            let mut model = Model::default();
            workload(&vfs, &mut model, 24).unwrap_err();
            for second in 0.. {
                let image = vfs.process_killed();
                image.fail_after(second);
                let mut again = model.copy();
                let done = workload(&image, &mut again, 3).is_ok();
                check_and_go_on(&image.process_killed(), &mut again.copy());
                check_and_go_on(&image.power_cut(second), &mut again);
                if done {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_log_of_which_any_read_fails_is_refused_and_loses_nothing() {
    let vfs = SimVfs::new(1);
    let mut model = Model::default();
    workload(&vfs, &mut model, 40).unwrap();
    for reads in 0.. {
        let image = vfs.process_killed();
        image.fail_reads_after(reads);
        let refused = open(&image, SMALL).map(|_| ()).err();
        assert!(
            matches!(&refused, None | Some(Error::Io { op: "read", .. })),
            "{refused:?}"
        );
        check_and_go_on(&image.process_killed(), &mut model.copy());
        check_and_go_on(&image.power_cut(reads), &mut model.copy());
        if refused.is_none() {
            assert!(reads > 4, "few reads prove little: {reads}");
            break;
        }
    }
}

#[test]
fn a_full_disk_leaves_what_was_synced() {
    for capacity in (12_000..80_000).step_by(2_500) {
        let vfs = SimVfs::new(1);
        vfs.set_capacity(capacity);
        let mut model = Model::default();
        let stopped = workload_without_drops(&vfs, &mut model);
        assert!(
            matches!(&stopped, Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::StorageFull),
            "{stopped:?}"
        );
        let image = vfs.process_killed();
        image.set_capacity(u64::MAX);
        check_and_go_on(&image, &mut model);
    }
}

fn workload_without_drops(vfs: &SimVfs, model: &mut Model) -> Result<()> {
    let (mut wal, _) = open(vfs, SMALL)?;
    for n in 1..100 {
        model.append(&mut wal, ENTRY, n, payload(n, 900));
        model.sync(&mut wal)?;
    }
    Ok(())
}

impl Model {
    fn copy(&self) -> Model {
        Model {
            appended: self.appended.clone(),
            ..*self
        }
    }
}

#[test]
fn after_a_failure_the_log_refuses_everything() {
    let vfs = SimVfs::new(1);
    let (mut wal, _) = open(&vfs, SMALL).unwrap();
    wal.append(ENTRY, 1, &[b"x"]);
    vfs.fail_after(0);
    wal.write().unwrap_err();
    let refused = wal.sync().unwrap_err().to_string();
    assert!(
        refused.contains("earlier write or sync failed"),
        "{refused}"
    );
    wal.drop_before(1).unwrap_err();
}

#[test]
fn a_log_agrees_with_a_list() {
    arbtest::arbtest(|u| {
        let vfs = SimVfs::new(u.arbitrary()?);
        let mut model = Model::default();
        let (mut wal, _) = open(&vfs, SMALL).unwrap();
        let mut n = 0;
        while !u.is_empty() {
            n += 1;
            match u.int_in_range(0..=15u8)? {
                0..=6 => {
                    let len = u.int_in_range(0..=2000)?;
                    model.append(&mut wal, ENTRY, n, payload(n, len));
                }
                7 => {
                    let len = u.int_in_range(0..=9000)?;
                    model.append(&mut wal, ENTRY, n, payload(n, len));
                }
                8 => model.append(&mut wal, STATE, n, payload(n, 24)),
                9 | 10 => wal.write().unwrap(),
                11 | 12 => model.sync(&mut wal).unwrap(),
                13 => {
                    let before = u.int_in_range(0..=n)?;
                    model.dropped_before = model.dropped_before.max(before);
                    wal.drop_before(before).unwrap();
                    if let Some(job) = wal.prepare_next() {
                        job.run().unwrap();
                    }
                    if let Some(job) = wal.finish_drop().filter(|_| before % 2 == 0) {
                        job.run(|| ()).unwrap();
                    }
                }
                14 => {
                    wal.write().unwrap();
                    drop(wal);
                    let seen;
                    (wal, seen) = open(&vfs, SMALL).unwrap();
                    model.synced = model.appended.len();
                    model.check(&seen);
                }
                _ => {
                    drop(wal);
                    let seen;
                    let image = vfs.power_cut(n);
                    (_, seen) = open(&image, SMALL).unwrap();
                    model.copy().check(&seen);
                    let seen;
                    (wal, seen) = open(&vfs, SMALL).unwrap();
                    model.check(&seen);
                }
            }
        }
        Ok(())
    })
    .budget_ms(3_000);
}

#[test]
fn a_lone_record_lies_in_one_page_of_the_file() {
    let vfs = disk(3, false);
    let options = Options {
        segment_bytes: 1 << 20,
        ..SMALL
    };
    let (mut wal, _) = open(&vfs, options.clone()).unwrap();
    let mut model = Model::default();
    let page = |stream| sector::file_offset(stream) / PAGE_BYTES;
    for index in 1..200 {
        let before = wal.open.back().map_or(0, |tail| tail.framer.len());
        model.append(&mut wal, ENTRY, index, payload(index, 300));
        let after = wal.open.back().unwrap().framer.len();
        assert!(
            index == 1 || page(before) == page(after - 1),
            "record {index}"
        );
        model.sync(&mut wal).unwrap();
    }
    drop(wal);
    let (_, seen) = open(&vfs, options).unwrap();
    assert_eq!(seen.appended, model.appended);
}

#[test]
fn blocks_are_written_ahead_of_single_records_and_not_of_batches_in_small_writes() {
    let written = |records_per_sync: u64| {
        let vfs = disk(4, false);
        let options = Options {
            segment_bytes: 1 << 20,
            ..SMALL
        };
        let (mut wal, _) = open(&vfs, options).unwrap();
        let mut model = Model::default();
        for index in 1..=320 {
            model.append(&mut wal, ENTRY, index, payload(index, 300));
            wal.write().unwrap();
            if index.is_multiple_of(records_per_sync) {
                model.sync(&mut wal).unwrap();
            }
        }
        vfs.written_bytes() as f64 / wal.size_bytes() as f64
    };
    // A sector is written again with each record in it, and pages are filled up before a sync.
    let (single, batches) = (written(1), written(32));
    assert!(batches < 2.5, "{batches}");
    assert!(single > batches + 0.5, "{single}, {batches}");
}

#[test]
fn dropping_keeps_the_directory_small_and_carried_state_alive() {
    let vfs = SimVfs::new(1);
    let (mut wal, _) = open(&vfs, SMALL).unwrap();
    wal.append_carried(STATE, 0, &[b"who I am"]);
    for n in 1..1000 {
        wal.append(ENTRY, n, &[&payload(n, 700)]);
        wal.write().unwrap();
        wal.sync().unwrap();
        if let Some(job) = wal.prepare_next() {
            job.run().unwrap();
        }
        wal.drop_before(n.saturating_sub(5)).unwrap();
        if let Some(job) = wal.finish_drop() {
            job.run(|| ()).unwrap();
        }
        assert!(vfs.list(Path::new(DIR)).unwrap().len() <= 4 + segment::SPARES_MAX);
    }
    drop(wal);
    let (_, seen) = open(&vfs.power_cut(0), SMALL).unwrap();
    let state = seen.state.unwrap();
    assert_eq!((state.1, &state.2[..]), (0, &b"who I am"[..]));
    assert!(seen.appended.iter().any(|p| p.1 == 994) && seen.appended.last().unwrap().1 == 999);
}

/// No write waits for the renames and the syncs of the directory.
#[test]
fn a_drop_leaves_the_disk_to_its_job_and_two_jobs_do_not_disturb_each_other() {
    let vfs = SimVfs::new(1);
    let (mut wal, _) = open(&vfs, SMALL).unwrap();
    let mut model = Model::default();
    let mut jobs = Vec::new();
    for n in 1..100 {
        model.append(&mut wal, ENTRY, n, payload(n, 700));
        model.sync(&mut wal).unwrap();
        let calls = vfs.calls();
        model.dropped_before = n.saturating_sub(5);
        wal.drop_before(model.dropped_before).unwrap();
        jobs.extend(wal.finish_drop());
        assert_eq!(vfs.calls(), calls, "record {n}");
    }
    assert!(wal.older.len() < 4 && jobs.len() > 10);
    // A crash brings them back, which does no harm.
    let (_, seen) = open(&vfs.process_killed(), SMALL).unwrap();
    assert_eq!(seen.appended.len(), 99);
    model.copy().check(&seen);
    std::thread::scope(|scope| {
        for job in jobs {
            scope.spawn(|| job.run(|| ()).unwrap());
        }
    });
    let (_, seen) = open(&vfs.power_cut(1), SMALL).unwrap();
    assert!(seen.appended.len() < 20);
    model.check(&seen);
}

#[test]
fn the_largest_payload_is_carried_by_a_segment_of_its_own() {
    let vfs = SimVfs::new(1);
    let (mut wal, _) = open(&vfs, SMALL).unwrap();
    let large = payload(3, PAYLOAD_BYTES_MAX);
    wal.append(ENTRY, 1, &[b"before"]);
    wal.append(ENTRY, 2, &[&large]);
    wal.append(ENTRY, 3, &[b"after"]);
    wal.write().unwrap();
    wal.sync().unwrap();
    let (_, seen) = open(&vfs.power_cut(1), SMALL).unwrap();
    assert_eq!(seen.appended.len(), 3);
    assert!(seen.appended[1].2 == large);
}

#[test]
fn the_real_file_system_serves_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("member/log");
    let vfs: Arc<dyn Vfs> = Arc::new(crate::vfs::os::OsVfs);
    let options = Options {
        segment_bytes: 1 << 20,
        seed: 1,
        data_keys: None,
        from: 0,
    };
    for round in 0..3u64 {
        let mut count = 0;
        let (mut wal, recovery) = Wal::open(vfs.clone(), &path, options.clone(), &mut |record| {
            count += u64::from(!record.repeated);
            assert_eq!(record.payload, payload(record.index, 10_000));
            Ok(())
        })
        .unwrap();
        assert_eq!((count, recovery.records), (round * 300, round * 300));
        for n in 0..300 {
            wal.append(ENTRY, n, &[&payload(n, 10_000)]);
            if n % 10 == 0 {
                wal.write().unwrap();
                wal.sync().unwrap();
                if let Some(job) = wal.prepare_next() {
                    job.run().unwrap();
                }
            }
        }
        wal.write().unwrap();
        wal.sync().unwrap();
        assert!(wal.size_bytes() > 3_000_000);
    }
}

#[test]
fn carried_state_lost_at_the_head_of_a_segment_is_repeated_before_older_ones_go() {
    let vfs = SimVfs::new(1);
    let (mut wal, _) = open(&vfs, SMALL).unwrap();
    wal.append_carried(STATE, 1, &[b"who I am"]);
    // The fourth entry begins a second segment, which is never synced.
    (1..=4).for_each(|n| wal.append(ENTRY, n, &[&payload(n, 1000)]));
    wal.write().unwrap();
    drop(wal);
    let image = vfs.process_killed();
    let names = image.list(Path::new(DIR)).unwrap();
    let second = names
        .iter()
        .find(|name| name.starts_with("0000000000000002"));
    let second = Path::new(DIR).join(second.unwrap());
    // Only its header survives.
    let mut bytes = image.contents(&second).unwrap();
    bytes[sector::SECTOR_BYTES..].fill(0);
    image.install(&second, &bytes);

    let (mut wal, seen) = open(&image, SMALL).unwrap();
    assert_eq!(seen.appended.len(), 4);
    // No segment may be dropped before the repetition is durable.
    wal.drop_before(100).unwrap();
    assert!(wal.finish_drop().is_none());
    let (_, seen) = open(&image.power_cut(1), SMALL).unwrap();
    assert_eq!(seen.appended.len(), 4);
    wal.append(ENTRY, 4, &[b"again"]);
    wal.write().unwrap();
    wal.sync().unwrap();
    wal.drop_before(100).unwrap();
    wal.finish_drop().unwrap().run(|| ()).unwrap();
    drop(wal);
    let (_, seen) = open(&image.power_cut(2), SMALL).unwrap();
    assert_eq!(seen.appended, [(ENTRY, 4, b"again".to_vec())]);
    assert_eq!(seen.state, Some((STATE, 1, b"who I am".to_vec())));
}

#[test]
fn carried_state_outlives_heads_that_are_torn_one_after_the_other() {
    let vfs = SimVfs::new(1);
    let (mut wal, _) = open(&vfs, SMALL).unwrap();
    // It takes several sectors.
    wal.append_carried(STATE, 1, &[&payload(1, 1200)]);
    (1..=4).for_each(|n| wal.append(ENTRY, n, &[&payload(n, 800)]));
    wal.write().unwrap();
    drop(wal);
    let image = vfs.process_killed();
    let names = image.list(Path::new(DIR)).unwrap();
    let second = names
        .iter()
        .find(|name| name.starts_with("0000000000000002"));
    let second = Path::new(DIR).join(second.unwrap());
    // A gap in the repetition, and a record behind it: nothing can be appended here.
    let mut bytes = image.contents(&second).unwrap();
    bytes[sector::SECTOR_BYTES..2 * sector::SECTOR_BYTES].fill(0);
    image.install(&second, &bytes);

    for seed in 0..30 {
        let mut image = image.power_cut(seed);
        // Each start begins another segment, and loses what of it the power cut takes.
        for again in 0..4 {
            let options = Options { from: 100, ..SMALL };
            let (mut wal, seen) = open(&image, options).unwrap();
            assert_eq!(seen.state, Some((STATE, 1, payload(1, 1200))), "{seed}");
            wal.append(ENTRY, 4, &[b"again"]);
            wal.write().unwrap();
            wal.drop_before(100).unwrap();
            if let Some(job) = wal.finish_drop() {
                job.run(|| ()).unwrap();
            }
            image = image.power_cut(seed + again);
        }
    }
}

#[test]
fn a_disk_full_at_any_call_stops_the_log_at_most_and_loses_nothing_synced() {
    for calls in 0.. {
        let vfs = disk(calls, false);
        vfs.full_after(calls, 1 + calls % 3);
        let mut model = Model::default();
        let done = workload(&vfs, &mut model, 40);
        if let Err(error) = &done {
            assert!(error.is_full(), "full at call {calls}: {error}");
        }
        let times = vfs.times_full();
        check_and_go_on(&vfs.power_cut(calls), &mut model.copy());
        check_and_go_on(&vfs.process_killed(), &mut model.copy());
        if times == 0 {
            done.unwrap();
            assert!(calls > 100);
            return;
        }
    }
}

#[test]
fn a_disk_without_space_for_a_whole_segment_gets_a_shorter_one() {
    let vfs = SimVfs::new(1);
    let options = || Options {
        segment_bytes: 64 << 10,
        ..Options::default()
    };
    let dir = Path::new(DIR);
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let (mut wal, _) = Wal::open(shared.clone(), dir, options(), &mut |_| Ok(())).unwrap();
    let mut write = |n: u64| {
        wal.append(ENTRY, n, &[&[7; 1000]]);
        wal.write()?;
        wal.sync()
    };
    // One segment and less than half of another.
    vfs.set_capacity(90 << 10);
    let last = (1..).find(|n| write(*n).is_err()).unwrap() - 1;
    assert!(last > 50, "{last}");
    let image = vfs.process_killed();
    image.set_capacity(u64::MAX);
    let mut seen = 0;
    Wal::open(Arc::new(image), dir, options(), &mut |record| {
        seen = seen.max(record.index);
        Ok(())
    })
    .unwrap();
    assert!(seen >= last, "{seen} of {last}");
}

/// A log of format 1, whose checksums are CRC-32C.
pub(super) const OLD_SEGMENTS: [(&str, &[u8]); 2] = [
    (
        "0000000000000004-0000000000004000.wal",
        include_bytes!(
            "../../../server/testdata/frozen/format-2/log/0000000000000004-0000000000004000.wal"
        ),
    ),
    (
        "0000000000000005-0000000000004000.wal",
        include_bytes!(
            "../../../server/testdata/frozen/format-2/log/0000000000000005-0000000000004000.wal"
        ),
    ),
];

#[test]
fn an_older_log_is_read_and_goes_on_in_a_segment_of_the_newest_format() {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    for (name, bytes) in OLD_SEGMENTS {
        vfs.install(&Path::new(DIR).join(name), bytes);
    }
    let (mut wal, before) = open(&vfs, SMALL).unwrap();
    assert!(before.appended.len() > 10);
    let last = before.appended.last().unwrap().1;
    for n in 1..=20 {
        wal.append(ENTRY, last + n, &[&payload(n, 300)]);
        wal.write().unwrap();
        wal.sync().unwrap();
    }
    drop(wal);
    let (_, after) = open(&vfs.power_cut(0), SMALL).unwrap();
    assert_eq!(after.appended[..before.appended.len()], before.appended);
    let new: Vec<Plain> = (1..=20)
        .map(|n| (ENTRY, last + n, payload(n, 300)))
        .collect();
    assert_eq!(after.appended[before.appended.len()..], new);
    let versions: Vec<u8> = segments(&vfs).iter().map(|bytes| bytes[8]).collect();
    assert!(versions.starts_with(&[1, 1, 2]), "{versions:?}");
    // The old segments are as they were: nothing was appended to them.
    for (name, bytes) in OLD_SEGMENTS {
        assert_eq!(vfs.contents(&Path::new(DIR).join(name)).unwrap(), bytes);
    }
}

/// The segments' bytes, in order.
fn segments(vfs: &SimVfs) -> Vec<Vec<u8>> {
    let mut names = vfs.list(Path::new(DIR)).unwrap();
    names.retain(|name| name.starts_with('0'));
    names.sort();
    let path = |name: &String| Path::new(DIR).join(name);
    names
        .iter()
        .map(|name| vfs.contents(&path(name)).unwrap())
        .collect()
}
