//! A leader that is paused (SIGSTOP), not dead: its connections stay open, but messages to it are
//! not processed. The other members must answer clients as etcd does; the tests also pass against
//! etcd.

use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use rustix::process::Signal;
use testkit::Tools;

use crate::clusters::cluster::{ask, hash, holds, put};
use crate::harness::fleet::{Process, found, wait};
use crate::harness::subject;

const MEMBERS: usize = 3;
/// Far longer than etcd's own patience of seven seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const TIMED_OUT: &str = "etcdserver: request timed out";
/// What the member says that leads in the stopped one's place, if it was quick.
const LOST: &str = "etcdserver: request timed out, possibly due to previous leader failure";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_to_a_stopped_leader_times_out_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let program = if subject::is_etcd() {
        Tools::locate().unwrap().etcd
    } else {
        env!("CARGO_BIN_EXE_stele").into()
    };
    let members = found(program, dir.path(), MEMBERS, &[]);
    for member in &members {
        put(&member.url, "before").await;
    }
    let leader = leader(&members).await;
    let followers: Vec<&Process> = (0..MEMBERS)
        .filter(|at| *at != leader)
        .map(|at| &members[at])
        .collect();
    let mut clients = Vec::new();
    for follower in &followers {
        clients.push(Client::connect(follower.url.clone()).await.unwrap());
    }
    members[leader].signal(Signal::STOP);
    // To a member that takes the stopped one for its leader.
    let lost: Vec<_> = clients
        .iter()
        .map(|client| tokio::spawn(write(client.clone(), "lost")))
        .collect();
    for lost in lost {
        match lost.await.unwrap() {
            // A member that knew better already.
            Ok(()) => println!("written all the same"),
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
                assert!([TIMED_OUT, LOST].contains(&status.message()), "{status}");
                println!("{status}");
            }
        }
    }
    // The others have long had a leader of their own, who serves them all.
    for (client, follower) in clients.iter().zip(&followers) {
        write(client.clone(), "after").await.unwrap();
        assert!(holds(&follower.url, "before").await);
    }
    members[leader].signal(Signal::CONT);
    let log = || members[leader].log();
    wait(
        "the stopped one to follow",
        || log().contains("became follower"),
        log,
    );
    put(&members[leader].url, "last").await;
    let mut hashes = Vec::new();
    for member in &members {
        assert!(holds(&member.url, "last").await);
        hashes.push(hash(&member.url).await);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

async fn write(client: Client, key: &str) -> Result<(), tonic::Status> {
    let request = pb::PutRequest {
        key: key.to_owned().into(),
        value: key.to_owned().into(),
        ..Default::default()
    };
    let mut kv = client.kv();
    let written = tokio::time::timeout(PATIENCE, kv.put(request)).await;
    written.expect("an answer comes in time").map(drop)
}

async fn leader(members: &[Process]) -> usize {
    let mut leader = 0;
    for (at, member) in members.iter().enumerate() {
        let status = ask(&member.url, |client| async move {
            client.maintenance().status(pb::StatusRequest {}).await
        });
        let status = status.await.into_inner();
        if status.header.unwrap().member_id == status.leader {
            leader = at;
        }
    }
    leader
}
