//! Sends the same operations in the same order to etcd and to the server under test; every answer,
//! error and watch event must be the same.
//!
//! Runs `STELE_DIFF_OPS` operations (default 5,000) from the seed `STELE_DIFF_SEED`, with a restart
//! of both servers every `STELE_DIFF_RESTART` operations (0: none).
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes reads the clock"
)]

pub(crate) mod generate;
pub(crate) mod normal;
pub(crate) mod op;
pub(crate) mod side;
mod stream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use testkit::{Server, Tools};

use crate::harness::subject;
use generate::Generator;
use op::{Answer, NO_ANSWER, Op, shown};
use side::Side;
use stream::Stream;

/// Operations shown before the one that differs.
const SHOWN_BEFORE: usize = 8;
/// A run of so many operations has to compare HashKV at so many revisions.
const LONG_RUN: usize = 50_000;
const HASHED_IN_LONG_RUN: usize = 100;
const LOG_LINES_SHOWN: usize = 12;
/// How long the events of a stream that tells no progress may lag behind the other server's.
const EVENTS_WITHIN: Duration = Duration::from_secs(60);
/// Two and a half rounds of etcd's own catching up.
const CAUGHT_UP_AFTER: Duration = Duration::from_millis(250);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_errors_and_watch_events_equal_real_etcds() {
    let Some(tools) = Tools::or_skip("the differential run") else {
        return;
    };
    let ops = subject::number("STELE_DIFF_OPS", 5_000) as usize;
    let seed = subject::number("STELE_DIFF_SEED", 1);
    let restart_every = subject::number("STELE_DIFF_RESTART", 2_000) as usize;
    // The reference need not survive a power cut, and is faster when it does not try.
    let reference = Server::start_etcd(&tools, &["--unsafe-no-fsync"]);
    let subject = subject::launch()
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let mut run = Run {
        reference: Side::new(reference).await,
        subject: Side::new(subject).await,
        generator: Generator::new(seed, restart_every),
        recent: VecDeque::new(),
        tally: BTreeMap::new(),
        hashed: BTreeSet::new(),
        hashed_compacted: BTreeSet::new(),
        started: Instant::now(),
        ttl_slack: 1,
    };
    for number in 1..=ops {
        if let Err(difference) = run.step().await {
            run.report(seed, number, restart_every, &difference);
        }
    }
    let last = run.generator.drain();
    if let Err(difference) = run.ask(last).await {
        run.report(seed, ops + 1, restart_every, &difference);
    }
    run.summary(ops, seed);
}

struct Run {
    reference: Side,
    subject: Side,
    generator: Generator,
    recent: VecDeque<Op>,
    tally: BTreeMap<&'static str, Tally>,
    /// The revisions at which HashKV was answered, and those of them whose older rows a compaction
    /// had taken, so that the digest leaves rows out.
    hashed: BTreeSet<i64>,
    hashed_compacted: BTreeSet<i64>,
    started: Instant,
    /// Seconds by which remaining times may differ. A restart starts leases anew or does not.
    ttl_slack: i64,
}

/// What became of one kind of operation.
#[derive(Default)]
struct Tally {
    answered: usize,
    refused: usize,
    took: Duration,
}

impl Run {
    async fn step(&mut self) -> Result<(), String> {
        let op = self.generator.next();
        if matches!(op, Op::Compact(_)) {
            self.let_watches_catch_up().await?;
        }
        self.ask(op).await
    }

    /// etcd moves watches that start in the past on every tenth of a second; one that a compaction
    /// overtakes meanwhile is canceled. Whether it does is chance, so nothing may be left to move.
    async fn let_watches_catch_up(&mut self) -> Result<(), String> {
        let revision = self.generator.revision;
        self.ask(Op::Drain { revision }).await?;
        let silent = |stream: &Stream| !stream.tells_progress(revision);
        if self.reference.streams.iter().flatten().any(silent) {
            tokio::time::sleep(CAUGHT_UP_AFTER).await;
        }
        Ok(())
    }

    async fn ask(&mut self, op: Op) -> Result<(), String> {
        let asked = Instant::now();
        let (mut a, mut b) = tokio::join!(self.reference.run(&op), self.subject.run(&op));
        normal::answer(&op, &mut a);
        normal::answer(&op, &mut b);
        normal::pair(&mut a, &mut b, self.ttl_slack);
        self.count(&op, &a, asked.elapsed());
        self.generator.learn(&op, &a);
        if self.recent.len() > SHOWN_BEFORE {
            self.recent.pop_front();
        }
        self.recent.push_back(op.clone());
        // Two servers that are both silent agree on nothing.
        let silent = matches!(&a, Answer::Error { code, .. } if *code == NO_ANSWER);
        if a != b || silent {
            return Err(format!("etcd:  {}\nStele: {}", shown(&a), shown(&b)));
        }
        if let Answer::HashKv(answer) = &a {
            self.hashed.insert(answer.hash_revision);
            if answer.compact_revision > 0 {
                self.hashed_compacted.insert(answer.hash_revision);
            }
        }
        match op {
            Op::Drain { .. } => self.compare_streams().await?,
            Op::Restart { .. } => self.ttl_slack = self.started.elapsed().as_secs() as i64 + 2,
            _ => {}
        }
        Ok(())
    }

