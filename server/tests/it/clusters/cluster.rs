//! Three members as real processes. Whichever is killed, the others continue, and at the end all
//! members hold every acknowledged write and the same history.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;

use crate::harness::subject;

const MEMBERS: usize = 3;
/// For a cluster that has a majority to answer.
const TRIES: usize = 500;
const CALL_PATIENCE: Duration = Duration::from_secs(10);

struct Member {
    words: Vec<String>,
    url: String,
    child: Child,
}

impl Member {
    fn start(words: &[String]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_stele"))
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // One that was killed already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_members_lose_nothing_when_each_is_killed_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = found(dir.path());
    let mut written = Vec::new();
    let rounds = subject::number("STELE_CLUSTER_ROUNDS", 1);
    for round in 0..rounds {
        for victim in 0..MEMBERS {
            for (at, member) in members.iter().enumerate() {
                let key = format!("{round}/{victim}/{at}");
                put(&member.url, &key).await;
                written.push(key);
            }
            members[victim].kill();
            let key = format!("{round}/{victim}/without");
            put(&members[(victim + 1) % MEMBERS].url, &key).await;
            written.push(key);
            members[victim].child = Member::start(&members[victim].words);
        }
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

fn found(dir: &Path) -> Vec<Member> {
    let listeners: Vec<TcpListener> = (0..2 * MEMBERS)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let urls: Vec<String> = listeners
        .iter()
        .map(|listener| format!("http://{}", listener.local_addr().unwrap()))
        .collect();
    drop(listeners);
    let (peers, clients) = urls.split_at(MEMBERS);
    let all: Vec<String> = (0..MEMBERS).map(|i| format!("m{i}={}", peers[i])).collect();
    let member = |i: usize| {
        let words = vec![
            format!("--name=m{i}"),
            format!("--data-dir={}", dir.join(format!("m{i}")).display()),
            format!("--listen-peer-urls={}", peers[i]),
            format!("--initial-advertise-peer-urls={}", peers[i]),
            format!("--listen-client-urls={}", clients[i]),
            format!("--advertise-client-urls={}", clients[i]),
            format!("--initial-cluster={}", all.join(",")),
        ];
        Member {
            child: Member::start(&words),
            words,
            url: clients[i].clone(),
        }
    };
    (0..MEMBERS).map(member).collect()
}

/// Again until it succeeds: an answer that got lost says nothing.
pub(crate) async fn ask<T, F>(url: &str, call: impl Fn(Client) -> F) -> T
where
    F: Future<Output = Result<T, tonic::Status>>,
{
    for _ in 0..TRIES {
        if let Ok(client) = Client::connect(url).await
            && let Ok(Ok(answer)) = tokio::time::timeout(CALL_PATIENCE, call(client)).await
        {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{url} does not answer")
}

pub(crate) async fn put(url: &str, key: &str) {
    let request = pb::PutRequest {
        key: key.to_owned().into(),
        value: key.to_owned().into(),
        ..Default::default()
    };
    ask(url, |client| {
        let request = request.clone();
        async move { client.kv().put(request).await }
    })
    .await;
}

pub(crate) async fn holds(url: &str, key: &str) -> bool {
    let request = pb::RangeRequest {
        key: key.to_owned().into(),
        ..Default::default()
    };
    let answer = ask(url, |client| {
        let request = request.clone();
        async move { client.kv().range(request).await }
    })
    .await;
    answer
        .into_inner()
        .kvs
        .iter()
        .any(|kv| kv.value == key.as_bytes())
}

pub(crate) async fn hash(url: &str) -> u32 {
    let answer = ask(url, |client| async move {
        let request = pb::HashKvRequest { revision: 0 };
        client.maintenance().hash_kv(request).await
    });
    answer.await.into_inner().hash
}
