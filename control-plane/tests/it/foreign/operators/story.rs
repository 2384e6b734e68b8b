//! The changes that an operator has to follow, and the comparison after each.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::moment::Moments;
use super::programs::Program;
use super::relay::Relay;
use crate::foreign::swap::world::World;
use crate::foreign::swap::{difference, section, since};
use crate::harness::cluster::kubectl_or_skip;

/// The timeout of a step. It is long because the machine may be busy with builds.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// A recorded moment is over if nothing changes for this time.
const SETTLED: Duration = Duration::from_secs(6);

type Step = fn(&mut Story);

const STEPS: [(&str, Step); 8] = [
    ("a shop opens", |story| story.open("green", "hello")),
    ("its spec changes", |story| {
        story.change(r#"{"spec": {"greeting": "good day", "port": 8000}}"#);
    }),
    ("it is scaled", |story| {
        story.world.run(&["scale", "shop/green", "--replicas=5"]);
    }),
    ("its config map is deleted", |story| {
        story.world.run(&["delete", "configmap/green"]);
    }),
    ("things change while the operator is away", |story| {
        story.relay.cut();
        story.change(r#"{"spec": {"greeting": "good evening"}}"#);
        story.world.run(&["delete", "service/green"]);
        story.open("blue", "welcome");
    }),
    ("the operator reaches a new apiserver", |story| {
        story.world.restart_apiserver();
        story.reconnect();
    }),
    ("the shop is deleted while the operator is away", |story| {
        story.relay.cut();
        let delete = ["delete", "shop/green", "--wait=false"];
        story.world.run(&delete);
    }),
    ("the operator closes its ledger", |story| story.reconnect()),
];

/// Plays the story with an operator that is a program, unless a tool is absent.
pub(super) fn play(program: &Program) {
    let Some(mut command) = program.command() else {
        return;
    };
    let begin = move |kubeconfig: &Path, log: &Path| {
        let log = File::create(log).unwrap();
        command.env("KUBECONFIG", kubeconfig);
        command.stdin(Stdio::piped());
        command.stdout(log.try_clone().unwrap());
        command.stderr(log);
        let child = command.spawn();
        Running(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    };
    tell(program.name, begin, Running::end);
}

/// Plays the story with an operator, given how it begins and how it ends.
pub(super) fn tell<O>(
    name: &str,
    begin: impl FnOnce(&Path, &Path) -> O,
    end: impl FnOnce(O, &Path),
) {
    if !kubectl_or_skip(name) {
        return;
    }
    let go = std::env::var("STELE_OPERATORS").is_ok_and(|asked| asked == "go");
    let record = go && std::env::var_os("UPDATE").is_some();
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/it/foreign/operators/{name}.txt"));
    let mut story = Story::begin(go);
    let log = story.home.path().join("operator.log");
    let operator = begin(&story.kubeconfig(), &log);
    if record {
        std::fs::write(golden, story.record()).unwrap();
    } else {
        story.compare(&std::fs::read_to_string(golden).unwrap(), &log);
    }
    end(operator, &log);
}

struct Story {
    world: World,
    relay: Relay,
    home: TempDir,
    moments: Moments,
}

impl Story {
    fn begin(go: bool) -> Story {
        let story = Story {
            world: World::apiserver_bare(go),
            relay: Relay::start(),
            home: tempfile::tempdir().unwrap(),
            moments: Moments::default(),
        };
        story.world.create(include_str!("crd.yaml"));
        let wait = [
            "wait",
            "--for=condition=Established",
            "crd/shops.stele.test",
        ];
        story.world.run(&wait);
        story.reconnect();
        story
    }

    /// Lets the operator reach the apiserver.
    fn reconnect(&self) {
        let config = std::fs::read_to_string(self.world.kubeconfig()).unwrap();
        self.relay.open(server(&config));
    }

    /// The file by which the operator reaches the apiserver through the relay.
    fn kubeconfig(&self) -> PathBuf {
        let config = std::fs::read_to_string(self.world.kubeconfig()).unwrap();
        let direct = server(&config).to_string();
        let config = config.replace(&direct, &self.relay.address().to_string());
        let path = self.home.path().join("kubeconfig");
        std::fs::write(&path, config).unwrap();
        path
    }

    fn open(&self, name: &str, greeting: &str) {
        self.world.create(&format!(
            "apiVersion: stele.test/v1\nkind: Shop\nmetadata: {{name: {name}}}\n\
             spec: {{greeting: {greeting}}}\n"
        ));
    }

    fn change(&self, patch: &str) {
        let change = ["patch", "shop/green", "--type=merge", "--patch", patch];
        self.world.run(&change);
    }

    /// The objects now, and the table of shops.
    fn moment(&mut self) -> BTreeSet<String> {
        let kinds = "shops,configmaps,services,events";
        let list = ["get", kinds, "--output=json", "--show-managed-fields"];
        let mut list: Value = serde_json::from_str(&self.world.run(&list)).unwrap();
        let items = list["items"].as_array_mut().map(std::mem::take);
        let mut moment = self.moments.take(items.unwrap());
        let table = self.world.run(&["get", "shops"]);
        moment.insert(format!("--- table\n{table}"));
        moment
    }

    /// Plays all steps; returns what changes in each.
    fn record(&mut self) -> String {
        let mut out = String::new();
        let mut before = BTreeSet::new();
        for (title, step) in STEPS {
            step(self);
            let mut moment = self.moment();
            let mut settled = Instant::now();
            while settled.elapsed() < SETTLED {
                sleep(POLL);
                let now = self.moment();
                if now != moment {
                    (moment, settled) = (now, Instant::now());
                }
            }
            out += &format!("=== {title}\n{}", since(&before, &moment));
            before = moment;
        }
        out
    }

    /// Plays all steps; each must lead to the recorded objects.
    fn compare(&mut self, golden: &str, log: &Path) {
        let mut before = BTreeSet::new();
        for (title, step) in STEPS {
            step(self);
            let wanted = section(golden, title);
            let begun = Instant::now();
            before = loop {
                let moment = self.moment();
                let is = since(&before, &moment);
                if is == wanted {
                    break moment;
                }
                assert!(
                    begun.elapsed() < PATIENCE,
                    "{title}:\n{}\nThe operator: {}",
                    difference(wanted, &is),
                    std::fs::read_to_string(log).unwrap_or_default(),
                );
                sleep(POLL);
            };
        }
    }
}

/// The address in a kubeconfig.
fn server(kubeconfig: &str) -> SocketAddr {
    let (_, rest) = kubeconfig.split_once("https://").unwrap();
    let address = rest.split(['"', '\n', ',']).next().unwrap();
    address.trim().parse().unwrap()
}

/// An operator that runs until its input ends; killed when dropped.
struct Running(Child);

impl Running {
    /// Asks it to end, which it must do without an error.
    fn end(mut self, log: &Path) {
        drop(self.0.stdin.take());
        let status = self.0.wait().unwrap();
        let log = std::fs::read_to_string(log).unwrap_or_default();
        assert!(status.success(), "{status}: {log}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
