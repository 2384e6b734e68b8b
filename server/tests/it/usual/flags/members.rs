//! Flags that change a member's identity, its directories and its peers.

use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::{READY_LINE, Server};

use super::{Probe, refused};
use crate::harness::fleet::wait;
use crate::harness::subject;

pub(super) const PROBES: &[Probe] = &[
    (
        &[
            "name",
            "initial-cluster",
            "initial-cluster-token",
            "initial-advertise-peer-urls",
            "advertise-client-urls",
        ],
        identity,
    ),
    (&["data-dir", "wal-dir"], directories),
    (&["snapshot-count"], checkpoints),
    (&["heartbeat-interval", "election-timeout"], timing),
    (&["initial-cluster-state"], joining),
    (&["discovery-fallback"], fallback),
    (&["max-learners"], learners),
    (&["feature-gates"], gates),
    (&["bootstrap-defrag-threshold-megabytes"], defragmentation),
    (&["memory-mlock"], locked_memory),
    (&["unsafe-no-fsync"], unsynced),
];

fn run<F: Future>(work: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(work)
}

fn start(flags: &[&str]) -> Server {
    let launch = subject::launch().flags(flags);
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

async fn members(server: &Server) -> pb::MemberListResponse {
    let client = Client::connect(server.url()).await.unwrap();
    let request = pb::MemberListRequest::default();
    client
        .cluster()
        .member_list(request)
        .await
        .unwrap()
        .into_inner()
}

async fn put(client: &Client) {
    let put = pb::PutRequest {
        key: "a".into(),
        ..Default::default()
    };
    client.kv().put(put).await.unwrap();
}

fn identity() {
    run(async {
        let usual = members(&start(&[])).await;
        let told = members(&start(&[
            "--name=m1",
            "--initial-cluster=m1=http://127.0.0.1:7001",
            "--initial-advertise-peer-urls=http://127.0.0.1:7001",
            "--advertise-client-urls=http://127.0.0.1:7002",
        ]))
        .await;
        let member = &told.members[0];
        assert_eq!(member.name, "m1");
        assert_eq!(member.peer_urls, ["http://127.0.0.1:7001"]);
        assert_eq!(member.client_urls, ["http://127.0.0.1:7002"]);
        let token = members(&start(&["--initial-cluster-token=other"])).await;
        let cluster = |told: &pb::MemberListResponse| told.header.as_ref().unwrap().cluster_id;
        assert_ne!(cluster(&usual), cluster(&token));
    });
}

/// A log apart from the data is found again, and a start that does not look there is refused.
fn directories() {
    let dir = tempfile::tempdir().unwrap();
    let (data, wal) = (dir.path().join("data"), dir.path().join("wal"));
    let apart = format!("--wal-dir={}", wal.display());
    let launch = subject::launch().data_dir(&data);
    run(async {
        let mut server = launch.clone().flag(&apart).start().unwrap();
        let client = Client::connect(server.url()).await.unwrap();
        put(&client).await;
        drop(client);
        assert!(std::fs::read_dir(&wal).unwrap().count() > 0);
        assert!(!data.join("member").join("log").exists());
        server.terminate();
        let error = launch
            .start()
            .err()
            .expect("a start without the log is refused");
        assert!(error.log.contains("--wal-dir"), "{error}");
        let mut server = launch.clone().flag(&apart).start().unwrap();
        let client = Client::connect(server.url()).await.unwrap();
        let range = pb::RangeRequest {
            key: "a".into(),
            ..Default::default()
        };
        let found = client.kv().range(range).await.unwrap().into_inner();
        assert_eq!(found.count, 1);
        drop(client);
        server.terminate();
        // A directory that holds something, but no log.
        let strange = tempfile::tempdir().unwrap();
        let _notes = tempfile::NamedTempFile::new_in(&strange).unwrap();
        let strange = format!("--wal-dir={}", strange.path().display());
        let error = launch.flag(strange).start().err();
        let error = error.expect("a start on a directory without records is refused");
        assert!(error.log.contains("does not say whose it is"), "{error}");
    });
}

fn checkpoints() {
    run(async {
        let server = start(&["--snapshot-count=10"]);
        let client = Client::connect(server.url()).await.unwrap();
        for _ in 0..20 {
            put(&client).await;
        }
        assert!(server.wait_for_log("saved snapshot to disk", Duration::from_secs(20)));
    });
}

fn timing() {
    run(async {
        // No lease ends during an election.
        let server = start(&["--election-timeout=5000"]);
        let client = Client::connect(server.url()).await.unwrap();
        let grant = pb::LeaseGrantRequest {
            ttl: 1,
            ..Default::default()
        };
        let granted = client
            .lease()
            .lease_grant(grant)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(granted.ttl, 8);
    });
    let (code, text) = refused(&["--heartbeat-interval=300"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("--heartbeat-interval[300ms]"), "{text}");
}

fn joining() {
    let dir = tempfile::tempdir().unwrap();
    let launch = subject::launch().data_dir(dir.path().join("data"));
    let error = launch
        .flag("--initial-cluster-state=existing")
        .start()
        .err();
    let error = error.expect("there is nobody to join");
    assert!(!error.log.contains(READY_LINE));
}

fn fallback() {
    let (code, text) = refused(&["--discovery-fallback=proxy"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("v2 proxy is deprecated"), "{text}");
}

fn learners() {
    run(async {
        for (flags, fits) in [(&[][..], false), (&["--max-learners=2"][..], true)] {
            let server = start(flags);
            let client = Client::connect(server.url()).await.unwrap();
            let add = |port: u16| pb::MemberAddRequest {
                peer_urls: vec![format!("http://127.0.0.1:{port}")],
                is_learner: true,
            };
            client.cluster().member_add(add(1)).await.unwrap();
            let second = client.cluster().member_add(add(2)).await;
            assert_eq!(second.is_ok(), fits, "{second:?}");
        }
    });
}

fn defragmentation() {
    let log = start(&["--bootstrap-defrag-threshold-megabytes=1000"]).log();
    assert!(log.contains("Skipping defragmentation"), "{log}");
}

/// Bytes that a process has locked in memory.
fn locked_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kilobytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kilobytes.trim().parse::<u64>().unwrap() << 10
}

fn locked_memory() {
    assert_eq!(locked_bytes(&start(&[])), 0);
    let mut server = start(&["--memory-mlock", "--snapshot-count=100"]);
    let file = server.data_dir().join("member/store/pages");
    // All of it, from the first checkpoint on and as it grows.
    super::logs::write(&server, 1000, 1000);
    let are_all = || locked_bytes(&server) + (1 << 20) > file.metadata().unwrap().len();
    let is_much = || are_all() && locked_bytes(&server) > 1 << 19;
    wait("the file in memory", is_much, || server.log());
    server.terminate();
    server.start().unwrap_or_else(|error| panic!("{error}"));
    assert!(locked_bytes(&server) > 1 << 19);
    // More than the process may lock, without the right to lock what it likes.
    let dir = server.data_dir().to_owned();
    server.terminate();
    let stele = env!("CARGO_BIN_EXE_stele");
    let command = format!(
        "ulimit -l 64; exec {stele} --memory-mlock --data-dir={}",
        dir.display()
    );
    let output = std::process::Command::new("setpriv")
        .args([
            "--inh-caps=-ipc_lock",
            "--bounding-set=-ipc_lock",
            "sh",
            "-c",
            &command,
        ])
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && log.contains("RLIMIT_MEMLOCK"),
        "{log}"
    );
}

/// That nothing is synced is a test of the file system in crate `storage`.
fn unsynced() {
    let server = start(&["--unsafe-no-fsync"]);
    super::logs::write(&server, 10, 10);
    assert!(server.log().contains("nothing is synced to the disk"));
    assert!(!start(&[]).log().contains("nothing is synced"));
}

fn gates() {
    let gate = r#"etcd_server_feature_enabled{name="CompactHashCheck",stage="ALPHA"} "#;
    let page = |flags: &[&str]| super::ports::get(start(flags).client_port(), "/metrics", "").1;
    assert!(page(&[]).contains(&format!("{gate}0")));
    assert!(page(&["--feature-gates=CompactHashCheck=true"]).contains(&format!("{gate}1")));
}
