//! The measured server: started on a fresh directory, with its figures from the operating system.

#![expect(
    clippy::disallowed_methods,
    reason = "measures time and looks at the server's files"
)]

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::{CompactionRequest, DefragmentRequest, RangeRequest};
use tempfile::TempDir;
use testkit::{Launch, Server, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::super::Result;
use super::super::cluster::member;
use super::super::options::{Options, Programs, Side};

/// etcd reads all its keys before it serves: ten million take minutes. A new member gets all first.
const READY_WITHIN: Duration = Duration::from_secs(3600);
/// Room for all of these stores; etcd's default is 2 GB.
const QUOTA: &str = "--quota-backend-bytes=1099511627776";

pub(super) const MIB: f64 = 1024.0 * 1024.0;

pub(super) struct Subject {
    pub(super) side: Side,
    server: Server,
    launch: Launch,
    runtime: Runtime,
    scratch: TempDir,
}

impl Subject {
    pub(super) fn start(side: Side, programs: &Programs, options: &Options) -> Result<Subject> {
        let scratch = tempfile::Builder::new()
            .prefix("versus-big-")
            .tempdir_in(&options.dir)?;
        let mut launch = Launch::program(programs.server(side))
            .flag(QUOTA)
            .ready_within(READY_WITHIN);
        if side == Side::Stele {
            for flag in &options.stele_flags {
                launch = launch.flag(flag);
            }
        }
        Ok(Subject {
            side,
            server: launch.clone().data_dir(scratch.path().join("0")).start()?,
            launch,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            scratch,
        })
    }

    /// Restarts the same program on another fresh directory.
    pub(super) fn start_afresh(&mut self) -> Result<()> {
        self.server.kill();
        let dir = tempfile::tempdir_in(self.scratch.path())?.keep();
        self.server = self.launch.clone().data_dir(dir).start()?;
        Ok(())
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(future)
    }

    /// The directory that holds the data directories; removed with the subject.
    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    /// Where it listens to members.
    pub(super) fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.peer_port())
    }

    /// Starts the same program on an empty directory as a member of the cluster of this one, which
    /// listens at `ours`; returns when it serves clients.
    pub(super) fn start_newcomer(&self, ours: &str, theirs: &str) -> Result<Server> {
        let (launch, dir, name) = (self.launch.clone(), self.scratch.path(), "newcomer");
        let places = format!("default={ours},{name}={theirs}");
        Ok(member(launch, dir, name, theirs, &places, "existing").start()?)
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        Ok(self.server.usage()?)
    }

    /// Size of the data file in bytes, without logs.
    pub(super) fn file_bytes(&self) -> f64 {
        fs::metadata(self.file()).map_or(0.0, |data| data.len() as f64)
    }

    /// The data file.
    pub(super) fn file(&self) -> PathBuf {
        let member = self.server.data_dir().join("member");
        match self.side {
            Side::Etcd => member.join("snap/db"),
            _ => member.join("store/pages"),
        }
    }

    /// Number of checkpoints made; for etcd, of commits of its database.
    pub(super) async fn checkpoints(&self) -> Result<u64> {
        const NAME: &str = "etcd_disk_backend_commit_duration_seconds_count ";
        let number = self.metric(NAME).await?;
        number.ok_or_else(|| format!("no {NAME}in /metrics").into())
    }

    /// Number of steps in which tombstones of large deletions were written; 0 for etcd, which writes
    /// all of them at once.
    pub(super) async fn steps_of_deletions(&self) -> Result<u64> {
        const NAME: &str = "stele_chore_pieces_total{chore=\"deletion\"} ";
        Ok(self.metric(NAME).await?.unwrap_or(0))
    }

    async fn metric(&self, name: &str) -> Result<Option<u64>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.client_port())).await?;
        let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let number = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(number.and_then(|number| number.trim().parse().ok()))
    }

    pub(super) fn check_alive(&mut self) -> Result<()> {
        if self.server.is_alive() {
            return Ok(());
        }
        Err(format!("the server died; its log:\n{}", self.server.log()).into())
    }

    pub(super) fn kill(&mut self) {
        self.server.kill();
    }

    /// Stops the server with SIGTERM; returns the time it took.
    pub(super) fn stop(&mut self) -> Duration {
        let began = Instant::now();
        self.server.terminate();
        began.elapsed()
    }

    /// Starts the stopped server; returns the time until its first linearizable read.
    pub(super) fn restart(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.server.start()?;
        let url = self.url();
        self.runtime.block_on(async {
            let client = Client::connect(url).await?;
            let request = RangeRequest {
                key: b"/".as_slice().into(),
                ..RangeRequest::default()
            };
            client.kv().range(request).await?;
            Result::Ok(())
        })?;
        Ok(began.elapsed())
    }
}

pub(super) async fn revision(client: &Client) -> Result<i64> {
    let request = RangeRequest {
        key: b"/".as_slice().into(),
        ..RangeRequest::default()
    };
    let header = client.kv().range(request).await?.into_inner().header;
    Ok(header.map_or(0, |header| header.revision))
}

pub(super) async fn compact(client: &Client, revision: i64, physical: bool) -> Result<()> {
    let request = CompactionRequest { revision, physical };
    client.kv().compact(request).await?;
    Ok(())
}

pub(super) async fn defragment(client: &Client) -> Result<()> {
    client
        .maintenance()
        .defragment(DefragmentRequest {})
        .await?;
    Ok(())
}
