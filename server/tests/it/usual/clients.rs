//! Third-party clients, each with its own story (`tests/clients/`): keys, transactions, leases,
//! locks, elections, watches over a restart, users, TLS. A story runs against Stele and against
//! etcd, and the client must see the same.
//!
//! The first run of a test fetches the client's packages from its language's registry and keeps
//! them in the target folder.

mod story;

use std::path::Path;
use std::process::Command;

use story::{Client, program};

#[test]
fn etcds_go_client_sees_what_it_sees_of_etcd() {
    Client {
        name: "etcd's Go client",
        folder: "go",
        tools: &[("go", "version")],
        manifest: "go.sum",
        fetch: |_, _| Vec::new(),
        build: |source, built| {
            let mut build = program("go", source);
            build.args(["build", "-o"]).arg(built.join("scenario"));
            vec![build]
        },
        stories: |_, built| vec![Command::new(built.join("scenario"))],
    }
    .compare();
}

#[test]
fn the_etcd_client_crate_sees_what_it_sees_of_etcd() {
    fn cargo(package: &str, source: &Path, built: &Path) -> Command {
        let mut build = program(env!("CARGO"), source);
        build.args(["build", "--quiet", "--locked", "-p", package]);
        // The crate's build script wants a `protoc`; ours is made of a library.
        build
            .env("CARGO_TARGET_DIR", built)
            .env("PROTOC", built.join("debug/protoc"));
        build
    }
    Client {
        name: "the etcd-client crate",
        folder: "rust",
        tools: &[],
        manifest: "Cargo.lock",
        fetch: |source, built| vec![cargo("protoc", source, built)],
        build: |source, built| vec![cargo("scenario", source, built)],
        stories: |_, built| vec![Command::new(built.join("debug/scenario"))],
    }
    .compare();
}

#[test]
fn jetcd_sees_what_it_sees_of_etcd() {
    Client {
        name: "jetcd",
        folder: "java",
        tools: &[("javac", "--version"), ("mvn", "--version")],
        manifest: "pom.xml",
        fetch: |source, built| {
            let mut fetch = program("mvn", source);
            fetch.args(["-q", "-B", "dependency:copy-dependencies"]);
            fetch.arg(format!("-DoutputDirectory={}", built.join("lib").display()));
            vec![fetch]
        },
        build: |source, built| {
            let mut build = program("javac", built);
            build.args(["-cp", "lib/*", "-d", "classes"]);
            build.arg(source.join("Story.java"));
            vec![build]
        },
        stories: |_, built| {
            let mut story = program("java", built);
            // It lives for seconds: what speeds long runs up would cost more than the story.
            story.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
            story.args(["-cp", "classes:lib/*", "Story"]);
            vec![story]
        },
    }
    .compare();
}

#[test]
fn npms_etcd3_sees_what_it_sees_of_etcd() {
    Client {
        name: "npm's etcd3",
        folder: "node",
        tools: &[("node", "--version"), ("npm", "--version")],
        manifest: "package-lock.json",
        fetch: |source, built| {
            let copy = |name: &str| {
                let mut copy = program("cp", source);
                copy.arg(name).arg(built);
                copy
            };
            let mut fetch = program("npm", built);
            fetch.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
            fetch.arg("--ignore-scripts");
            vec![copy("package.json"), copy("package-lock.json"), fetch]
        },
        build: |_, _| Vec::new(),
        stories: |source, built| {
            let mut story = program("node", built);
            story.env("NODE_PATH", built.join("node_modules"));
            story.arg("--no-deprecation").arg(source.join("story.js"));
            vec![story]
        },
    }
    .compare();
}

#[test]
fn pythons_clients_see_what_they_see_of_etcd() {
    Client {
        name: "Python's etcd3 and etcd3gw",
        folder: "python",
        tools: &[("python3", "--version")],
        manifest: "requirements.txt",
        fetch: |source, built| {
            let mut venv = program("python3", built);
            venv.args(["-m", "venv", "--clear", "venv"]);
            let mut fetch = program(built.join("venv/bin/pip"), source);
            fetch.args(["install", "--quiet", "--disable-pip-version-check"]);
            fetch.args(["-r", "requirements.txt"]);
            vec![venv, fetch]
        },
        build: |_, _| Vec::new(),
        stories: |source, built| {
            let story = |name: &str| {
                let mut story = program(built.join("venv/bin/python"), source);
                // etcd3's generated code is older than protobuf's other implementation.
                story.env("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python");
                story.env("PYTHONDONTWRITEBYTECODE", "1").arg(name);
                story
            };
            vec![story("etcd3_story.py"), story("etcd3gw_story.py")]
        },
    }
    .compare();
}
