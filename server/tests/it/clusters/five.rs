//! Five members as real processes. Any two may be down, in whatever order they stop and restart.

use crate::clusters::cluster::{hash, holds, put};
use crate::harness::fleet::{Process, found};

const MEMBERS: usize = 5;
/// Who goes, and in this order who comes back.
const AWAY: [([usize; 2], [usize; 2]); 4] = [
    ([0, 1], [0, 1]),
    ([2, 3], [3, 2]),
    ([4, 0], [0, 4]),
    ([1, 3], [3, 1]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_members_write_on_without_two_and_take_them_back_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = found(env!("CARGO_BIN_EXE_stele"), dir.path(), MEMBERS, &[]);
    let mut written = Vec::new();
    for (round, (gone, back)) in AWAY.into_iter().enumerate() {
        write(&members, &format!("{round}/all"), &[], &mut written).await;
        for victim in gone {
            members[victim].kill();
        }
        write(&members, &format!("{round}/three"), &gone, &mut written).await;
        members[back[0]].start();
        write(&members, &format!("{round}/four"), &[back[1]], &mut written).await;
        members[back[1]].start();
    }
    let mut hashes = Vec::new();
    for member in &members {
        for key in &written {
            assert!(holds(&member.url, key).await, "{key} is lost");
        }
        hashes.push(hash(&member.url).await);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

/// Through every member that is there.
async fn write(members: &[Process], prefix: &str, gone: &[usize], written: &mut Vec<String>) {
    for (at, member) in members.iter().enumerate() {
        if !gone.contains(&at) {
            let key = format!("{prefix}/{at}");
            put(&member.url, &key).await;
            written.push(key);
        }
    }
}
