//! Members are added and removed, the leader included, while clients write: no acknowledged write
//! is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Tools;

use super::process::{Cluster, Etcdctl, eventually};
use crate::harness::subject;

const WRITERS: usize = 3;
/// For one write, wherever it went: its member may be gone before it answers.
const CALL_PATIENCE: Duration = Duration::from_secs(3);
/// Members at a time, but for the newcomer.
const MEMBERS: usize = 3;

#[test]
fn no_acknowledged_write_is_lost_while_all_members_are_replaced() {
    let Some(tools) = Tools::or_skip("members that come and go") else {
        return;
    };
    let rounds = subject::number("STELE_CHURN_ROUNDS", 3) as usize;
    let ctl = Etcdctl::new(&tools);
    let mut cluster = Cluster::new(MEMBERS + rounds);
    let load = Load::start(&cluster, MEMBERS + rounds);
    let mut alive = vec![0];
    cluster.start_with(0, "new", &[0], UNGUARDED);
    for newcomer in 1..MEMBERS + rounds {
        let url = cluster.client_url(alive[0]);
        add(&cluster, &ctl, &url, newcomer);
        alive.push(newcomer);
        cluster.start_with(newcomer, "existing", &alive, UNGUARDED);
        let id = ctl.id_of(&url, &cluster.peer_url(newcomer));
        eventually("the newcomer has caught up", || {
            ctl.run(&url, &["member", "promote", &id]).is_ok()
        });
        if alive.len() > MEMBERS {
            // The leader in one round, the oldest in the next.
            let (leader, leader_id) = ctl.leader(&cluster.client_url(newcomer));
            let (gone, id) = match newcomer % 2 {
                0 => (alive[0], ctl.id_of(&leader, &cluster.peer_url(alive[0]))),
                _ => {
                    let is_leader = |at: &&usize| cluster.client_url(**at) == leader;
                    (*alive.iter().find(is_leader).unwrap(), leader_id)
                }
            };
            alive.retain(|at| *at != gone);
            let other = cluster.client_url(alive[0]);
            eventually("the change is made", || {
                match ctl.run(&other, &["member", "remove", &id]) {
                    Ok(_) => true,
                    // An answer that got lost.
                    Err(error) => error.contains("member not found"),
                }
            });
            assert!(cluster.wait_exit(gone).success());
            cluster.forget(gone);
        }
    }
    let written = load.stop();
    assert!(written.len() > 20 * rounds, "only {} writes", written.len());
    let url = cluster.client_url(alive[0]);
    let held = ctl.ok(&url, &["get", "", "--prefix", "--keys-only", "--limit=0"]);
    let held: std::collections::HashSet<&str> = held.lines().collect();
    let lost: Vec<&String> = written
        .iter()
        .filter(|key| !held.contains(key.as_str()))
        .collect();
    assert!(lost.is_empty(), "lost of {}: {lost:?}", written.len());
    eventually("all have the same history", || {
        let hashes = ctl
            .run(&url, &["endpoint", "hashkv", "--cluster"])
            .unwrap_or_default();
        let hashes: Vec<&str> = hashes
            .lines()
            .filter_map(|l| l.split(", ").nth(1))
            .collect();
        hashes.len() == MEMBERS && hashes.iter().all(|hash| *hash == hashes[0])
    });
}

/// Without the wait for five healthy seconds after each change.
const UNGUARDED: &[&str] = &["--strict-reconfig-check=false"];

fn add(cluster: &Cluster, ctl: &Etcdctl, url: &str, newcomer: usize) {
    let peer_url = cluster.peer_url(newcomer);
    let name = format!("m{newcomer}");
    let add = [
        "member",
        "add",
        &name,
        "--learner",
        "--peer-urls",
        &peer_url,
    ];
    eventually("the newcomer is expected", || match ctl.run(url, &add) {
        Ok(_) => true,
        Err(error) => error.contains("Peer URLs already exists"),
    });
}

/// Clients that write to whoever answers, for as long as they may.
struct Load {
    stop: Arc<AtomicBool>,
    written: Arc<Mutex<Vec<String>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(cluster: &Cluster, members: usize) -> Load {
        let urls: Vec<String> = (0..members).map(|at| cluster.client_url(at)).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let written = Arc::new(Mutex::new(Vec::new()));
        let writer = |number: usize| {
            let (urls, stop, written) = (urls.clone(), Arc::clone(&stop), Arc::clone(&written));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            std::thread::Builder::new()
                .spawn(move || runtime.block_on(write(number, &urls, &stop, &written)))
                .unwrap()
        };
        Load {
            threads: (0..WRITERS).map(writer).collect(),
            stop,
            written,
        }
    }

    /// The keys of acknowledged writes.
    fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        std::mem::take(&mut self.written.lock().unwrap())
    }
}

async fn write(number: usize, urls: &[String], stop: &AtomicBool, written: &Mutex<Vec<String>>) {
    let (mut turn, mut client) = (number, None);
    for count in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("w{number}-{count}");
        if client.is_none() {
            turn += 1;
            client = Client::connect(urls[turn % urls.len()].as_str()).await.ok();
        }
        let Some(connected) = &client else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let put = pb::PutRequest {
            key: key.clone().into(),
            value: key.clone().into(),
            ..Default::default()
        };
        let mut kv = connected.kv();
        match tokio::time::timeout(CALL_PATIENCE, kv.put(put)).await {
            Ok(Ok(_)) => written.lock().unwrap().push(key),
            // Whether it was made, nobody knows.
            _ => client = None,
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
