//! One run of a load: a fresh server, the prefill, the load, and the difference of the figures in
//! `/proc`.

#![expect(
    clippy::disallowed_methods,
    reason = "waits for the server's background work, and gives it keys"
)]

use std::ffi::OsString;
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb::PutRequest;
use testkit::{Launch, Usage};

use super::Result;
use super::generator::{self, Summary};
use super::loads::{Kind, Load, READ_KEY, VALUE_BYTES};
use super::login;
use super::options::{Options, Programs, Side};
use super::tls::Tls;

/// etcd writes its tree every 100 ms; this waits until all writes of a load are counted.
pub(super) const SETTLE: Duration = Duration::from_millis(400);

/// The result of one run of a load on one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// `None` if the load has a fixed rate.
    pub(super) per_second: Option<f64>,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) operations: f64,
    pub(super) cpu_us: f64,
    pub(super) resident_peak_bytes: f64,
    pub(super) anonymous_bytes: f64,
    pub(super) disk_bytes_per_put: Option<f64>,
}

impl Run {
    pub(super) fn cpu_us_per_op(&self) -> f64 {
        self.cpu_us / self.operations
    }
}

pub(super) fn run(side: Side, load: &Load, programs: &Programs, options: &Options) -> Result<Run> {
    let scratch = tempfile::Builder::new()
        .prefix("versus-")
        .tempdir_in(&options.dir)?;
    let mut launch = Launch::program(programs.server(side)).data_dir(scratch.path().join("data"));
    if side.is_stele() {
        launch = launch.flags(&options.stele_flags);
    }
    if side == Side::Sealed {
        let keys = scratch.path().join("keys");
        std::fs::write(&keys, format!("1 {}\n", "5c".repeat(32)))?;
        launch = launch.flag(format!("--encryption-key-file={}", keys.display()));
    }
    if side == Side::Floor {
        launch = launch.flag(format!("--floor={}", options.floor_threads));
    }
    let tls = Tls::of(side, scratch.path(), 1)?;
    if let Some((tls, ports)) = &tls {
        launch = launch.flags(&tls.server_flags(&ports[0]));
    }
    let mut server = launch.start()?;
    let (endpoint, plain_url) = match &tls {
        Some((_, ports)) => (ports[0].endpoint(), ports[0].plain_url()),
        None => (format!("127.0.0.1:{}", server.client_port()), server.url()),
    };
    let generate = |args: &[OsString]| {
        let credentials = tls.iter().flat_map(|(tls, _)| tls.client_flags());
        let args: Vec<OsString> = credentials.chain(args.iter().cloned()).collect();
        generator::run(&programs.benchmark, &endpoint, &args, scratch.path())
    };

    if let Some(args) = load.prefill_arguments() {
        generate(&args)?;
        put_read_key_at(plain_url)?;
        std::thread::sleep(SETTLE);
    }
    if load.kind == Kind::Login {
        login::prepare(&server.url())?;
    }
    let before = server.usage()?;
    let summaries = match load.kind {
        Kind::Login => vec![login::run(&server.url(), load)?],
        _ => generate(&load.arguments())?,
    };
    std::thread::sleep(SETTLE);
    let after = server.usage()?;
    if !server.is_alive() {
        return Err(format!("the server died; its log:\n{}", server.log()).into());
    }
    server.kill();
    Ok(account(load, &summaries, &before, &after))
}

pub(super) fn account(load: &Load, summaries: &[Summary], before: &Usage, after: &Usage) -> Run {
    let last = summaries.last().copied().unwrap_or_default();
    let summary = match load.kind {
        // Reads and writes are reported separately; the load is their sum.
        Kind::TxnMixed => summaries
            .iter()
            .fold(Summary::default(), |sum, part| Summary {
                per_second: sum.per_second + part.per_second,
                p50_ms: sum.p50_ms.max(part.p50_ms),
                p99_ms: sum.p99_ms.max(part.p99_ms),
            }),
        // The first summary is of the creation of watches, or of the puts.
        _ => last,
    };
    let written = after.disk_write_bytes - before.disk_write_bytes;
    Run {
        per_second: (load.kind != Kind::WatchLatency).then_some(summary.per_second),
        p50_ms: summary.p50_ms,
        p99_ms: summary.p99_ms,
        operations: load.operations() as f64,
        cpu_us: (after.cpu - before.cpu).as_secs_f64() * 1e6,
        resident_peak_bytes: after.resident_peak_bytes as f64,
        anonymous_bytes: after.anonymous_bytes as f64,
        disk_bytes_per_put: load.puts().map(|puts| written as f64 / puts as f64),
    }
}

fn put_read_key_at(url: String) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { put_read_key(&Client::connect(url).await?).await })
}

pub(super) async fn put_read_key(client: &Client) -> Result<()> {
    let request = PutRequest {
        key: READ_KEY.into(),
        value: vec![b'v'; VALUE_BYTES].into(),
        ..PutRequest::default()
    };
    client.kv().put(request).await?;
    Ok(())
}
