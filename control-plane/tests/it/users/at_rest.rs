//! Values in the store that an `EncryptionConfiguration` seals: what the store has of them, who can
//! open them, and how keys are changed. Kubernetes' own code seals and opens beside ours.

mod kms;
mod peer;

use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use etcd_api::etcdserverpb as pb;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::Launch;

use crate::harness::cluster::{BINARY, WITHIN, apiserver};
use crate::requests::http::{Answer, Call};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// What must not be found in the store.
const PLAIN: &str = "correct horse battery staple";
/// Pause between two looks at something that takes a while.
const PAUSE: Duration = Duration::from_millis(100);

/// A store, and an apiserver with a configuration that tests change.
struct Sealed {
    store: testkit::Server,
    home: TempDir,
    apiserver: Child,
    address: String,
    flags: Vec<String>,
}

impl Sealed {
    /// Starts with a configuration that consists of these entries, and with these further flags.
    fn start(resources: &str, flags: &[&str]) -> Sealed {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("encryption.yaml");
        std::fs::write(&file, configuration(resources)).unwrap();
        let mut all = vec![format!("--encryption-provider-config={}", file.display())];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let (apiserver, address) = started(&store, &all);
        Sealed {
            store,
            home,
            apiserver,
            address,
            flags: all,
        }
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("encryption.yaml")
    }

    /// Writes a configuration of these entries.
    fn configure(&self, resources: &str) {
        // A server may be reading it.
        let new = self.home.path().join("new.yaml");
        std::fs::write(&new, configuration(resources)).unwrap();
        std::fs::rename(&new, self.file()).unwrap();
    }

    /// Kills the apiserver and starts it with the configuration as it is now.
    fn restart(&mut self) {
        let flags = self.flags.clone();
        self.restart_with(&flags);
    }

    fn restart_with(&mut self, flags: &[String]) {
        self.end();
        (self.apiserver, self.address) = started(&self.store, flags);
    }

    fn end(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.apiserver.kill();
        let _ = self.apiserver.wait();
    }

    fn call(&self, method: &str, path: &str) -> Call {
        Call::new(&self.address, method, path)
    }

    fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send()
    }

    /// Writes a secret back as it is; returns what it is then.
    fn put_unchanged(&self, name: &str) -> Value {
        let path = format!("{SECRETS}/{name}");
        let secret = self.get(&path).expect(200);
        self.call("PUT", &path).json(&secret).send().expect(200)
    }

    fn in_store<T>(&self, work: impl AsyncFnOnce(etcd_api::Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let client = etcd_api::Client::connect(self.store.url()).await;
            work(client.unwrap()).await
        })
    }

    /// The value that the store has of a key.
    fn raw(&self, key: &str) -> Vec<u8> {
        let request = pb::RangeRequest {
            key: key.as_bytes().to_vec().into(),
            ..Default::default()
        };
        let answer = self.in_store(async |client| client.kv().range(request).await.unwrap());
        let mut kvs = answer.into_inner().kvs;
        kvs.pop()
            .unwrap_or_else(|| panic!("no {key}"))
            .value
            .to_vec()
    }

    /// Writes a value into the store, beside the apiserver.
    fn put_raw(&self, key: &str, value: Vec<u8>) {
        let request = pb::PutRequest {
            key: key.as_bytes().to_vec().into(),
            value: value.into(),
            ..Default::default()
        };
        self.in_store(async |client| client.kv().put(request).await.unwrap());
    }

    /// The value of a secret begins with this.
    fn is_sealed_as(&self, name: &str, prefix: &str) {
        let raw = self.raw(&format!("/registry/secrets/default/{name}"));
        let shown = String::from_utf8_lossy(&raw[..raw.len().min(60)]).into_owned();
        assert!(raw.starts_with(prefix.as_bytes()), "{shown}");
    }

    /// Waits until something holds.
    fn until(&self, what: &str, holds: impl Fn(&Sealed) -> bool) {
        let end = Instant::now() + WITHIN;
        while !holds(self) {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.end();
    }
}

fn started(store: &testkit::Server, flags: &[String]) -> (Child, String) {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    apiserver(&store.url(), &flags)
}

fn configuration(resources: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n\
         resources:\n{resources}"
    )
}

