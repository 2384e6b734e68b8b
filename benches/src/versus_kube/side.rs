//! The measured servers: processes on fresh directories, and the time until they are ready.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::{Launch, Usage};

use super::Result;
use super::asker::Asker;

/// Interval of readiness checks.
const POLL: Duration = Duration::from_millis(2);
const READY_WITHIN: Duration = Duration::from_secs(120);
/// Time for the server's work after its start to finish.
const SETTLE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Kubernetes,
    Ours,
}

/// The result of a start.
pub(super) struct Started {
    pub(super) ready: Duration,
    pub(super) usage: Usage,
}

/// An apiserver with its own store.
pub(super) struct Server {
    pub(super) asker: Asker,
    child: Process,
    _store: testkit::Server,
    _home: TempDir,
}

impl Server {
    pub(super) fn usage(&self) -> Result<Usage> {
        Ok(Usage::of(self.child.0.id())?)
    }
}

/// Kills the process when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) async fn start(side: Side, ours: &Path, go: &Path) -> Result<(Server, Started)> {
    let store = Launch::program(ours).subcommand("store").start()?;
    let home = tempfile::Builder::new().prefix("versus-kube-").tempdir()?;
    let port = testkit::free_port();
    let url = store.url();
    let mut command = our_apiserver(ours, home.path(), port, &url);
    let kubeconfig = home.path().join("admin.kubeconfig");
    if side == Side::Kubernetes {
        // Our apiserver makes the keys and the kubeconfig for both sides, on a temporary store.
        let other = Launch::program(ours).subcommand("store").start()?;
        let mut maker = our_apiserver(ours, home.path(), port, &other.url());
        let maker = Process(maker.spawn()?);
        ready(&kubeconfig, Instant::now()).await?;
        drop(maker);
        command = go_apiserver(go, home.path(), port, &url);
    }
    let begun = Instant::now();
    let child = Process(command.spawn()?);
    let (asker, took) = ready(&kubeconfig, begun).await?;
    tokio::time::sleep(SETTLE).await;
    let server = Server {
        asker,
        child,
        _store: store,
        _home: home,
    };
    let usage = server.usage()?;
    Ok((server, Started { ready: took, usage }))
}

fn our_apiserver(program: &Path, home: &Path, port: u16, store: &str) -> Command {
    let mut command = Command::new(program);
    command
        .arg("apiserver")
        .args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")])
        .arg(format!("--etcd-servers={store}"))
        .arg(format!("--cert-dir={}", home.join("pki").display()))
        .arg(format!(
            "--admin-kubeconfig={}",
            home.join("admin.kubeconfig").display()
        ));
    quiet(command)
}

fn go_apiserver(program: &Path, home: &Path, port: u16, store: &str) -> Command {
    let pki = |file: &str| home.join("pki").join(file).display().to_string();
    let mut command = Command::new(program);
    command
        .arg(format!("--secure-port={port}"))
        .arg(format!("--etcd-servers={store}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg("--endpoint-reconciler-type=none")
        .arg("--service-cluster-ip-range=10.96.0.0/16")
        .arg("--authorization-mode=RBAC")
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--tls-cert-file={}", pki("apiserver.crt")))
        .arg(format!("--tls-private-key-file={}", pki("apiserver.key")))
        .arg(format!("--client-ca-file={}", pki("ca.crt")))
        .arg(format!("--service-account-key-file={}", pki("sa.pub")))
        .arg(format!(
            "--service-account-signing-key-file={}",
            pki("sa.key")
        ));
    quiet(command)
}

fn quiet(mut command: Command) -> Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Waits until the server reports that it is ready.
async fn ready(kubeconfig: &Path, begun: Instant) -> Result<(Asker, Duration)> {
    let mut asker = None;
    while begun.elapsed() < READY_WITHIN {
        if asker.is_none() && kubeconfig.exists() {
            // The file may be incomplete at first.
            asker = Asker::of(kubeconfig).await.ok();
        }
        if let Some(asker) = &asker
            && asker.get("/readyz").await.is_ok()
        {
            return Ok((asker.clone(), begun.elapsed()));
        }
        tokio::time::sleep(POLL).await;
    }
    Err("an apiserver does not get ready".into())
}

/// Starts the whole cluster in one process, on a fresh directory.
pub(super) async fn up(ours: &Path) -> Result<Started> {
    let home = tempfile::Builder::new().prefix("versus-kube-").tempdir()?;
    let begun = Instant::now();
    let mut child = Command::new(ours)
        .args(["up", "--bind=127.0.0.1:0", "--store-bind=127.0.0.1:0"])
        .arg("--data-dir")
        .arg(home.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let said = child.stdout.take().ok_or("it has no output")?;
    let child = Process(child);
    let mut said = BufReader::new(said);
    let mut line = String::new();
    said.read_line(&mut line)?;
    if !line.starts_with("The cluster is up") {
        return Err(format!("stele-kube up does not come up: {line}").into());
    }
    let took = begun.elapsed();
    tokio::time::sleep(SETTLE).await;
    let usage = Usage::of(child.0.id())?;
    Ok(Started { ready: took, usage })
}
