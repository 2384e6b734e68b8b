//! Members on ports chosen before they start, and `etcdctl` to control them.
#![expect(
    clippy::disallowed_methods,
    reason = "waits for other processes, and not for ever"
)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::{Launch, Server, StartError, Tools};

/// For what comes by itself, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Waits until `holds` returns true.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "it never came true that {what}");
        std::thread::sleep(POLL);
    }
}

struct Place {
    name: String,
    client_url: String,
    peer_url: String,
    server: Option<Server>,
}

pub(crate) struct Cluster {
    program: PathBuf,
    dir: TempDir,
    places: Vec<Place>,
}

impl Cluster {
    /// Places for so many members of Stele; nobody runs yet.
    pub(crate) fn new(places: usize) -> Cluster {
        Cluster::of(env!("CARGO_BIN_EXE_stele"), places)
    }

    pub(crate) fn of(program: impl Into<PathBuf>, places: usize) -> Cluster {
        let urls = free_urls(2 * places);
        let place = |(at, urls): (usize, &[String])| Place {
            name: format!("m{at}"),
            client_url: urls[0].clone(),
            peer_url: urls[1].clone(),
            server: None,
        };
        Cluster {
            program: program.into(),
            dir: tempfile::tempdir().unwrap(),
            places: urls.chunks(2).enumerate().map(place).collect(),
        }
    }

    pub(crate) fn client_url(&self, at: usize) -> String {
        self.places[at].client_url.clone()
    }

    pub(crate) fn peer_url(&self, at: usize) -> String {
        self.places[at].peer_url.clone()
    }

    pub(crate) fn data_dir(&self, at: usize) -> PathBuf {
        self.dir.path().join(&self.places[at].name)
    }

    /// `--initial-cluster` with these places.
    pub(crate) fn listed(&self, with: &[usize]) -> String {
        let pair = |at: &usize| format!("{}={}", self.places[*at].name, self.places[*at].peer_url);
        with.iter().map(pair).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn move_peer(&mut self, at: usize) {
        self.places[at].peer_url = free_urls(1).remove(0);
    }

    /// Starts the member at this place, and waits until it serves.
    pub(crate) fn start(&mut self, at: usize, state: &str, with: &[usize]) {
        self.start_with(at, state, with, &[]);
    }

    pub(crate) fn start_with(&mut self, at: usize, state: &str, with: &[usize], flags: &[&str]) {
        let launch = self.launch(at, state, &self.listed(with)).flags(flags);
        let server = launch.start().unwrap_or_else(|error| panic!("{error}"));
        self.places[at].server = Some(server);
    }

    pub(crate) fn try_start(
        &self,
        at: usize,
        state: &str,
        with: &[usize],
    ) -> Result<(), StartError> {
        self.launch(at, state, &self.listed(with)).start().map(drop)
    }

    /// With whatever cluster the flags are to name.
    pub(crate) fn launch(&self, at: usize, state: &str, cluster: &str) -> Launch {
        self.launch_program(&self.program, at, state, cluster)
    }

    pub(crate) fn launch_program(
        &self,
        program: &Path,
        at: usize,
        state: &str,
        cluster: &str,
    ) -> Launch {
        let place = &self.places[at];
        Launch::program(program)
            .data_dir(self.data_dir(at))
            .flag(format!("--name={}", place.name))
            .flag(format!("--listen-peer-urls={}", place.peer_url))
            .flag(format!("--initial-advertise-peer-urls={}", place.peer_url))
            .flag(format!("--listen-client-urls={}", place.client_url))
            .flag(format!("--advertise-client-urls={}", place.client_url))
            .flag(format!("--initial-cluster={cluster}"))
            .flag(format!("--initial-cluster-state={state}"))
    }

    /// What was launched is the member at this place.
    pub(crate) fn adopt(&mut self, at: usize, server: Server) {
        self.places[at].server = Some(server);
    }

    /// kill -9.
    pub(crate) fn kill(&mut self, at: usize) {
        self.places[at].server.as_mut().unwrap().kill();
    }

    pub(crate) fn wait_exit(&mut self, at: usize) -> ExitStatus {
        self.places[at].server.as_mut().unwrap().wait_exit(PATIENCE)
    }

    pub(crate) fn log(&self, at: usize) -> String {
        self.places[at].server.as_ref().unwrap().log()
    }

    /// The member at this place is no more.
    pub(crate) fn forget(&mut self, at: usize) {
        self.places[at].server = None;
    }

    /// Places that have a member.
    pub(crate) fn running(&self) -> Vec<usize> {
        let places = self.places.iter().enumerate();
        let used = places.filter(|(_, place)| place.server.is_some());
        used.map(|(at, _)| at).collect()
    }
}

fn free_urls(count: usize) -> Vec<String> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
    listeners.iter().map(url).collect()
}

pub(crate) struct Etcdctl(PathBuf);

impl Etcdctl {
    pub(crate) fn new(tools: &Tools) -> Etcdctl {
        Etcdctl(tools.etcdctl.clone())
    }

    /// What it prints, or what it says went wrong.
    pub(crate) fn run(&self, endpoint: &str, words: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.0)
            .args(["--endpoints", endpoint])
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    pub(crate) fn ok(&self, endpoint: &str, words: &[&str]) -> String {
        self.run(endpoint, words)
            .unwrap_or_else(|error| panic!("etcdctl {words:?}: {error}"))
    }

    pub(crate) fn fails(&self, endpoint: &str, words: &[&str]) -> String {
        match self.run(endpoint, words) {
            Ok(told) => panic!("etcdctl {words:?} should have failed: {told}"),
            Err(error) => error,
        }
    }

    /// The id of the member with this peer URL, in hexadecimal.
    pub(crate) fn id_of(&self, endpoint: &str, peer_url: &str) -> String {
        let list = self.ok(endpoint, &["member", "list"]);
        let line = list.lines().find(|line| line.contains(peer_url));
        let line = line.unwrap_or_else(|| panic!("{peer_url} is not in {list}"));
        line.split(", ").next().unwrap().to_owned()
    }

    /// Client URL and id of the leader.
    pub(crate) fn leader(&self, endpoint: &str) -> (String, String) {
        let mut found = None;
        eventually("somebody leads", || {
            let status = self.run(endpoint, &["endpoint", "status", "--cluster"]);
            // Endpoint, id, version, storage version, three sizes, quota, leads?
            let lines: Vec<Vec<String>> = status
                .unwrap_or_default()
                .lines()
                .map(|line| line.split(", ").map(str::to_owned).collect())
                .collect();
            let leads = |line: &&Vec<String>| line.get(8).is_some_and(|field| field == "true");
            found = lines
                .iter()
                .find(leads)
                .map(|line| (line[0].clone(), line[1].clone()));
            found.is_some()
        });
        found.unwrap()
    }
}
