//! The packages that start a cluster for an operator's tests (`packages/`), by their own tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use stele_test::{Cluster, StartError};

use crate::harness::cluster::{BINARY, told};

#[test]
fn rusts_cluster_serves_and_leaves_nothing_behind() {
    let cluster = Cluster::start_program(BINARY, &["--scheduler"]).unwrap();
    let kubeconfig = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let (_, server) = kubeconfig.split_once("https://").unwrap();
    let address = server.split(['"', '\n', ',']).next().unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    // It wants TLS, and says so.
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let directory = cluster.kubeconfig().parent().unwrap().to_owned();
    drop(cluster);
    assert!(!directory.exists());
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn rusts_cluster_that_cannot_start_says_why() {
    let error = Cluster::start_program(BINARY, &["--controllers=workloads"]).unwrap_err();
    let StartError::Ended(said) = error else {
        panic!("{error}");
    };
    assert!(
        said.contains("\"workloads\" is not in the list of known controllers"),
        "{said}"
    );
    let missing = Cluster::start_program("/nowhere/stele-kube", &[""; 0]).unwrap_err();
    assert!(missing.to_string().contains("STELE_KUBE"), "{missing}");
}

#[test]
fn gos_package_passes_its_tests() {
    if testkit::has_or_skip("go", &["version"], "the package for Go") {
        passes(Command::new("go").args(["test", "-count=1", "./..."]), "go");
    }
}

#[test]
fn pythons_package_passes_its_tests() {
    if testkit::has_or_skip("python3", &["--version"], "the package for Python") {
        passes(
            Command::new("python3").args(["-B", "-m", "unittest"]),
            "python",
        );
    }
}

#[test]
fn javas_package_passes_its_tests() {
    if !testkit::has_or_skip("javac", &["--version"], "the package for Java") {
        return;
    }
    let built = tempfile::tempdir().unwrap();
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all", "-Werror", "-d"]);
    javac.arg(built.path()).args([
        "src/main/java/stele/test/SteleCluster.java",
        "src/test/java/stele/test/Check.java",
    ]);
    passes(&mut javac, "java");
    let mut java = Command::new("java");
    passes(
        java.arg("-cp").arg(built.path()).arg("stele.test.Check"),
        "java",
    );
}

/// Runs a command in a package's folder.
fn passes(command: &mut Command, package: &str) {
    let folder = packages().join(package);
    let output = command.current_dir(folder).env("STELE_KUBE", BINARY);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
}

fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packages")
}
