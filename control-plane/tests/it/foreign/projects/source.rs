//! The files that a project publishes in its Go module.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A module of Go at a fixed version, with its checksum as in a `go.sum`.
pub(super) struct Module {
    pub(super) path: &'static str,
    pub(super) version: &'static str,
    pub(super) sum: &'static str,
}

impl Module {
    /// The folder with the module's files, or `None` after printing why the test is skipped.
    pub(super) fn or_skip(&self, test: &str) -> Option<PathBuf> {
        if !testkit::has_or_skip("go", &["version"], test) {
            return None;
        }
        let asked = format!("{}@{}", self.path, self.version);
        // Outside of any module, so that only this one is fetched and not what it needs.
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new("go")
            .args(["mod", "download", "-json", &asked])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let Some(found) = answer["Dir"].as_str() else {
            testkit::skip(test, &format_args!("{asked} cannot be fetched: {answer}"));
            return None;
        };
        assert_eq!(answer["Sum"], self.sum, "{asked}");
        Some(PathBuf::from(found))
    }
}

/// The files of a folder with an object of a kind, sorted.
pub(super) fn files_with(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let line = format!("kind: {kind}");
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .filter(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().any(|found| found == line)
        })
        .collect();
    paths.sort();
    paths
}
