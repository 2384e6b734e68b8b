use super::*;

const DIR: &str = "data";

fn disk() -> (SimVfs, PathBuf) {
    let vfs = SimVfs::new(1);
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    (vfs, Path::new(DIR).join("f"))
}

#[test]
fn synced_bytes_under_a_synced_name_survive_every_power_cut() {
    let (vfs, path) = disk();
    let file = vfs.open(&path, Open::New).unwrap();
    file.write_at(&[7; 2000], 100).unwrap();
    file.sync_data().unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.write_at(&[9; 700], 1800).unwrap();
    for seed in 0..200 {
        let after = vfs.power_cut(seed).contents(&path).unwrap();
        assert_eq!(after[100..1536], [7; 1436], "seed {seed}");
        assert!(after[1536..2048.min(after.len())].iter().all(|b| *b != 0));
    }
}

#[test]
fn unsynced_blocks_survive_one_by_one_and_never_in_part() {
    let (vfs, path) = disk();
    let file = vfs.open(&path, Open::New).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    file.sync_data().unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.write_at(&[2; 4096], 0).unwrap();
    let (mut some, mut none, mut all) = (false, false, false);
    for seed in 0..200 {
        let after = vfs.power_cut(seed).contents(&path).unwrap();
        let mut kept = 0;
        for block in after.chunks(BLOCK_BYTES) {
            assert!(block.iter().all(|b| *b == block[0]), "seed {seed}");
            kept += usize::from(block[0] == 2);
        }
        some |= (1..8).contains(&kept);
        none |= kept == 0;
        all |= kept == 8;
    }
    assert!(some && none && all);
}

#[test]
fn unsynced_names_may_be_lost_and_a_rename_is_never_seen_half() {
    let (vfs, path) = disk();
    let to = Path::new(DIR).join("g");
    vfs.open(&path, Open::New).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    vfs.rename(&path, &to).unwrap();
    let mut seen = [0, 0];
    for seed in 0..100 {
        let names = vfs.power_cut(seed).list(Path::new(DIR)).unwrap();
        assert_eq!(names.len(), 1, "seed {seed}");
        seen[usize::from(names[0] == "g")] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0);
    vfs.sync_dir(Path::new(DIR)).unwrap();
    for seed in 0..100 {
        assert_eq!(vfs.power_cut(seed).list(Path::new(DIR)).unwrap(), ["g"]);
    }
}

#[test]
fn an_unsynced_length_may_be_the_old_the_new_or_one_between() {
    let (vfs, path) = disk();
    let file = vfs.open(&path, Open::New).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.set_len(10_000).unwrap();
    let lens = (0..100).map(|seed| vfs.power_cut(seed).contents(&path).unwrap().len());
    let lens: std::collections::BTreeSet<usize> = lens.collect();
    assert!(lens.contains(&0) && lens.contains(&10_000) && lens.len() > 5);
}

#[test]
fn after_the_failing_call_everything_fails_until_power_returns() {
    let (vfs, path) = disk();
    let file = vfs.open(&path, Open::New).unwrap();
    vfs.fail_after(1);
    file.write_at(b"x", 0).unwrap();
    assert!(file.sync_data().is_err());
    assert!(file.len().is_err());
    assert!(vfs.open(&path, Open::Existing).is_err());
    vfs.power_cut(0).list(Path::new(DIR)).unwrap();
    assert_eq!(
        vfs.process_killed().contents(&path).as_deref(),
        Some(&b"x"[..])
    );
}

#[test]
fn what_a_failed_sync_left_in_memory_is_read_and_never_on_the_disk_unless_written_again() {
    let (mut kept, mut forgotten, mut written) = (0, 0, 0);
    for seed in 0..50 {
        let vfs = SimVfs::new(seed);
        let path = Path::new("f");
        vfs.install(path, &[1; 8192]);
        let file = vfs.open(path, Open::Existing).unwrap();
        file.write_at(&[2; 4096], 0).unwrap();
        vfs.fail_after(0);
        file.sync_data().unwrap_err();
        let vfs = vfs.process_killed();
        let file = vfs.open(path, Open::Existing).unwrap();
        let on_disk = |vfs: &SimVfs| vfs.power_cut(3).contents(path).unwrap();
        let in_memory = vfs.contents(path).unwrap();
        // Either a sync has nothing left to write, or it writes everything.
        file.sync_data().unwrap();
        let synced = on_disk(&vfs);
        match (in_memory[0], synced == in_memory) {
            (1, _) => forgotten += 1,
            (_, true) => written += 1,
            (_, false) => kept += 1,
        }
        // Writing one byte writes its whole page.
        file.write_at(&[3], 100).unwrap();
        file.sync_data().unwrap();
        assert_eq!(on_disk(&vfs), vfs.contents(path).unwrap());
    }
    assert!(kept > 0 && forgotten > 0 && written > 0);
}