/// An entry for these resources with these providers, in the flow style of YAML.
fn entry(resources: &str, providers: &str) -> String {
    format!("- resources: [{resources}]\n  providers: [{providers}]\n")
}

/// A provider with keys of 32 equal letters, each named by its letter.
fn provider(name: &str, letters: &str) -> String {
    let keys = letters.chars().map(|letter| {
        let secret = STANDARD.encode(letter.to_string().repeat(32));
        format!("{{name: {letter}, secret: '{secret}'}}")
    });
    let keys: Vec<String> = keys.collect();
    format!("{{{name}: {{keys: [{}]}}}}", keys.join(", "))
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name}, "stringData": {"password": PLAIN},
    })
}

fn assert_password(secret: &Value) {
    let password = secret["data"]["password"].as_str().unwrap();
    assert_eq!(STANDARD.decode(password).unwrap(), PLAIN.as_bytes());
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[test]
fn a_key_is_changed_without_a_value_in_the_clear_or_out_of_reach() {
    let old = provider("aescbc", "o");
    let mut sealed = Sealed::start(&entry("secrets", &old), &[]);
    for name in ["a", "b", "c"] {
        let created = sealed.call("POST", SECRETS).json(&secret(name)).send();
        created.expect(201);
        sealed.is_sealed_as(name, "k8s:enc:aescbc:v1:o:");
        let raw = sealed.raw(&format!("/registry/secrets/default/{name}"));
        assert!(!contains(&raw, PLAIN) && !contains(&raw, "password"));
    }
    // What the configuration does not name is as it was.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
        "data": {"password": PLAIN}});
    let maps = "/api/v1/namespaces/default/configmaps";
    sealed.call("POST", maps).json(&map).send().expect(201);
    assert!(contains(
        &sealed.raw("/registry/configmaps/default/m"),
        PLAIN
    ));

    // A new first key: all is readable, and a write without changes seals anew, once.
    sealed.configure(&entry("secrets", &provider("aescbc", "no")));
    sealed.restart();
    let before = sealed.get(SECRETS).expect(200);
    assert_eq!(before["items"].as_array().unwrap().len(), 3);
    for one in before["items"].as_array().unwrap() {
        assert_password(one);
    }
    let version = before["metadata"]["resourceVersion"].as_str().unwrap();
    sealed.is_sealed_as("a", "k8s:enc:aescbc:v1:o:");
    let rewritten = sealed.put_unchanged("a");
    assert_password(&rewritten);
    sealed.is_sealed_as("a", "k8s:enc:aescbc:v1:n:");
    assert_eq!(sealed.put_unchanged("a"), rewritten);
    let path = format!("{SECRETS}/b");
    let patch = sealed
        .call("PATCH", &path)
        .body("application/merge-patch+json", "{}");
    assert_password(&patch.send().expect(200));
    sealed.is_sealed_as("b", "k8s:enc:aescbc:v1:n:");
    // The state before that, from the store's history.
    let exact = format!("{SECRETS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let then = sealed.get(&exact).expect(200);
    assert_eq!(then["items"], before["items"]);

    // The old key is gone too early: nothing is guessed, left out or overwritten.
    sealed.configure(&entry("secrets", &provider("aescbc", "n")));
    sealed.restart();
    assert_password(&sealed.get(&format!("{SECRETS}/a")).expect(200));
    let key = "unable to transform key \"/registry/secrets/default/c\": no matching key was found";
    let lost = format!("{SECRETS}/c");
    sealed.get(&lost).refuses(500, "InternalError", key);
    sealed.get(SECRETS).refuses(500, "InternalError", key);
    let put = sealed.call("PUT", &lost).json(&secret("c")).send();
    put.refuses(500, "InternalError", key);
    let none: Vec<String> = Vec::new();
    sealed.restart_with(&none);
    let words = "identity transformer tried to read encrypted data";
    sealed.get(&lost).refuses(500, "InternalError", words);

    // With it, everything is there again.
    sealed.configure(&entry("secrets", &provider("aescbc", "no")));
    sealed.restart();
    assert_password(&sealed.get(&lost).expect(200));
}

