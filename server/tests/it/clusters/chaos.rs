//! Three members as real processes, with clients and watchers on all of them, under every fault
//! that can be caused from outside. Afterwards no acknowledged write is missing, all members hold
//! the same data, the answers are linearizable, and every watcher has received every event once.
//!
//! `STELE_CHAOS_SECONDS` sets the duration, `STELE_CHAOS_SEED` the faults and their order. The
//! timing of the processes is not deterministic.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes makes their directories"
)]

mod clients;
mod nemesis;
mod watchers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clients::{Common, Log};
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use nemesis::{FAULTS, Fault, Nemesis};
use testkit::disk::Disk;
use testkit::linearizability;
use testkit::mesh::Mesh;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use watchers::{Event, Heard, Watcher};

use crate::clusters::cluster::{ask, put};
use crate::harness::fleet::{PATIENCE, Process, put_behind, start_all};
use crate::harness::rng::Rng;
use crate::harness::subject;

const MEMBERS: usize = 3;
const ON_SMALL_DISK: usize = 2;
/// Room for the log's segments, the pages, and some.
const SMALL_DISK_BYTES: u64 = 400 << 20;
const CLIENTS: usize = 6;
const SECONDS: u64 = 20;
/// Half of them stay with a member.
const WATCHERS: usize = 2 * MEMBERS;
const COMPACT_EVERY: Duration = Duration::from_secs(4);
/// A member that was away needs more than memory holds sooner than by default.
const FLAGS: [&str; 1] = ["--snapshot-catchup-entries=200"];

