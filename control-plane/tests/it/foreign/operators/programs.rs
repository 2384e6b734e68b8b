//! How the operators in `tests/clients` are made and started.
//!
//! The first run of a test fetches the libraries from their language's registry and keeps them in
//! the target folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::cluster::told;

/// Commands from the folder of the sources and the folder of what is made of them.
type Commands = fn(&Path, &Path) -> Vec<Command>;

pub(super) struct Program {
    pub(super) name: &'static str,
    /// The folder in `tests/clients`, and the one in the target folder.
    pub(super) folder: &'static str,
    /// Tools that the machine must have, each with its option for the version.
    pub(super) tools: &'static [(&'static str, &'static str)],
    /// The file that names the libraries: they are fetched again only if it changes.
    pub(super) manifest: &'static str,
    pub(super) fetch: Commands,
    pub(super) build: Commands,
    pub(super) run: fn(&Path, &Path) -> Command,
}

impl Program {
    /// The command that runs the operator, once it is built. `None` if a tool is absent.
    pub(super) fn command(&self) -> Option<Command> {
        let test = format!("the operator with {}", self.name);
        let mut tools = self.tools.iter();
        if !tools.all(|(tool, version)| testkit::has_or_skip(tool, &[version], &test)) {
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        let source = source.join(self.folder);
        let built = testkit::target_dir().join("clients").join(self.folder);
        let wanted = std::fs::read(source.join(self.manifest)).unwrap();
        let fetched = built.join("fetched");
        if std::fs::read(&fetched).ok() != Some(wanted.clone()) {
            // No library of an earlier fetch may be found in place of a new one.
            if built.exists() {
                std::fs::remove_dir_all(&built).unwrap();
            }
            std::fs::create_dir_all(&built).unwrap();
            (self.fetch)(&source, &built).into_iter().for_each(run);
            std::fs::write(fetched, wanted).unwrap();
        }
        (self.build)(&source, &built).into_iter().for_each(run);
        Some((self.run)(&source, &built))
    }
}

fn run(mut command: Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", told(&output));
}

/// A program that works in a folder.
fn program(name: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut program = Command::new(name);
    program.current_dir(folder);
    program
}

pub(super) fn fetch_python(source: &Path, built: &Path) -> Vec<Command> {
    let mut venv = program("python3", built);
    venv.args(["-m", "venv", "--clear", "venv"]);
    let pip: PathBuf = built.join("venv/bin/pip");
    let mut fetch = program(pip, source);
    fetch.args(["install", "--quiet", "--disable-pip-version-check"]);
    fetch.args(["-r", "requirements.txt"]);
    vec![venv, fetch]
}

pub(super) fn run_python(source: &Path, built: &Path) -> Command {
    let mut operator = program(built.join("venv/bin/python"), source);
    operator.args(["-B", "operator_story.py"]);
    operator
}

pub(super) fn fetch_java(source: &Path, built: &Path) -> Vec<Command> {
    let mut fetch = program("mvn", source);
    fetch.args(["-q", "-B", "dependency:copy-dependencies"]);
    fetch.arg(format!("-DoutputDirectory={}", built.join("lib").display()));
    vec![fetch]
}

pub(super) fn build_java(source: &Path, built: &Path) -> Vec<Command> {
    let mut build = program("javac", built);
    build.args(["-cp", "lib/*", "-d", "classes"]);
    build.args(["Operator.java", "Shop.java"].map(|file| source.join(file)));
    vec![build]
}

pub(super) fn run_java(_: &Path, built: &Path) -> Command {
    let mut operator = program("java", built);
    // It runs for seconds: optimizing for long runs would cost more than it saves.
    operator.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    operator.args(["-cp", "classes:lib/*", "Operator"]);
    operator
}
