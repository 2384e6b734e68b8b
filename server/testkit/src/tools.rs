//! etcd's own programs, built once from the Go modules under `benches/peers` into
//! `<target dir>/tools/bin`.
//!
//! Needs only the Go tool chain; the modules' `go.mod` and `go.sum` pin the versions.
#![expect(
    clippy::disallowed_methods,
    reason = "a test tool: builds programs and locks a file"
)]

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// etcd's server in each of its modules.
const SERVER: &str = "go.etcd.io/etcd/server/v3";

/// (module folder, package, name of the program)
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("etcd", SERVER, "etcd"),
    ("etcd", "go.etcd.io/etcd/etcdctl/v3", "etcdctl"),
    ("etcd", "go.etcd.io/etcd/etcdutl/v3", "etcdutl"),
    (
        "benchmark",
        "go.etcd.io/etcd/v3/tools/benchmark",
        "benchmark",
    ),
];

/// A minor version of etcd that a cluster may have members of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Minor {
    V3_5,
    V3_6,
    /// That of [`Tools`].
    V3_7,
}

impl Minor {
    /// etcd's server of this version, or `None` after printing which test is skipped and why. In CI
    /// nothing is skipped: without Go the test fails.
    pub fn etcd_or_skip(self, test: &str) -> Option<PathBuf> {
        match self.locate_etcd() {
            Ok(program) => Some(program),
            Err(missing) => {
                skip(test, &missing);
                None
            }
        }
    }

    fn locate_etcd(self) -> Result<PathBuf, Missing> {
        let (bin, _lock) = folder()?;
        let name = match self {
            Minor::V3_5 => "etcd-3.5",
            Minor::V3_6 => "etcd-3.6",
            Minor::V3_7 => "etcd",
        };
        let program = bin.join(name);
        build(&peers().join(name), SERVER, &program)?;
        Ok(program)
    }
}

/// Paths of the built programs.
#[derive(Clone, Debug)]
pub struct Tools {
    pub etcd: PathBuf,
    pub etcdctl: PathBuf,
    pub etcdutl: PathBuf,
    pub benchmark: PathBuf,
}

/// Why the tools are missing.
#[derive(Debug)]
pub struct Missing(pub(crate) String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

impl Tools {
    /// Builds what is missing or older than its `go.mod`; other processes that do the same wait.
    pub fn locate() -> Result<Tools, Missing> {
        let (bin, _lock) = folder()?;
        for (module, package, name) in PROGRAMS {
            build(&peers().join(module), package, &bin.join(name))?;
        }
        Ok(Tools {
            etcd: bin.join("etcd"),
            etcdctl: bin.join("etcdctl"),
            etcdutl: bin.join("etcdutl"),
            benchmark: bin.join("benchmark"),
        })
    }

    /// The tools, or `None` after printing which test is skipped and why. In CI nothing is skipped:
    /// without Go the test fails.
    pub fn or_skip(test: &str) -> Option<Tools> {
        match Tools::locate() {
            Ok(tools) => Some(tools),
            Err(missing) => {
                skip(test, &missing);
                None
            }
        }
    }
}

/// True if a program of the machine reports its version. Otherwise prints that the test is skipped;
/// in CI the test fails instead.
pub fn has_or_skip(program: &str, version: &[&str], test: &str) -> bool {
    let found = Command::new(program).args(version).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        skip(test, &format_args!("there is no {program}"));
    }
    found
}

/// Prints that a test is skipped, and why. In continuous integration nothing is skipped: there the
/// test fails.
pub fn skip(test: &str, why: &dyn fmt::Display) {
    assert!(!in_ci(), "{test} cannot run here: {why}");
    eprintln!("SKIPPED {test}: {why}");
}

/// True if this run belongs to continuous integration (`CI=true`).
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// The workspace's root folder.
pub fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .ancestors()
        .nth(2)
        .expect("this crate is at server/testkit")
        .to_path_buf()
}

/// The Go modules that pin the programs Stele is compared with.
pub(crate) fn peers() -> PathBuf {
    workspace_root().join("benches").join("peers")
}

/// Cargo's target folder, found from the running program: cargo marks it with a CACHEDIR.TAG.
pub fn target_dir() -> PathBuf {
    let program = std::env::current_exe().expect("a running program has a path");
    let tagged = program
        .ancestors()
        .skip(1)
        .find(|dir| dir.join("CACHEDIR.TAG").exists());
    match (tagged, std::env::var_os("CARGO_TARGET_DIR")) {
        (Some(dir), _) => dir.to_path_buf(),
        (None, Some(dir)) => PathBuf::from(dir),
        (None, None) => workspace_root().join("target"),
    }
}

/// The folder of built programs, and a lock that makes other building processes wait.
pub(crate) fn folder() -> Result<(PathBuf, File), Missing> {
    let bin = target_dir().join("tools").join("bin");
    let failed = |what: &str, error: std::io::Error| Missing(format!("{what}: {error}"));
    fs::create_dir_all(&bin).map_err(|e| failed("creating the tools' folder", e))?;
    let lock = File::create(bin.join(".lock")).map_err(|e| failed("creating the lock", e))?;
    lock.lock()
        .map_err(|e| failed("locking the tools' folder", e))?;
    Ok((bin, lock))
}

pub(crate) fn build(module: &Path, package: &str, program: &Path) -> Result<(), Missing> {
    go(module, &["build"], package, program)
}

/// Runs `go` with the words `how`, unless the program is newer than its `go.mod`.
pub(crate) fn go(
    module: &Path,
    how: &[&str],
    package: &str,
    program: &Path,
) -> Result<(), Missing> {
    let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified());
    let manifest = changed(&module.join("go.mod"))
        .map_err(|e| Missing(format!("{}: {e}", module.join("go.mod").display())))?;
    if changed(program).is_ok_and(|built| built >= manifest) {
        return Ok(());
    }
    // Built under another name and renamed: an interrupted build must not look like a finished
    // program.
    let fresh = program.with_added_extension("new");
    let output = Command::new("go")
        .args(how)
        .args(["-trimpath", "-buildvcs=false", "-o"])
        .arg(&fresh)
        .arg(package)
        .current_dir(module)
        .output()
        .map_err(|e| Missing(format!("the Go tool chain (`go`) cannot be run: {e}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Missing(format!(
            "go {} {package}: {}",
            how.join(" "),
            text.trim()
        )));
    }
    fs::rename(&fresh, program).map_err(|e| Missing(format!("{}: {e}", program.display())))
}