/// Nothing of the log is kept for members that are away: they get snapshots.
const FORGETFUL: [&str; 2] = ["--snapshot-catchup-entries=200", "--wal-keep-bytes=0"];
/// Longer than the log is kept for a silent member: two election timeouts, after one for another
/// leader if it was the leader.
const AWAY: Duration = Duration::from_secs(4);
/// More than memory keeps under [`FORGETFUL`].
const WRITTEN_MEANWHILE: usize = 300;
/// If that was too short on a busy machine: so often, longer each time.
const ABSENCES_MAX: u32 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_befalls_members_nothing_acknowledged_is_lost_and_all_promises_hold() {
    endure(&FLAGS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_without_old_log_get_snapshots_and_all_promises_hold() {
    endure(&FORGETFUL).await;
}

async fn endure(flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(subject::number("STELE_CHAOS_SEED", 1));
    let seconds = Duration::from_secs(subject::number("STELE_CHAOS_SECONDS", SECONDS));
    let mut nemesis = found(dir.path(), flags, Rng::new(rng.next()));
    let urls: Vec<String> = nemesis.members.iter().map(|m| m.url.clone()).collect();
    put(&urls[0], "1").await;
    let common = Arc::new(Common {
        urls: urls.clone(),
        began: Instant::now(),
        stop: AtomicBool::new(false),
        values: AtomicU32::new(0),
    });
    let (last, watching) = watch(&urls, &mut rng);
    let clients: Vec<JoinHandle<Log>> = (0..CLIENTS)
        .map(|number| {
            let rng = Rng::new(rng.next());
            tokio::spawn(clients::run(Arc::clone(&common), number, rng))
        })
        .collect();
    let marks: Vec<Arc<AtomicI64>> = watching.iter().map(|(mark, _)| Arc::clone(mark)).collect();
    let compactor = tokio::spawn(compact(Arc::clone(&common), marks));

    torment(&mut nemesis, common.began + seconds).await;
    if flags == FORGETFUL {
        assert!(
            gets_snapshot(&mut nemesis, 0).await,
            "never away for long enough"
        );
    }
    common.stop.store(true, Ordering::Relaxed);
    let mut logs = Vec::new();
    for client in clients {
        logs.push(client.await.unwrap());
    }
    compactor.await.unwrap();
    let tormented = common.began.elapsed();

    let revision = settled(&urls).await;
    last.send_replace(Some(revision));
    let heard = all_heard(watching).await;
    let state = replay(&heard[0].events);
    for url in &urls {
        assert!(range(url).await == state, "{url} holds something else");
    }
    hashes_are_equal(&urls, revision).await;
    acknowledged_is_heard(&logs, &heard[0].events);
    let figures = judge(&logs);
    nemesis.all_live();
    let snapshots = nemesis.members.iter().map(|member| {
        let log = member.log();
        log.matches("received database snapshot").count()
    });
    println!(
        "{tormented:?} of {:?}: {figures}; {} events to each of {WATCHERS} watchers over {} \
         streams; {} snapshots in the members' last lives",
        nemesis.struck,
        heard[0].events.len(),
        heard.iter().map(|heard| heard.streams).sum::<usize>(),
        snapshots.sum::<usize>(),
    );
}

/// The members behind their mesh, started.
fn found(dir: &Path, flags: &[&str], rng: Rng) -> Nemesis {
    let mesh = Mesh::new(MEMBERS);
    let small = dir.join("small");
    std::fs::create_dir_all(&small).unwrap();
    let disk = match Disk::new(&small, SMALL_DISK_BYTES) {
        Ok(disk) => Some(disk),
        Err(why) => {
            testkit::skip("the full disk", &why);
            None
        }
    };
    let place = |at: usize| match at {
        ON_SMALL_DISK => small.as_path(),
        _ => dir,
    };
    let program = env!("CARGO_BIN_EXE_stele");
    let mut members: Vec<Process> = (0..MEMBERS)
        .map(|at| Process::new(program, place(at), &format!("m{at}")))
        .collect();
    if let Some(disk) = &disk {
        members[ON_SMALL_DISK].launched_by(disk.launcher());
    }
    put_behind(&mesh, &mut members);
    start_all(&mut members, flags);
    for (at, member) in members.iter().enumerate() {
        mesh.runs_as(at, member.pid());
    }
    Nemesis {
        members,
        mesh,
        disk,
        rng,
        struck: BTreeMap::new(),
    }
}

/// Each fault in turn, however long that takes, then any.
async fn torment(nemesis: &mut Nemesis, until: Instant) {
    let mut turn = 0;
    while turn < FAULTS.len() || Instant::now() < until {
        let fault = match FAULTS.get(turn) {
            Some(fault) => *fault,
            None => nemesis.rng.pick(&FAULTS),
        };
        turn += 1;
        if fault != Fault::FillDisk || nemesis.disk.is_some() {
            nemesis.strike(fault).await;
        }
    }
}

/// Whether a member that is away while clients write comes back by a snapshot.
async fn gets_snapshot(nemesis: &mut Nemesis, victim: usize) -> bool {
    for absence in 1..=ABSENCES_MAX {
        nemesis.members[victim].kill();
        let other = &nemesis.members[(victim + 1) % MEMBERS].url;
        let until = Instant::now() + AWAY * absence;
        let mut written = 0;
        while Instant::now() < until || written < WRITTEN_MEANWHILE {
            put(other, "away").await;
            written += 1;
        }
        nemesis.up(victim);
        put(&nemesis.members[victim].url, "back").await;
        let log = nemesis.members[victim].log();
        if log.contains("received database snapshot") {
            return true;
        }
    }
    false
}

type Watching = (Arc<AtomicI64>, JoinHandle<Result<Heard, String>>);

fn watch(urls: &[String], rng: &mut Rng) -> (watch::Sender<Option<i64>>, Vec<Watching>) {
    let (last, receiver) = watch::channel(None);
    let watcher = |number: usize| {
        let mut urls = urls.to_vec();
        urls.rotate_left(number % MEMBERS);
        let heard = Arc::new(AtomicI64::new(1));
        let watcher = Watcher {
            urls,
            stays: number < MEMBERS,
            heard: Arc::clone(&heard),
            last: receiver.clone(),
            rng: Rng::new(rng.next()),
        };
        (heard, tokio::spawn(watcher.run()))
    };
    let watching = (0..WATCHERS).map(watcher).collect();
    (last, watching)
}

/// Now and then, what every watcher has heard.
async fn compact(common: Arc<Common>, marks: Vec<Arc<AtomicI64>>) {
    let mut next = Instant::now() + COMPACT_EVERY;
    while !common.stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if Instant::now() < next {
            continue;
        }
        next += COMPACT_EVERY;
        let heard = marks.iter().map(|mark| mark.load(Ordering::Relaxed)).min();
        let request = pb::CompactionRequest {
            revision: heard.unwrap_or(1),
            physical: false,
        };
        let url = &common.urls[next.elapsed().subsec_nanos() as usize % MEMBERS];
        let compacting = async {
            let client = etcd_api::Client::connect(url.clone()).await.ok()?;
            client.kv().compact(request).await.ok()
        };
        // The next one does it if this one does not.
        let _ = tokio::time::timeout(Duration::from_secs(2), compacting).await;
    }
}

/// A write through every member; the revision they all have reached then.
async fn settled(urls: &[String]) -> i64 {
    for url in urls {
        put(url, "1").await;
    }
    let mut revision = 0;
    for url in urls {
        let request = pb::RangeRequest {
            key: "1".into(),
            ..Default::default()
        };
        let answer = ask(url, |client| {
            let request = request.clone();
            async move { client.kv().range(request).await }
        });
        revision = answer.await.into_inner().header.unwrap().revision;
    }
    revision
}

async fn all_heard(watching: Vec<Watching>) -> Vec<Heard> {
    let mut all: Vec<Heard> = Vec::new();
    for (at, (mark, task)) in watching.into_iter().enumerate() {
        let heard = tokio::time::timeout(PATIENCE, task).await;
        let heard = heard.unwrap_or_else(|_| {
            let mark = mark.load(Ordering::Relaxed);
            panic!("watcher {at} has heard of nothing after {mark}")
        });
        let heard = heard
            .unwrap()
            .unwrap_or_else(|e| panic!("watcher {at}: {e}"));
        if let Some(first) = all.first() {
            let differ = heard.events.iter().zip(&first.events).find(|(a, b)| a != b);
            assert!(differ.is_none(), "watcher {at} and watcher 0: {differ:?}");
            assert_eq!(heard.events.len(), first.events.len(), "watcher {at}");
        }
        all.push(heard);
    }
    all
}

type Held = BTreeMap<Vec<u8>, (Vec<u8>, i64, i64, i64)>;

/// What there must be after these events.
fn replay(events: &[Event]) -> Held {
    let mut state = Held::new();
    for event in events {
        match &event.value {
            Some(value) => {
                let (created, version) = match state.get(&event.key) {
                    Some((_, _, created, version)) => (*created, version + 1),
                    None => (event.revision, 1),
                };
                assert_eq!(
                    (event.create_revision, event.version),
                    (created, version),
                    "{event:?}"
                );
                let held = (value.clone(), event.revision, created, version);
                state.insert(event.key.clone(), held);
            }
            None => {
                assert!(state.remove(&event.key).is_some(), "{event:?}");
            }
        }
    }
    state
}

async fn range(url: &str) -> Held {
    let request = pb::RangeRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        ..Default::default()
    };
    let answer = ask(url, |client| {
        let request = request.clone();
        async move { client.kv().range(request).await }
    });
    let held = |kv: KeyValue| {
        let held = (
            kv.value.to_vec(),
            kv.mod_revision,
            kv.create_revision,
            kv.version,
        );
        (kv.key.to_vec(), held)
    };
    answer
        .await
        .into_inner()
        .kvs
        .into_iter()
        .map(held)
        .collect()
}

