//! A store and an apiserver for one test, on free ports; stopped when dropped.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;
use testkit::Launch;

use crate::requests::http::{Answer, Call};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_stele-kube");
const READY_LINE: &str = "ready to serve the API address=";
/// Long, because the machine may be busy with builds.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Cluster {
    pub(crate) address: String,
    pub(crate) store: testkit::Server,
    apiserver: Child,
    home: TempDir,
}

impl Cluster {
    /// Runs `work` with a client of the store, beside the apiserver.
    pub(crate) fn in_store<T>(&self, work: impl AsyncFnOnce(etcd_api::Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let client = etcd_api::Client::connect(self.store.url()).await;
            work(client.unwrap()).await
        })
    }

    pub(crate) fn start() -> Cluster {
        let launch = Launch::program(BINARY).subcommand("store");
        Cluster::on(launch.start().unwrap_or_else(|error| panic!("{error}")))
    }

    /// An apiserver on a store that runs already.
    pub(crate) fn on(store: testkit::Server) -> Cluster {
        let (apiserver, address) = apiserver(&store.url(), &[]);
        let home = tempfile::tempdir().unwrap();
        Cluster {
            address,
            store,
            apiserver,
            home,
        }
    }

    /// Kills the apiserver and starts another on the same store.
    pub(crate) fn restart_apiserver(&mut self) {
        self.apiserver.kill().unwrap();
        self.apiserver.wait().unwrap();
        (self.apiserver, self.address) = apiserver(&self.store.url(), &[]);
    }

    /// The same at the same address, so that clients reconnect by themselves.
    pub(crate) fn restart_apiserver_in_place(&mut self) {
        self.apiserver.kill().unwrap();
        self.apiserver.wait().unwrap();
        (self.apiserver, self.address) =
            apiserver_at(&self.address, &self.store.url(), &["--plain-http"]);
    }

    /// The peak resident memory of the apiserver, in bytes.
    pub(crate) fn memory_peak_bytes(&self) -> u64 {
        let usage = testkit::Usage::of(self.apiserver.id()).unwrap();
        usage.resident_peak_bytes
    }

    /// A request of any kind.
    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        Call::new(&self.address, method, path)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send()
    }

    pub(crate) fn post(&self, path: &str, object: &serde_json::Value) -> Answer {
        self.call("POST", path).json(object).send()
    }

    /// The real kubectl against this cluster.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .arg(format!("--server=http://{}", self.address))
            .args(args)
            .env("KUBECONFIG", "/dev/null")
            .env("HOME", self.home.path());
        command
    }

    /// Runs kubectl, which must succeed; returns its output.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.kubectl(args).output().unwrap();
        assert!(
            output.status.success(),
            "kubectl {args:?}: {}",
            told(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs kubectl, which must fail; returns its error output.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let output = self.kubectl(args).output().unwrap();
        assert!(
            !output.status.success(),
            "kubectl {args:?}: {}",
            told(&output)
        );
        String::from_utf8(output.stderr).unwrap()
    }

    /// Writes a file for `-f`; returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Starts an apiserver over plain HTTP with these additional flags; returns its address too.
pub(crate) fn apiserver(store: &str, flags: &[&str]) -> (Child, String) {
    apiserver_at("127.0.0.1:0", store, &[&["--plain-http"], flags].concat())
}

/// Starts an apiserver with these additional flags, at a free port; returns its address too.
pub(crate) fn apiserver_with(store: &str, flags: &[&str]) -> (Child, String) {
    apiserver_at("127.0.0.1:0", store, flags)
}

fn apiserver_at(bind: &str, store: &str, flags: &[&str]) -> (Child, String) {
    let (ip, port) = bind.rsplit_once(':').unwrap();
    let mut child = Command::new(BINARY)
        .args(["apiserver", "--bind-address", ip, "--secure-port", port])
        .args(["--etcd-servers", store])
        .args(flags)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (found, address) = mpsc::channel();
    // Reads the log to the end, so that the server never blocks on it.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            match line.split_once(READY_LINE) {
                Some((_, address)) => drop(found.send(address.to_owned())),
                None => eprintln!("apiserver: {line}"),
            }
        }
    });
    let address = address.recv_timeout(WITHIN);
    (child, address.expect("the apiserver gets ready"))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.apiserver.kill();
        let _ = self.apiserver.wait();
    }
}

pub(crate) fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// True if kubectl is installed; otherwise the test reports that it is skipped, or fails in CI.
pub(crate) fn kubectl_or_skip(test: &str) -> bool {
    testkit::has_or_skip("kubectl", &["version", "--client"], test)
}
