//! Kubernetes' own Go client (`tests/clients/go`), and an operator's tests as its users write them
//! (`tests/clients/envtest`), as separate programs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::Tools;

use crate::harness::cluster::{BINARY, Cluster, kubectl_or_skip, told};

#[test]
fn client_gos_informers_and_elections_work() {
    if Tools::or_skip("Kubernetes' Go client").is_none() {
        return;
    }
    let program = built("go", &["build"], "client-go-scenario");
    let cluster = Cluster::start();
    let output = Command::new(program)
        .arg("-server")
        .arg(format!("http://{}", cluster.address))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", told(&output));
    assert!(said.ends_with("all is well\n"), "{said}");
}

/// The operator's author sets one variable and changes nothing else.
#[test]
fn an_operators_tests_run_on_the_binaries_that_envtest_starts() {
    let test = "controller-runtime's envtest";
    if Tools::or_skip(test).is_none() || !kubectl_or_skip(test) {
        return;
    }
    let program = built("envtest", &["test", "-c"], "envtest-operator");
    let assets = tempfile::tempdir().unwrap();
    for name in ["etcd", "kube-apiserver"] {
        symlink(BINARY, assets.path().join(name)).unwrap();
    }
    let kubectl = Command::new("sh")
        .args(["-c", "command -v kubectl"])
        .output();
    let kubectl = String::from_utf8(kubectl.unwrap().stdout).unwrap();
    symlink(kubectl.trim(), assets.path().join("kubectl")).unwrap();
    let output = Command::new(program)
        .env("KUBEBUILDER_ASSETS", assets.path())
        .env("HOME", assets.path())
        .current_dir(assets.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", told(&output));
}

/// Builds the Go program in a folder of `tests/clients`.
fn built(folder: &str, command: &[&str], name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(folder);
    let program = testkit::target_dir().join("tools/bin").join(name);
    let built = Command::new("go")
        .current_dir(folder)
        .args(command)
        .args(["-trimpath", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".")
        .status()
        .unwrap();
    assert!(built.success());
    program
}
