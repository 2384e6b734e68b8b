//! `stele-kube test`, as the tests of an operator use it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::cluster::{BINARY, WITHIN, kubectl_or_skip, told};

/// A volume claim, which has a finalizer.
const CLAIM: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}"#;

fn begin(flags: &[&str]) -> (Child, PathBuf) {
    let mut command = Command::new(BINARY);
    let mut child = command
        .arg("test")
        .args(flags)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let kubeconfig = first_line(child.stdout.take().unwrap());
    (child, kubeconfig)
}

fn first_line(out: ChildStdout) -> PathBuf {
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).unwrap();
    PathBuf::from(line.trim_end())
}

fn kubectl(kubeconfig: &Path, args: &[&str]) -> String {
    let output = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(args)
        .env("HOME", kubeconfig.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn until_gone(path: &Path) {
    let end = Instant::now() + WITHIN;
    while path.exists() {
        assert!(Instant::now() < end, "{} is still there", path.display());
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn it_serves_when_its_first_line_is_there_and_leaves_nothing_behind() {
    if !kubectl_or_skip("a temporary cluster") {
        return;
    }
    let (mut child, kubeconfig) = begin(&[]);
    kubectl(&kubeconfig, &["create", "namespace", "n"]);
    kubectl(&kubeconfig, &["-n", "n", "run", "p", "--image=i"]);
    kubectl(
        &kubeconfig,
        &["-n", "n", "create", "deployment", "d", "--image=i"],
    );
    let file = kubeconfig.with_file_name("claim.json");
    std::fs::write(&file, CLAIM).unwrap();
    kubectl(
        &kubeconfig,
        &["-n", "n", "create", "-f", file.to_str().unwrap()],
    );
    // Of those for workloads only the namespace's loop, the garbage collector and the protection of
    // storage run.
    kubectl(&kubeconfig, &["delete", "namespace", "n"]);
    assert_eq!(
        kubectl(
            &kubeconfig,
            &["get", "pods,replicasets,pvc", "-A", "-o", "name"]
        ),
        ""
    );
    let id = child.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(!kubeconfig.parent().unwrap().exists());
}

#[test]
fn loops_scheduler_and_nodes_are_chosen_one_by_one() {
    if !kubectl_or_skip("a temporary cluster with nodes") {
        return;
    }
    let loops = "--controllers=*,-disruption,-nodeipam,route";
    let (mut child, kubeconfig) = begin(&[loops, "--scheduler", "--nodes=1"]);
    kubectl(&kubeconfig, &["create", "deployment", "d", "--image=i"]);
    kubectl(
        &kubeconfig,
        &["rollout", "status", "deployment/d", "--timeout=60s"],
    );
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(kubeconfig.parent().unwrap()).unwrap();

    let wrong = Command::new(BINARY)
        .args(["test", "--controllers=workloads"])
        .output()
        .unwrap();
    assert!(!wrong.status.success());
    assert!(
        told(&wrong).contains("\"workloads\" is not in the list of known controllers"),
        "{}",
        told(&wrong)
    );
}

#[test]
fn it_ends_with_the_process_that_started_it() {
    // The shell starts it, says where it is, and is killed.
    let mut shell = Command::new("sh")
        .args(["-c", "\"$0\" test & wait", BINARY])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let kubeconfig = first_line(shell.stdout.take().unwrap());
    assert!(kubeconfig.exists());
    shell.kill().unwrap();
    shell.wait().unwrap();
    until_gone(kubeconfig.parent().unwrap());
}
