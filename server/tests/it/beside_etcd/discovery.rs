//! Members that find each other: in another cluster, or in DNS; etcd and Stele together, and what both
//! say when it does not work.

mod domain;

use std::path::Path;

use serde_json::Value as Json;
use testkit::{Server, Tools};

use crate::harness::fleet::{Process, ctl, wait};
use crate::harness::subject;

const STELE: &str = env!("CARGO_BIN_EXE_stele");

/// Lines that say why a member does not start.
const REFUSALS: &[&str] = &[
    "failed to verify flags",
    "discovery failed",
    "discovery failed to join cluster",
    "failed to bootstrap; discovery token was already used",
    "do not reuse discovery token; generate a new one to bootstrap a cluster",
];

/// The lines of a log that say why a member does not start, each with its error.
fn refusals(log: &str) -> Vec<String> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let refusal = |line: Json| {
        let message = line["msg"].as_str()?.to_owned();
        let level = line["level"].as_str()?;
        let error = line["error"].as_str().unwrap_or_default();
        let is_one = REFUSALS.contains(&&*message);
        is_one.then(|| format!("{level}: {message}: {error}"))
    };
    lines.filter_map(refusal).collect()
}

/// What a member with these flags says before it ends.
fn said(program: impl AsRef<Path>, flags: &[String]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut member = Process::new(program, dir.path(), "m");
    flags.iter().for_each(|flag| member.flag(flag.clone()));
    member.start();
    let member = std::cell::RefCell::new(member);
    let has_ended = || !member.borrow_mut().is_alive();
    wait("the end of a member", has_ended, || member.borrow().log());
    refusals(&member.borrow().log())
}

/// A cluster in which members register.
struct Registry {
    server: Server,
    tools: Tools,
    dir: tempfile::TempDir,
}

