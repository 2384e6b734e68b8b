//! The members of one cluster as child processes that can be stopped and restarted one by one, with
//! their logs in files.
#![expect(
    clippy::disallowed_methods,
    reason = "a test runs processes, reads their logs and waits for them"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::Tools;
use testkit::mesh::Mesh;

/// For anything that happens by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(2);

pub(crate) struct Process {
    program: PathBuf,
    /// What runs the program, if it does not run by itself.
    launcher: Vec<String>,
    words: Vec<String>,
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    log: PathBuf,
    /// For clients.
    pub(crate) url: String,
    pub(crate) peer_url: String,
    child: Option<Child>,
}

impl Process {
    /// A member to be, on free ports: `dir` will hold its data and its log.
    pub(crate) fn new(program: impl AsRef<Path>, dir: &Path, name: &str) -> Process {
        let urls = free_urls();
        let data = dir.join(name);
        let words = vec![
            format!("--name={name}"),
            format!("--data-dir={}", data.display()),
            format!("--listen-peer-urls={}", urls[0]),
            format!("--initial-advertise-peer-urls={}", urls[0]),
            format!("--listen-client-urls={}", urls[1]),
            format!("--advertise-client-urls={}", urls[1]),
        ];
        let [peer_url, url] = urls;
        Process {
            program: program.as_ref().to_owned(),
            launcher: Vec::new(),
            words,
            name: name.to_owned(),
            log: dir.join(format!("{name}.log")),
            dir: data,
            url,
            peer_url,
            child: None,
        }
    }

    pub(crate) fn flag(&mut self, flag: String) {
        self.words.push(flag);
    }

    /// Run by another program, which becomes this one.
    pub(crate) fn launched_by(&mut self, launcher: Vec<String>) {
        self.launcher = launcher;
    }

    /// Others reach it at another address than the one it listens at.
    pub(crate) fn advertise(&mut self, peer_url: String) {
        self.flag(format!("--initial-advertise-peer-urls={peer_url}"));
        self.peer_url = peer_url;
    }

    /// `NAME=URL`, as in `--initial-cluster`.
    pub(crate) fn place(&self) -> String {
        format!("{}={}", self.name, self.peer_url)
    }

    /// Begins a new log.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs", self.name);
        let log = File::create(&self.log).unwrap();
        let program = self.program.to_str().unwrap().to_owned();
        let mut words = self.launcher.iter().chain([&program]).chain(&self.words);
        let child = Command::new(words.next().unwrap())
            .args(words)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended already is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().unwrap());
        kill_process(pid, signal).unwrap();
    }

    /// Whether the process has not ended, by itself or because it was told to.
    pub(crate) fn is_alive(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// What it logged since its last start.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// So many members of a new cluster, started.
pub(crate) fn found(
    program: impl AsRef<Path>,
    dir: &Path,
    count: usize,
    flags: &[&str],
) -> Vec<Process> {
    let member = |i: usize| Process::new(program.as_ref(), dir, &format!("m{i}"));
    let mut members: Vec<Process> = (0..count).map(member).collect();
    start_all(&mut members, flags);
    members
}

/// As the members of a new cluster.
pub(crate) fn start_all(members: &mut [Process], flags: &[&str]) {
    let places: Vec<String> = members.iter().map(Process::place).collect();
    for member in members {
        member.flag(format!("--initial-cluster={}", places.join(",")));
        flags
            .iter()
            .for_each(|flag| member.flag((*flag).to_owned()));
        member.start();
    }
}

/// Lets all that members send each other pass through `mesh`; before they are told of each other.
pub(crate) fn put_behind(mesh: &Mesh, members: &mut [Process]) {
    for (at, member) in members.iter_mut().enumerate() {
        let port = member.peer_url.rsplit(':').next().unwrap();
        mesh.leads_to(at, port.parse().unwrap());
        member.advertise(mesh.url(at));
    }
}

/// Until `is_so`; after `PATIENCE` the test fails and tells what `detail` says.
pub(crate) fn wait(what: &str, is_so: impl Fn() -> bool, detail: impl Fn() -> String) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited for {what}:\n{}", detail());
        std::thread::sleep(POLL);
    }
}

pub(crate) fn free_urls() -> [String; 2] {
    [(); 2].map(|()| format!("http://127.0.0.1:{}", testkit::free_port()))
}

/// What etcdctl prints, run in `dir`, which unix sockets may be relative to; `None` if it fails.
pub(crate) fn ctl(tools: &Tools, endpoint: &str, dir: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new(&tools.etcdctl)
        .current_dir(dir)
        .arg(format!("--endpoints={endpoint}"))
        .args(["--dial-timeout=2s", "--command-timeout=5s"])
        .args(words)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}
