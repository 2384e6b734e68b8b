//! Clients that others wrote, against the server as it is: etcd's own Go client with its
//! concurrency package, and the Rust crate `etcd-client`. The scenarios are programs of their own
//! (`tests/clients/`); they ask for a restart of the server by a line on their output.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::{Server, Tools};

use crate::subject;

#[test]
fn etcds_go_client_keeps_its_promises() {
    if Tools::or_skip("etcd's Go client").is_none() {
        return;
    }
    let program = built().join("go-scenario");
    let mut build = Command::new("go");
    build
        .current_dir(clients().join("go"))
        .arg("build")
        .arg("-o")
        .arg(&program)
        .arg(".");
    run(build);
    let mut server = started();
    let mut scenario = Command::new(program);
    scenario
        .arg("-endpoint")
        .arg(format!("127.0.0.1:{}", server.client_port()));
    drive(scenario, &mut server);
}

#[test]
fn the_etcd_client_crate_keeps_its_promises() {
    // Fetches the crate: like the Go client, only where real etcd could be fetched too.
    if Tools::or_skip("the etcd-client crate").is_none() {
        return;
    }
    let target = built().join("rust");
    let cargo = |package: &str| {
        let mut build = Command::new(env!("CARGO"));
        build
            .current_dir(clients().join("rust"))
            .args(["build", "--locked", "-p", package]);
        build
            .env("CARGO_TARGET_DIR", &target)
            .env("PROTOC", target.join("debug/protoc"));
        build
    };
    // The crate's build script wants a `protoc`; ours is made of a library.
    run(cargo("protoc"));
    run(cargo("scenario"));
    let mut server = started();
    let mut scenario = Command::new(target.join("debug/scenario"));
    scenario.arg(format!("127.0.0.1:{}", server.client_port()));
    drive(scenario, &mut server);
}

fn started() -> Server {
    subject::launch()
        .start()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a scenario to its end, restarting the server whenever it asks.
fn drive(mut scenario: Command, server: &mut Server) {
    let mut child = scenario
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{scenario:?}: {error}"));
    let mut answers = child.stdin.take().expect("stdin is piped");
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let mut said = Vec::new();
    for line in lines {
        let line = line.expect("the scenario writes text");
        if line == "restart" {
            server.kill_and_restart();
            // It may have given up meanwhile; its exit status tells.
            let _ = writeln!(answers, "restarted");
        }
        said.push(line);
    }
    let status = child.wait().expect("a child can be waited for");
    assert!(
        status.success(),
        "{status}: {}\n{}",
        said.join("\n"),
        server.log()
    );
    assert!(
        said.iter().any(|line| line == "restart"),
        "it never asked for a restart: {said:?}"
    );
}

fn run(mut command: Command) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Where the scenarios are built, kept between runs.
fn built() -> PathBuf {
    testkit::target_dir().join("clients")
}