async fn hashes_are_equal(urls: &[String], revision: i64) {
    let mut hashes = Vec::new();
    for url in urls {
        let answer = ask(url, |client| async move {
            let request = pb::HashKvRequest { revision };
            client.maintenance().hash_kv(request).await
        });
        let answer = answer.await.into_inner();
        hashes.push((answer.hash, answer.compact_revision));
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

/// Every acknowledged write is an event of its revision; what is still there, the replay says.
fn acknowledged_is_heard(logs: &[Log], events: &[Event]) {
    let by_revision: BTreeMap<i64, &Event> = events.iter().map(|e| (e.revision, e)).collect();
    for written in logs.iter().flat_map(|log| &log.written) {
        let event = by_revision.get(&written.revision);
        let event = event.unwrap_or_else(|| panic!("{} is lost", written.key));
        assert_eq!(event.key, written.key.as_bytes());
        let value = event.value.as_deref().map(clients::parse);
        assert_eq!(value, Some(written.value), "{}", written.key);
    }
}

fn judge(logs: &[Log]) -> String {
    let history: Vec<_> = logs.iter().flat_map(|log| &log.history).cloned().collect();
    let figures = linearizability::judge(&history).unwrap_or_else(|why| panic!("{why}"));
    let written: usize = logs.iter().map(|log| log.written.len()).sum();
    let unanswered: usize = logs.iter().map(|log| log.unanswered).sum();
    let unknown = history
        .iter()
        .filter(|record| record.outcome.is_none())
        .count();
    assert!(
        written > 100 && history.len() > 200,
        "hardly anything was done"
    );
    format!(
        "{} operations on registers ({unknown} of unknown outcome, {} searches undecided), \
         {written} acknowledged writes beside them, {unanswered} calls without an answer",
        history.len(),
        figures.undecided,
    )
}
