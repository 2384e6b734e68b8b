//! The tests that etcd's authors run against its program, built from the Go module
//! `benches/peers/etcd-tests`.

use std::path::PathBuf;
use std::process::Command;

use crate::tools::{Missing, folder, go, peers, skip};

const TESTS: &str = "go.etcd.io/etcd/tests/v3";

/// A package of etcd's tests.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Takes the flags of `go test`, with `-test.` before their names.
    pub program: PathBuf,
    /// Where it has to run: it finds its certificates from there.
    pub directory: PathBuf,
}

impl Suite {
    /// The package of this name, `common` or `e2e`; or `None` after printing which test is skipped
    /// and why. In CI the test fails instead.
    pub fn or_skip(name: &str, test: &str) -> Option<Suite> {
        match Suite::locate(name) {
            Ok(suite) => Some(suite),
            Err(missing) => {
                skip(test, &missing);
                None
            }
        }
    }

    fn locate(name: &str) -> Result<Suite, Missing> {
        let (bin, _lock) = folder()?;
        let (module, package) = (peers().join("etcd-tests"), format!("{TESTS}/{name}"));
        let program = bin.join(format!("{name}.test"));
        go(&module, &["test", "-c", "-tags", "e2e"], &package, &program)?;
        let listed = Command::new("go")
            .args(["list", "-f", "{{.Dir}}", "-tags", "e2e", &package])
            .current_dir(&module)
            .output()
            .map_err(|error| Missing(format!("go list {package}: {error}")))?;
        let directory = String::from_utf8_lossy(&listed.stdout).trim().to_owned();
        if directory.is_empty() {
            let why = String::from_utf8_lossy(&listed.stderr);
            return Err(Missing(format!("go list {package}: {}", why.trim())));
        }
        Ok(Suite {
            program,
            directory: directory.into(),
        })
    }
}
