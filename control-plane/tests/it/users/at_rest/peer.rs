//! Kubernetes' own code opens what ours sealed, and ours opens what it sealed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use testkit::Kubernetes;

use super::{PLAIN, SECRETS, Sealed, assert_password, contains, entry, provider, secret};

/// Kubernetes' transformers behind a pipe.
pub(super) struct Peer {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// With a configuration file that it must accept.
    pub(super) fn start(program: &Path, file: &Path) -> Peer {
        let mut process = Command::new(program)
            .arg("values")
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut peer = Peer {
            questions: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        };
        assert_eq!(peer.line(), "loaded");
        peer
    }

    /// Opens the value of a key; also returns whether it is stale.
    pub(super) fn open(&mut self, resource: &str, key: &str, value: &[u8]) -> (Vec<u8>, bool) {
        let answer = self.ask("open", resource, key, value);
        let (opened, stale) = match answer.strip_suffix(" stale") {
            Some(opened) => (opened, true),
            None => (answer.as_str(), false),
        };
        let opened = STANDARD.decode(opened);
        (opened.unwrap_or_else(|_| panic!("{answer}")), stale)
    }

    pub(super) fn seal(&mut self, resource: &str, key: &str, value: &[u8]) -> Vec<u8> {
        let answer = self.ask("seal", resource, key, value);
        STANDARD
            .decode(&answer)
            .unwrap_or_else(|_| panic!("{answer}"))
    }

    fn ask(&mut self, what: &str, resource: &str, key: &str, value: &[u8]) -> String {
        let value = STANDARD.encode(value);
        writeln!(self.questions, "{what} {resource} {key} {value}").unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn kubernetes_opens_what_we_seal_and_we_open_what_it_seals() {
    let Some(program) = Kubernetes::Sealed.or_skip("values sealed by Kubernetes") else {
        return;
    };
    for name in ["aescbc", "aesgcm", "secretbox"] {
        let sealed = Sealed::start(&entry("secrets", &provider(name, "k")), &[]);
        let mut peer = Peer::start(&program, &sealed.file());
        sealed
            .call("POST", SECRETS)
            .json(&secret("ours"))
            .send()
            .expect(201);
        let key = "/registry/secrets/default/ours";
        let (opened, stale) = peer.open("secrets", key, &sealed.raw(key));
        assert!(
            opened.starts_with(b"k8s\0") && contains(&opened, PLAIN),
            "{name}"
        );
        assert!(!stale, "{name}");
        let key = "/registry/secrets/default/theirs";
        let object = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "theirs", "namespace": "default", "uid": "u"},
            "data": {"password": STANDARD.encode(PLAIN)}, "type": "Opaque"});
        let value = peer.seal("secrets", key, object.to_string().as_bytes());
        sealed.put_raw(key, value);
        assert_password(&sealed.get(&format!("{SECRETS}/theirs")).expect(200));
    }
}

/// What Kubernetes refuses, ours refuses with the same reasons; what it takes, ours takes.
#[test]
fn configurations_are_judged_as_kubernetes_judges_them() {
    let Some(program) = Kubernetes::Sealed.or_skip("configurations judged by Kubernetes") else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("encryption.yaml");
    for (resources, reason) in [
        (
            entry("secrets, '*.'", "{identity: {}}"),
            "they will be masked",
        ),
        (
            entry("secrets, secrets", "{identity: {}}"),
            "specified multiple times",
        ),
        (
            entry("'*.*', pods.example.com", "{identity: {}}"),
            "they will be masked",
        ),
        (entry("'*.apps', secrets", &provider("aesgcm", "a")), ""),
        (
            format!(
                "{}{}",
                entry("'*.'", "{identity: {}}"),
                entry("secrets", "{identity: {}}")
            ),
            "resource \"secrets\" is masked by earlier rule \"*.\"",
        ),
        (
            entry("secrets", "{aescbc: {keys: [{name: a, secret: YWJj}]}}"),
            "got 3, expected one of [16 24 32]",
        ),
        (
            entry("secrets", "{}"),
            "does not contain any of the expected providers",
        ),
        (
            entry("secrets", ""),
            "resources[0].providers: Required value",
        ),
        (
            entry("", "{identity: {}}"),
            "resources[0].resources: Required value",
        ),
        (
            entry(
                "secrets",
                "{kms: {apiVersion: v2, name: a, endpoint: 'tcp://a'}}",
            ),
            "unsupported scheme \"tcp\" for KMS provider, only unix is supported",
        ),
        (
            entry("secrets", "{kms: {name: a, endpoint: 'unix:///a'}}"),
            "Use KMSv2 instead.",
        ),
        (
            entry("secrets", "{secretbox: {keys: [{name: a, value: b}]}}"),
            "unknown field",
        ),
    ] {
        std::fs::write(&file, super::configuration(&resources)).unwrap();
        let output = Command::new(&program)
            .arg("values")
            .arg(&file)
            .stdin(Stdio::null())
            .output();
        let theirs = String::from_utf8(output.unwrap().stdout).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let ours = runtime.block_on(apiserver::AtRest::read(&file, false));
        match reason {
            "" => {
                assert_eq!(theirs.trim_end(), "loaded", "{resources}");
                ours.unwrap_or_else(|why| panic!("{resources}: {why}"));
            }
            reason => {
                assert!(theirs.contains(reason), "{resources}: {theirs}");
                let why = ours.err().unwrap_or_else(|| panic!("taken: {resources}"));
                assert!(why.contains(reason), "{resources}: {why}");
            }
        }
    }
}