#[test]
fn every_kind_of_write_seals() {
    let all = provider("secretbox", "k");
    let sealed = Sealed::start(&entry("'*.*'", &all), &[]);
    // What the server makes by itself.
    for key in [
        "/registry/namespaces/default",
        "/registry/services/specs/default/kubernetes",
    ] {
        assert!(
            sealed.raw(key).starts_with(b"k8s:enc:secretbox:v1:k:"),
            "{key}"
        );
    }
    let apply = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "applied"},
        "data": {"password": STANDARD.encode(PLAIN)}});
    let path = format!("{SECRETS}/applied?fieldManager=test");
    for _ in 0..2 {
        let call = sealed.call("PATCH", &path);
        let call = call.body("application/apply-patch+yaml", apply.to_string());
        assert!([200, 201].contains(&call.send().code));
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    sealed
        .call("POST", services)
        .json(&service)
        .send()
        .expect(201);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "notes.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "notes", "singular": "note", "kind": "Note", "listKind": "NoteList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    sealed
        .call("POST", definitions)
        .json(&definition)
        .send()
        .expect(201);
    let notes = "/apis/example.com/v1/namespaces/default/notes";
    sealed.until("the custom resource is served", |sealed| {
        sealed.get(notes).code == 200
    });
    let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "n"},
        "text": PLAIN});
    sealed.call("POST", notes).json(&note).send().expect(201);
    let request = pb::RangeRequest {
        key: b"/registry/".to_vec().into(),
        range_end: b"/registry0".to_vec().into(),
        ..Default::default()
    };
    let found = sealed.in_store(async |client| client.kv().range(request).await.unwrap());
    let found = found.into_inner().kvs;
    assert!(found.len() > 10, "{}", found.len());
    for kv in &found {
        let key = String::from_utf8_lossy(&kv.key);
        assert!(kv.value.starts_with(b"k8s:enc:secretbox:v1:k:"), "{key}");
    }
    let keys: Vec<_> = found
        .iter()
        .map(|kv| String::from_utf8_lossy(&kv.key))
        .collect();
    for key in [
        "/registry/example.com/notes/default/n",
        "/registry/secrets/default/applied",
    ] {
        assert!(keys.iter().any(|one| one == key), "{key}");
    }
}

#[test]
fn a_file_that_changes_is_taken_and_one_that_is_wrong_is_not() {
    let flag = "--encryption-provider-config-automatic-reload=true";
    let sealed = Sealed::start(&entry("secrets", &provider("aesgcm", "o")), &[flag]);
    sealed
        .call("POST", SECRETS)
        .json(&secret("a"))
        .send()
        .expect(201);
    sealed.is_sealed_as("a", "k8s:enc:aesgcm:v1:o:");
    let health = sealed.get("/readyz?verbose");
    let order = "[+]etcd-readiness ok\n[+]kms-providers ok\n[+]informer-sync ok\n";
    assert!(contains(&health.body, order));
    assert_eq!(sealed.get("/healthz/kms-providers").code, 200);
    assert_eq!(sealed.get("/livez/kms-providers").code, 404);

    sealed.configure(&entry("secrets", "{aesgcm: {keys: []}}"));
    // Nothing tells that a file was not taken, but the next one comes after it.
    sealed.configure(&entry("secrets", &provider("aesgcm", "no")));
    let raw = || sealed.raw("/registry/secrets/default/a");
    sealed.until("the new key seals", |sealed| {
        assert_password(&sealed.put_unchanged("a"));
        raw().starts_with(b"k8s:enc:aesgcm:v1:n:")
    });
    // Without the key nothing opens; once it is back, lists are whole again.
    sealed.configure(&entry("secrets", &provider("aesgcm", "x")));
    let lost = "no matching key was found";
    sealed.until("the old keys are gone", |sealed| {
        let body = sealed.get(&format!("{SECRETS}/a")).body;
        // The cache still has it, by the keys that it was opened with.
        let created = sealed.call("POST", SECRETS).json(&secret("b")).send();
        assert!([201, 409, 500].contains(&created.code), "{}", created.code);
        contains(&body, lost)
    });
    sealed.configure(&entry("secrets", &provider("aesgcm", "xno")));
    sealed.until("all is read again", |sealed| {
        let listed = sealed.get(SECRETS);
        listed.code == 200 && listed.object()["items"].as_array().unwrap().len() == 2
    });
}