    /// Compares what the watches have said. The streams were settled just before, so that what is
    /// missing now is missing; only a stream that tells no progress is given time.
    async fn compare_streams(&mut self) -> Result<(), String> {
        let streams = self.reference.streams.iter().zip(&self.subject.streams);
        for (slot, (a, b)) in streams.enumerate() {
            let (Some(a), Some(b)) = (a, b) else { continue };
            let until = Instant::now() + EVENTS_WITHIN;
            loop {
                match compare_stream(a, b)? {
                    None => break,
                    Some(lag) if Instant::now() > until => {
                        return Err(format!("stream {slot}: {lag}"));
                    }
                    Some(_) => tokio::time::sleep(LOOK_AGAIN_AFTER).await,
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, op: &Op, answer: &Answer, took: Duration) {
        let counts = self.tally.entry(op.name()).or_default();
        counts.took += took;
        match answer {
            Answer::Error { .. } => counts.refused += 1,
            _ => counts.answered += 1,
        }
    }

    fn summary(&self, ops: usize, seed: u64) {
        let seconds = self.started.elapsed().as_secs_f64();
        println!("{ops} operations from seed {seed} in {seconds:.0} s, no difference;");
        println!(
            "revision {}, compacted {}",
            self.generator.revision, self.generator.compacted
        );
        println!(
            "HashKV equal at {} revisions, {} of them of a compacted history;",
            self.hashed.len(),
            self.hashed_compacted.len()
        );
        if ops >= LONG_RUN {
            assert!(
                self.hashed_compacted.len() >= HASHED_IN_LONG_RUN,
                "HashKV was compared too seldom"
            );
        }
        for (
            kind,
            Tally {
                answered,
                refused,
                took,
            },
        ) in &self.tally
        {
            println!("{kind:>16} {answered:>8} answered {refused:>8} refused in {took:.0?}");
        }
    }

    fn report(&self, seed: u64, number: usize, restart_every: usize, difference: &str) -> ! {
        println!("the operations before:");
        for op in self.recent.iter().take(self.recent.len().saturating_sub(1)) {
            println!("  {}", shown(op));
        }
        let op = self.recent.back().map(shown).unwrap_or_default();
        for (whose, side) in [("etcd", &self.reference), ("Stele", &self.subject)] {
            let log = side.server.log();
            let tail: Vec<&str> = log.lines().rev().take(LOG_LINES_SHOWN).collect();
            println!(
                "the last lines of {whose}'s log, newest first:\n{}",
                tail.join("\n")
            );
        }
        panic!(
            "operation {number} of seed {seed} differs\n{op}\n{difference}\nreplay with \
             STELE_DIFF_SEED={seed} STELE_DIFF_OPS={number} STELE_DIFF_RESTART={restart_every} \
             cargo test -p stele --test it differential"
        );
    }
}

/// Takes what both sides have of each watch; `Some` tells which has said more so far.
fn compare_stream(a: &Stream, b: &Stream) -> Result<Option<String>, String> {
    let (mut a, mut b) = (a.collected(), b.collected());
    if a.broken.is_some() || b.broken.is_some() {
        return Err(format!(
            "a stream is broken: etcd {:?}, Stele {:?}",
            a.broken, b.broken
        ));
    }
    // A cancellation may be told late where nothing else is waited for.
    let told = a.control.len().min(b.control.len());
    if a.control[..told] != b.control[..told] {
        return Err(format!(
            "control messages: etcd {:?}, Stele {:?}",
            a.control, b.control
        ));
    }
    let mut lag = (a.control.len() != b.control.len()).then(|| {
        format!(
            "control messages: etcd {:?}, Stele {:?}",
            a.control, b.control
        )
    });
    a.control.drain(..told);
    b.control.drain(..told);
    let ids: Vec<i64> = a.watches.keys().copied().collect();
    if !b.watches.keys().eq(ids.iter()) {
        return Err(format!(
            "watches: etcd {ids:?}, Stele {:?}",
            b.watches.keys()
        ));
    }
    for id in ids {
        let (Some(a), Some(b)) = (a.watches.get_mut(&id), b.watches.get_mut(&id)) else {
            continue;
        };
        for (a, b) in a.iter_mut().zip(b.iter_mut()) {
            let common = a.events.len().min(b.events.len());
            for (place, (x, y)) in a.events.iter().zip(&b.events).enumerate() {
                if x != y {
                    let (x, y) = (shown(x), shown(y));
                    return Err(format!(
                        "watch {id}, event {place}:\netcd:  {x}\nStele: {y}"
                    ));
                }
            }
            a.events.drain(..common);
            b.events.drain(..common);
            if a.events.len() != b.events.len() {
                let (more, next) = match a.events.first() {
                    Some(event) => ("etcd", event),
                    None => ("Stele", &b.events[0]),
                };
                lag = Some(format!("watch {id}: only {more} told {}", shown(next)));
            }
        }
        a.retain(|watch| !watch.canceled);
        b.retain(|watch| !watch.canceled);
    }
    Ok(lag)
}
