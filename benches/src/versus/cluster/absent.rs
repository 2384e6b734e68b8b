//! How long a voter that was away needs to be in step again, while clients write; and how long
//! writes stop when the leader is lost three seconds after such a member's restart.

#![expect(clippy::disallowed_methods, reason = "waits for what it measures")]

use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::StatusRequest;

use super::spread::{Spread, took_between};
use super::takeover::{self, Fault};
use super::writers::{Schedule, Writers};
use super::{ANSWER_WITHIN, Cluster, Result};
use crate::versus::options::{Options, Programs, Side};

/// 10,000 puts per second, if the machine can do that.
const CLIENTS: usize = 100;
const LOAD: Schedule = Schedule {
    every: Duration::from_millis(10),
    patience: Duration::from_secs(10),
    value_bytes: 300,
};
/// How long the member is away, and the aim for its return.
const ABSENCES: [(Duration, &str); 3] = [
    (Duration::from_secs(5), "<= 2"),
    (Duration::from_secs(30), "<= 5"),
    (Duration::from_secs(60), "<= 10"),
];
/// Undisturbed load before each absence.
const CALM: Duration = Duration::from_secs(10);
/// Time from the member's restart to the loss of the leader.
const SECOND_FAULT_AFTER: Duration = Duration::from_secs(3);
const IN_STEP_WITHIN: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

pub(in crate::versus) fn run(options: &Options, programs: &Programs) -> Result<()> {
    let absences = &ABSENCES[..options.rounds_or(ABSENCES.len()).min(ABSENCES.len())];
    println!("| side | away s | puts/s | in step after s | aim | p99 before ms | p99 meanwhile |");
    println!("|---|--:|--:|--:|---|--:|--:|");
    let mut gaps = Vec::new();
    for side in options.servers() {
        let mut cluster = Cluster::start(side, programs, options)?;
        for (away, aim) in absences {
            let back = absent(&mut cluster, *away)?;
            println!(
                "| {} | {} | {:.0} | {:.1} | {} | {:.1} | {:.1} |",
                side.name(),
                away.as_secs(),
                back.meanwhile.per_second(),
                back.in_step.as_secs_f64(),
                if side == Side::Stele { aim } else { "" },
                back.before.p99,
                back.meanwhile.p99,
            );
        }
        for fault in [Fault::Terminate, Fault::Kill] {
            let gap = second_fault(&mut cluster, fault)?;
            gaps.push((side, fault, gap));
        }
        cluster.all_alive()?;
    }
    println!(
        "\n| side | a member was away for 5 s, 3 s later the leader gets | no write for ms | aim |"
    );
    println!("|---|---|--:|---|");
    for (side, fault, gap) in gaps {
        println!(
            "| {} | {} | {:.0} | {} |",
            side.name(),
            fault.name(),
            gap.as_secs_f64() * 1e3,
            if side == Side::Stele { "<= 100" } else { "" },
        );
    }
    Ok(())
}

struct Back {
    in_step: Duration,
    before: Spread,
    meanwhile: Spread,
}

/// Kills a follower, lets the others go on, and starts it again.
fn absent(cluster: &mut Cluster, away: Duration) -> Result<Back> {
    let (leader, _) = cluster.wait_healthy()?;
    let follower = (leader + 1) % cluster.members.len();
    let load = Writers::start(vec![cluster.urls()[leader].clone(); CLIENTS], LOAD)?;
    let calm = Instant::now();
    std::thread::sleep(CALM);
    let killed = Instant::now();
    cluster.member(follower).kill();
    std::thread::sleep(away);
    let started = Instant::now();
    cluster.member(follower).start()?;
    let urls = cluster.urls();
    let in_step = wait_in_step(&urls[leader], &urls[follower]);
    cluster.runtime.block_on(in_step)?;
    let ended = Instant::now();
    let acks = load.acks();
    Ok(Back {
        in_step: ended - started,
        before: Spread::of(took_between(&acks, calm, killed), killed - calm),
        meanwhile: Spread::of(took_between(&acks, killed, ended), ended - killed),
    })
}

/// How long no client could write when the leader was lost soon after a member's return.
fn second_fault(cluster: &mut Cluster, fault: Fault) -> Result<Duration> {
    let (leader, term) = cluster.wait_healthy()?;
    let follower = (leader + 1) % cluster.members.len();
    let load = Writers::start(vec![cluster.urls()[leader].clone(); CLIENTS], LOAD)?;
    let writers = Writers::start(cluster.urls(), takeover::LOAD)?;
    std::thread::sleep(CALM);
    cluster.member(follower).kill();
    std::thread::sleep(ABSENCES[0].0);
    cluster.member(follower).start()?;
    std::thread::sleep(SECOND_FAULT_AFTER);
    let gap = takeover::lose(cluster, &writers, fault, leader, term)?;
    drop(load);
    Ok(gap)
}

/// Waits until the member has applied what the leader had applied when it was asked.
pub(in crate::versus) async fn wait_in_step(leader: &str, member: &str) -> Result<()> {
    let until = Instant::now() + IN_STEP_WITHIN;
    loop {
        let wanted = applied(leader).await;
        let reached = applied(member).await;
        if wanted.is_some() && reached >= wanted {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("it has {reached:?}, the leader {wanted:?}").into());
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn applied(url: &str) -> Option<u64> {
    let asked = async {
        let client = Client::connect(url.to_owned()).await.ok()?;
        let status = client.maintenance().status(StatusRequest {}).await.ok()?;
        Some(status.into_inner().raft_applied_index)
    };
    tokio::time::timeout(ANSWER_WITHIN, asked)
        .await
        .ok()
        .flatten()
}
