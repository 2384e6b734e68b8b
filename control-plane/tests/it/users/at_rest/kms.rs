//! Values whose keys a KMS plugin encrypts. The plugin is Kubernetes' own server of that contract.

use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use testkit::Kubernetes;

use super::peer::Peer;
use super::{PLAIN, SECRETS, Sealed, assert_password, contains, entry, secret};

const PREFIX: &str = "k8s:enc:kms:v2:plug:";
const KEY: &str = "/registry/secrets/default/a";

/// A plugin; it ends with its standard input.
struct Plugin {
    process: Child,
    _input: ChildStdin,
}

impl Plugin {
    fn start(program: &Path, socket: &Path, keys: &Path) -> Plugin {
        // One that ended left its socket behind.
        let _ = std::fs::remove_file(socket);
        let mut process = Command::new(program)
            .arg("plugin")
            .args([socket, keys])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Plugin {
            _input: process.stdin.take().unwrap(),
            process,
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn providers(socket: &Path) -> String {
    let socket = socket.display();
    format!("{{kms: {{apiVersion: v2, name: plug, endpoint: 'unix://{socket}', timeout: 1s}}}}")
}

fn keys(path: &Path, ids: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, ids).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[test]
fn a_plugin_encrypts_the_keys_of_values() {
    let Some(program) = Kubernetes::Sealed.or_skip("a KMS plugin") else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let (socket, file) = (home.path().join("kms.sock"), home.path().join("keys"));
    keys(&file, "first\n");
    // Without a plugin the server starts, and refuses what needs one.
    let mut sealed = Sealed::start(&entry("secrets", &providers(&socket)), &[]);
    let health = |sealed: &Sealed| sealed.get("/healthz").code;
    assert_eq!(health(&sealed), 500);
    let created = sealed.call("POST", SECRETS).json(&secret("a")).send();
    created.refuses(500, "InternalError", "KMS provider plug has no key yet");

    let plugin = Plugin::start(&program, &socket, &file);
    sealed.until("the plugin is found", |sealed| health(sealed) == 200);
    sealed
        .call("POST", SECRETS)
        .json(&secret("a"))
        .send()
        .expect(201);
    let raw = sealed.raw(KEY);
    sealed.is_sealed_as("a", PREFIX);
    assert!(!contains(&raw, PLAIN));
    // Kubernetes opens it with the same plugin, and we open what Kubernetes seals.
    let mut peer = Peer::start(&program, &sealed.file());
    let (opened, stale) = peer.open("secrets", KEY, &raw);
    assert!(contains(&opened, PLAIN) && !stale);
    let theirs = peer.seal("secrets", KEY, &opened);
    sealed.put_raw(KEY, theirs);
    assert_password(&sealed.get(&format!("{SECRETS}/a")).expect(200));

    // Another server asks the plugin for the seed; without a plugin nothing is shown or left out,
    // and when the plugin is back, lists are whole again.
    drop(plugin);
    sealed.restart();
    sealed.get(SECRETS).refuses(500, "InternalError", KEY);
    sealed
        .get(&format!("{SECRETS}/a"))
        .refuses(500, "InternalError", "failed to decrypt DEK");
    let _plugin = Plugin::start(&program, &socket, &file);
    sealed.until("lists are whole again", |sealed| {
        sealed.get(SECRETS).code == 200
    });
    assert_password(&sealed.get(&format!("{SECRETS}/a")).expect(200));

    // The plugin gets a new key: values of the old one are stale, and a write without changes takes
    // the new one. Then the old one can go.
    keys(&file, "first\nsecond\n");
    sealed.until("the new key seals", |sealed| {
        assert_password(&sealed.put_unchanged("a"));
        contains(&sealed.raw(KEY), "second")
    });
    keys(&file, "second\n");
    sealed.restart();
    assert_password(&sealed.get(&format!("{SECRETS}/a")).expect(200));

    // A plugin that is not healthy is seen in the server's health; what was opened stays readable.
    keys(&file, "second\n\n");
    sealed.until("the plugin fails", |sealed| health(sealed) == 500);
    let verbose = sealed.get("/readyz?verbose");
    assert!(contains(&verbose.body, "[-]kms-provider-0 failed"));
    assert_eq!(sealed.get("/healthz/kms-provider-0").code, 500);
    // A restart of the server mends no plugin.
    assert_eq!(sealed.get("/livez").code, 200);
    assert_eq!(sealed.get("/livez/kms-provider-0").code, 404);
    assert_password(&sealed.get(&format!("{SECRETS}/a")).expect(200));
    assert_metrics(&sealed);
}

/// What this server did since its last start.
fn assert_metrics(sealed: &Sealed) {
    // The hash of the key that the plugin calls "second".
    let second = "sha256:16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4";
    let metrics = String::from_utf8(sealed.get("/metrics").body).unwrap();
    let of_calls = "kms_operations_latency_seconds_count{provider_name=\"plug\",method_name=";
    for (name, labels) in [
        (
            "key_id_hash_total{transformation_type=\"from_storage\",provider_name=\"plug\",key_id_hash=",
            second,
        ),
        (
            "key_id_hash_status_last_timestamp_seconds{provider_name=\"plug\",key_id_hash=",
            second,
        ),
        ("dek_source_cache_size{provider_name=", "plug"),
        (of_calls, "/v2.KeyManagementService/Status"),
        (of_calls, "/v2.KeyManagementService/Decrypt"),
    ] {
        let sample = format!("\napiserver_envelope_encryption_{name}\"{labels}\"");
        assert!(metrics.contains(&sample), "{sample}: {metrics}");
    }
}
