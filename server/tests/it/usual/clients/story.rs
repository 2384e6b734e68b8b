//! Runs a client's story against Stele and etcd at the same time, and compares the output.
//!
//! A story is a program that gets the plain-text port, the TLS port and the folder of its
//! certificates. It prints one line per step, without times, ids and revisions. The line `restart`
//! asks for the server to be killed and restarted; a line on the story's input says that it serves
//! again.
#![expect(
    clippy::disallowed_methods,
    reason = "runs programs, with files of their own"
)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, ScopedJoinHandle};

use testkit::{Launch, Tools, has_or_skip};

use crate::harness::subject;
use crate::usual::tls::pki::{Authority, Wish};

/// Commands from the folder of a client's sources and from the one of what is made of them.
type Commands = fn(&Path, &Path) -> Vec<Command>;

pub(super) struct Client {
    pub(super) name: &'static str,
    /// Its sources in `tests/clients`; the same name in the target folder holds what is made of
    /// them.
    pub(super) folder: &'static str,
    /// What the machine must have, each with the word that asks for its version.
    pub(super) tools: &'static [(&'static str, &'static str)],
    /// The file that says what is fetched: while it stays the same, nothing is fetched again.
    pub(super) manifest: &'static str,
    pub(super) fetch: Commands,
    pub(super) build: Commands,
    pub(super) stories: Commands,
}

impl Client {
    pub(super) fn compare(self) {
        let Some(etcd) = Tools::or_skip(self.name) else {
            return;
        };
        let all = self.tools.iter();
        if !{ all }.all(|(tool, version)| has_or_skip(tool, &[version], self.name)) {
            return;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        let source = source.join(self.folder);
        let built = testkit::target_dir().join("clients").join(self.folder);
        self.prepare(&source, &built);
        let stories = || (self.stories)(&source, &built);
        thread::scope(|scope| {
            let begun = stories().into_iter().zip(stories()).map(|(ours, theirs)| {
                let theirs = scope.spawn(|| play(Launch::etcd(&etcd), theirs));
                (scope.spawn(|| play(subject::launch(), ours)), theirs)
            });
            // All of them are begun before the first is waited for.
            let begun: Vec<_> = begun.collect();
            for (ours, theirs) in begun {
                let (ours, theirs) = (told(ours), told(theirs));
                let all = ours.join("\n");
                let differ = ours
                    .iter()
                    .zip(&theirs)
                    .find(|(ours, theirs)| ours != theirs);
                assert_eq!(differ, None, "Stele's line, and etcd's, in\n{all}");
                assert_eq!(ours.len(), theirs.len(), "{all}");
                assert!(ours.len() > 1, "it told nothing: {all}");
            }
        });
    }

    /// Fetches what is new, and builds.
    fn prepare(&self, source: &Path, built: &Path) {
        let wanted = fs::read(source.join(self.manifest)).unwrap();
        let fetched = built.join("fetched");
        if fs::read(&fetched).ok() != Some(wanted.clone()) {
            // Of the last fetch nothing is left that could be found in place of the new.
            if built.exists() {
                fs::remove_dir_all(built).unwrap();
            }
            fs::create_dir_all(built).unwrap();
            { (self.fetch)(source, built) }.into_iter().for_each(run);
            fs::write(fetched, wanted).unwrap();
        }
        { (self.build)(source, built) }.into_iter().for_each(run);
    }
}

/// A program that works in a folder.
pub(super) fn program(name: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut program = Command::new(name);
    program.current_dir(folder);
    program
}

fn run(mut command: Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// Plays a story to its end; what it told.
fn play(launch: Launch, mut story: Command) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let (plain, tls) = (testkit::free_port(), testkit::free_port());
    let launch = launch
        .flag(format!(
            "--listen-client-urls=http://127.0.0.1:{plain},https://127.0.0.1:{tls}"
        ))
        .flags(&certificates(home.path()))
        // The shortest lease lasts a second then.
        .flags(&["--heartbeat-interval=20", "--election-timeout=200"])
        // What is kept at a kill depends on the story alone: tokens, for one, live on in etcd when
        // the entry that made them is applied anew.
        .flags(&["--bcrypt-cost=4", "--backend-batch-limit=1"]);
    let mut server = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let errors = home.path().join("stderr");
    let mut child = story
        .args([plain.to_string(), tls.to_string()])
        .arg(home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("{story:?}: {error}"));
    let mut answers = child.stdin.take().expect("stdin is piped");
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let mut told = Vec::new();
    for line in lines {
        let line = line.expect("a story writes text");
        if line == "restart" {
            server.kill_and_restart();
            // It may have given up meanwhile; its exit status tells.
            let _ = writeln!(answers, "restarted");
        }
        told.push(line);
    }
    let status = child.wait().expect("a child can be waited for");
    let errors = fs::read_to_string(errors).unwrap();
    let all = told.join("\n");
    let log = server.log();
    assert!(status.success(), "{status}: {all}\n{errors}\n{log}");
    told
}

/// Writes the authority's certificate, the server's, and one that names the user alice.
fn certificates(home: &Path) -> [String; 4] {
    let authority = Authority::new("authority");
    let ca = authority.write(&home.join("ca.pem"));
    let server = authority.sign(home, "server", &Wish::default());
    let alice = Wish {
        common_name: "alice",
        ..Wish::default()
    };
    authority.sign(home, "client", &alice);
    let flag = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
    [
        flag("cert-file", server.cert),
        flag("key-file", server.key),
        flag("trusted-ca-file", ca),
        "--client-cert-auth".to_owned(),
    ]
}

fn told(story: ScopedJoinHandle<'_, Vec<String>>) -> Vec<String> {
    { story.join() }.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