#[test]
fn reads_and_maps_fail_from_the_one_that_was_asked_for_and_writes_do_not() {
    let (vfs, path) = disk();
    let file = vfs.open(&path, Open::New).unwrap();
    file.write_at(b"hello", 0).unwrap();
    let map = file.map(5).unwrap();
    vfs.fail_reads_after(1);
    map.read(0, 5).unwrap();
    assert!(map.read(0, 5).is_err());
    assert!(file.read_at(&mut [0], 0).is_err());
    assert!(file.map(5).is_err());
    file.write_at(b"HELLO", 0).unwrap();
    file.sync_data().unwrap();
    let restarted = vfs.process_killed();
    let file = restarted.open(&path, Open::Existing).unwrap();
    let mut seen = [0; 5];
    file.read_at(&mut seen, 0).unwrap();
    assert_eq!(&seen, b"HELLO");
}

#[test]
fn a_full_disk_takes_what_fits_and_says_so() {
    let (vfs, path) = disk();
    vfs.set_capacity(1000);
    let file = vfs.open(&path, Open::New).unwrap();
    file.write_at(&[1; 800], 0).unwrap();
    let full = file.write_at(&[2; 800], 400).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 1000);
    let full = file.set_len(1001).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    file.set_len(10).unwrap();
}

#[test]
fn a_lock_has_one_holder_and_a_power_cut_frees_it() {
    let (vfs, path) = disk();
    let held = vfs.lock(&path).unwrap();
    assert_eq!(
        vfs.lock(&path).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    vfs.power_cut(3).lock(&path).unwrap();
    drop(held);
    vfs.lock(&path).unwrap();
}

#[test]
fn one_seed_gives_one_image() {
    let (vfs, path) = disk();
    let file = vfs.open(&path, Open::New).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file.write_at(&[3; 9000], 0).unwrap();
    for seed in 0..20 {
        let image = |v: &SimVfs| v.power_cut(seed).contents(&path);
        assert_eq!(image(&vfs), image(&vfs));
    }
}

#[test]
fn what_rots_shows_where_it_is_read_anew_and_not_where_memory_has_it() {
    let (vfs, path) = disk();
    let file = vfs.open(&path, Open::New).unwrap();
    file.write_at(&[1; 3 * 4096], 0).unwrap();
    file.sync_data().unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    let map = file.map(3 * 4096).unwrap();
    assert_eq!(map.read(0, 4096).unwrap()[7], 1);
    file.write_at(&[2; 512], 8192).unwrap();
    for offset in [7, 4096, 8192] {
        assert!(vfs.rot(&path, offset, 4));
    }
    assert!(!vfs.rot(&path, 3 * 4096, 4), "nothing is there");
    // The first page was read before, the second was not, and the third is not synced yet.
    let first = |page: u64, at: usize| map.read(page * 4096, 4096).unwrap()[at];
    assert_eq!((first(0, 7), first(1, 0), first(2, 0)), (1, 5, 2));
    // A read past the map asks the disk.
    let mut byte = [0];
    file.read_at(&mut byte, 7).unwrap();
    assert_eq!(byte, [5]);
    let killed = vfs.process_killed().contents(&path).unwrap();
    assert_eq!((killed[7], killed[4096], killed[8192]), (5, 5, 2));
    // What is written anew is whole again.
    file.sync_data().unwrap();
    for seed in 0..20 {
        let after = vfs.power_cut(seed).contents(&path).unwrap();
        assert_eq!((after[7], after[4096], after[8192]), (5, 5, 2));
    }
    assert_eq!(vfs.on_disk(&path).unwrap()[7], 5);
    assert_eq!(vfs.files(), [(path, 3 * 4096)]);
}