impl Registry {
    fn start(tools: Tools) -> Registry {
        let server = subject::launch().start();
        Registry {
            server: server.unwrap_or_else(|error| panic!("{error}")),
            tools,
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn put(&self, key: &str, value: &str) {
        let key = format!("/_etcd/registry/{key}");
        self.run(&["put", &key, value]);
    }

    fn run(&self, words: &[&str]) {
        let done = ctl(&self.tools, &self.server.url(), self.dir.path(), words);
        done.unwrap_or_else(|| panic!("{words:?}"));
    }

    fn flags(&self, token: &str, others: &[&str]) -> Vec<String> {
        let url = self.server.url();
        let mut flags = vec![
            format!("--discovery-token={token}"),
            format!("--discovery-endpoints={url},http://127.0.0.1:1"),
        ];
        flags.extend(others.iter().map(|flag| (*flag).to_owned()));
        flags
    }
}

/// Waits until all these have formed one cluster, and returns its members' names.
fn names(tools: &Tools, dir: &Path, members: &[Process]) -> Vec<String> {
    let list = || ctl(tools, &members[0].url, dir, &["member", "list"]);
    let logs = || members.iter().map(Process::log).collect::<String>();
    let are_up = || list().is_some_and(|list| list.matches("started").count() == members.len());
    wait("the cluster", are_up, logs);
    let list = list().unwrap();
    let mut names: Vec<String> = list
        .lines()
        .filter_map(|line| Some(line.split(", ").nth(2)?.to_owned()))
        .collect();
    names.sort();
    names
}

#[test]
fn members_register_and_wait_for_the_others() {
    let Some(tools) = Tools::or_skip("discovery") else {
        return;
    };
    let registry = Registry::start(tools);
    registry.put("t/_config/size", "3");
    let dir = registry.dir.path();
    let program = |name: &str| match name {
        "etcd" => registry.tools.etcd.clone(),
        _ => STELE.into(),
    };
    let member = |name: &str| {
        let mut member = Process::new(program(name), dir, name);
        for flag in registry.flags("t", &[]) {
            member.flag(flag);
        }
        member.start();
        member
    };
    let mut members = vec![member("a")];
    let waiting = || {
        members[0]
            .log()
            .contains("waiting for peers from discovery service")
    };
    wait("the first member", waiting, || members[0].log());
    members.extend([member("etcd"), member("b")]);
    assert_eq!(names(&registry.tools, dir, &members), ["a", "b", "etcd"]);
    // One more is too many.
    let flags = registry.flags("t", &[]);
    let refused = said(STELE, &flags);
    assert_eq!(refused, said(&registry.tools.etcd, &flags));
    let first = "error: discovery failed to join cluster: discovery: cluster is full";
    assert_eq!(refused[0], first);
    // The registry is needed no more.
    let logged = |text: &str| members[0].log().contains(text);
    assert!(!logged("discovery token is ignored"));
    drop(registry.server);
    members[0].kill();
    members[0].start();
    let logged = |text: &str| members[0].log().contains(text);
    let is_up = || logged("ready to serve client requests");
    wait("the restarted member", is_up, || members[0].log());
    assert!(logged(
        "discovery token is ignored since cluster already initialized"
    ));
}

#[test]
fn a_registry_that_refuses_is_quoted_as_by_etcd() {
    let Some(tools) = Tools::or_skip("refusals of discovery") else {
        return;
    };
    let registry = Registry::start(tools);
    let sizes = [("zero", "0"), ("word", "three"), ("one", "1")];
    for (token, size) in sizes {
        registry.put(&format!("{token}/_config/size"), size);
    }
    registry.put("one/members/1", "x=http://127.0.0.1:1");
    // URLs of another member that make no sense. Whoever registers beside it leaves its key behind.
    for token in ["a", "b"] {
        registry.put(&format!("{token}/_config/size"), "2");
        registry.put(&format!("{token}/members/1"), "x=http://127.0.0.1");
    }
    let stele = said(STELE, &registry.flags("a", &[]));
    assert!(
        stele[0].ends_with("discovery: invalid peer URL"),
        "{stele:?}"
    );
    assert_eq!(stele, said(&registry.tools.etcd, &registry.flags("b", &[])));
    for (token, others) in [
        ("nobody", &[][..]),
        ("zero", &[]),
        ("word", &[]),
        ("one", &[]),
        ("one", &["--initial-cluster-state=existing"]),
        ("one", &["--discovery-cacert=/nowhere"]),
        ("one", &["--discovery-cert=/nowhere"]),
        ("one", &["--discovery-srv=a"]),
        // Passwords are for clusters with users.
        (
            "nobody",
            &["--discovery-user=root", "--discovery-password=x"],
        ),
    ] {
        let flags = registry.flags(token, others);
        let etcd = said(&registry.tools.etcd, &flags);
        assert!(!etcd.is_empty(), "{flags:?}");
        assert_eq!(said(STELE, &flags), etcd, "{flags:?}");
    }
    for words in [
        &["user", "add", "root:secret"][..],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        registry.run(words);
    }
    for password in ["wrong", "secret"] {
        let password = format!("--discovery-password={password}");
        let flags = registry.flags("nobody", &["--discovery-user=root", &password]);
        assert_eq!(said(STELE, &flags), said(&registry.tools.etcd, &flags));
    }
}

#[test]
fn a_registry_that_cannot_be_reached_is_asked_again_and_again() {
    let nobody = ["--discovery-token=t", "--discovery-endpoints=127.0.0.1:1"].map(str::to_owned);
    let others = ["--discovery-request-timeout=200ms".to_owned()];
    let dir = tempfile::tempdir().unwrap();
    let mut member = Process::new(STELE, dir.path(), "m");
    let flags = [&nobody[..], &others].concat();
    flags.into_iter().for_each(|flag| member.flag(flag));
    member.start();
    let tried = || member.log().matches("context deadline exceeded").count();
    wait("a second attempt", || tried() > 1, || member.log());
    for text in [
        "failed to get cluster size from discovery service",
        r#""reason":"cluster status check","backoff":"2s""#,
    ] {
        assert!(member.log().contains(text), "{text}: {}", member.log());
    }
    // A user's token must be had in time.
    let Some(tools) = Tools::or_skip("refusals of discovery") else {
        return;
    };
    let others = ["user=a", "password=b", "dial-timeout=300ms"];
    let others = others.map(|flag| format!("--discovery-{flag}"));
    let flags = [&nobody[..], &others].concat();
    assert_eq!(said(STELE, &flags), said(&tools.etcd, &flags));
}
