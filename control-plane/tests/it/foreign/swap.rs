//! Runs the same scenarios on our parts and on Kubernetes' own, over our store: each step must leave
//! the same objects. Kubernetes' own apiserver reaches the store over TLS with a client
//! certificate; if all parts are Kubernetes' own, it finally continues over a unix socket.
//!
//! Kubernetes' results are kept in files, so our parts are compared without compiling Kubernetes.
//! `STELE_SWAP=all` compares every mix of parts with them; otherwise one mix is compared, in which the
//! named programs are Kubernetes' own, such as `STELE_SWAP=kube-scheduler`. `UPDATE=1` with it first
//! rewrites the files, from Kubernetes' own parts alone.

mod daemons;
mod jobs;
mod normal;
mod preemption;
mod scenario;
mod services;
mod stateful_sets;
mod volumes;
pub(crate) mod world;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use normal::Normal;
use serde_json::Value;
use testkit::Kubernetes;
use world::{Mix, World};

use crate::harness::cluster::kubectl_or_skip;

/// The timeout of a step. It is long because the machine may be busy with builds.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(250);
/// The cluster has settled if nothing changes for this time.
const SETTLED: Duration = Duration::from_secs(8);

const OURS: Mix = Mix {
    apiserver: false,
    loops: false,
    scheduler: false,
};
const KUBERNETES: Mix = Mix {
    apiserver: true,
    loops: true,
    scheduler: true,
};
const MIXES: [Mix; 5] = [
    OURS,
    KUBERNETES,
    Mix {
        apiserver: false,
        ..KUBERNETES
    },
    Mix {
        apiserver: true,
        ..OURS
    },
    Mix {
        scheduler: true,
        ..OURS
    },
];

#[test]
fn our_parts_leave_the_objects_that_kubernetes_leaves() {
    compare("deployments", "golden.txt", &SCENARIO, |world, mix| {
        if mix == KUBERNETES {
            world.restart_go_apiserver_on_the_socket();
            scenario::go_on(world);
        }
    });
}

/// Plays a scenario with our parts, or with the mixes that are asked for. `golden` is the file of
/// Kubernetes' result.
fn compare(what: &str, golden: &str, scenario: &Scenario, then: fn(&mut World, Mix)) {
    if !kubectl_or_skip(&format!("the comparison of {what} with Kubernetes")) {
        return;
    }
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/foreign/swap");
    let golden = directory.join(golden);
    let asked = std::env::var("STELE_SWAP").ok();
    if asked.is_some() && std::env::var_os("UPDATE").is_some() {
        let of_kubernetes = record(&World::start(KUBERNETES), scenario);
        std::fs::write(&golden, of_kubernetes).unwrap();
    }
    let golden = std::fs::read_to_string(golden).unwrap();
    for mix in asked.map_or_else(|| vec![OURS], |asked| mixes(&asked)) {
        eprintln!("{what}, of Kubernetes: {:?}", mix.programs());
        let mut world = World::start(mix);
        play(&world, scenario, &golden);
        then(&mut world, mix);
    }
}

/// The mixes to run.
fn mixes(asked: &str) -> Vec<Mix> {
    let is = |program: Kubernetes| asked.contains(program.name());
    match asked {
        "all" => MIXES.to_vec(),
        _ => vec![Mix {
            apiserver: is(Kubernetes::Apiserver),
            loops: is(Kubernetes::ControllerManager),
            scheduler: is(Kubernetes::Scheduler),
        }],
    }
}

/// A step: its name and its action.
pub(super) type Step = (&'static str, fn(&World));

/// A list of steps, and how to get all objects that are compared.
pub(super) struct Scenario {
    pub(super) steps: &'static [Step],
    pub(super) objects: fn(&World) -> Vec<Value>,
}

const SCENARIO: Scenario = Scenario {
    steps: &scenario::STEPS,
    objects: scenario::objects,
};

/// Plays a scenario; each step must lead to the result in the golden file.
pub(super) fn play(world: &World, scenario: &Scenario, golden: &str) {
    let mut normal = Normal::default();
    let mut before = BTreeSet::new();
    for (title, step) in scenario.steps {
        step(world);
        let wanted = section(golden, title);
        let begun = Instant::now();
        before = loop {
            let moment = normal.moment(&(scenario.objects)(world));
            let is = since(&before, &moment);
            if is == wanted {
                break moment;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{title}:\n{}",
                difference(wanted, &is)
            );
            sleep(POLL);
        };
    }
}

/// Plays a scenario and records the result of each step.
pub(super) fn record(world: &World, scenario: &Scenario) -> String {
    let mut normal = Normal::default();
    let mut out = String::new();
    let mut before = BTreeSet::new();
    for (title, step) in scenario.steps {
        step(world);
        let mut moment = BTreeSet::new();
        let mut settled = Instant::now();
        while settled.elapsed() < SETTLED {
            sleep(POLL);
            let now = normal.moment(&(scenario.objects)(world));
            if now != moment {
                (moment, settled) = (now, Instant::now());
            }
        }
        out += &format!("=== {title}\n{}", since(&before, &moment));
        before = moment;
    }
    out
}

/// The objects that these arguments of `kubectl get` list, without Events of these reasons.
pub(super) fn listed(world: &World, gets: &[&[&str]], without: &[&str]) -> Vec<Value> {
    let mut objects = Vec::new();
    for get in gets {
        let list = world.run(&[&["get", "-o", "json"], *get].concat());
        let mut list: Value = serde_json::from_str(&list).unwrap();
        objects.append(list["items"].as_array_mut().unwrap());
    }
    let is_without = |one: &Value| {
        let reason = one["reason"].as_str().unwrap_or_default();
        one["kind"] == "Event" && without.contains(&reason)
    };
    objects.retain(|one| !is_without(one));
    objects
}

/// The objects that are new in a moment, and those that are gone.
pub(super) fn since(before: &BTreeSet<String>, moment: &BTreeSet<String>) -> String {
    let gone = before.difference(moment).map(|gone| {
        let head = gone.lines().next().unwrap_or_default();
        format!("{} is no longer\n", head.replacen("---", "--- this", 1))
    });
    let new = moment.difference(before).cloned();
    new.chain(gone).collect()
}

pub(super) fn section<'a>(golden: &'a str, title: &str) -> &'a str {
    let head = format!("=== {title}\n");
    let (_, rest) = golden.split_once(&head).expect("the step is recorded");
    rest.split("=== ").next().unwrap_or_default()
}

/// The lines that are in only one text, grouped by object.
pub(super) fn difference(wanted: &str, is: &str) -> String {
    let (wanted, is): (Vec<&str>, Vec<&str>) = (objects(wanted), objects(is));
    let mut out = String::new();
    for object in wanted.iter().filter(|object| !is.contains(object)) {
        out += &format!("missing {}\n", trimmed(object, &is));
    }
    for object in is.iter().filter(|object| !wanted.contains(object)) {
        out += &format!("found   {}\n", trimmed(object, &wanted));
    }
    out
}

fn objects(text: &str) -> Vec<&str> {
    let objects = text.split("--- ").filter(|object| !object.is_empty());
    objects.collect()
}

/// The lines of an object that no object with its name on the other side has.
fn trimmed(object: &str, others: &[&str]) -> String {
    let head = object.lines().next().unwrap_or_default();
    let name = head.rsplit(' ').next();
    let same = others.iter().filter(|other| {
        other
            .lines()
            .next()
            .and_then(|head| head.rsplit(' ').next())
            == name
    });
    let known: Vec<&str> = same.flat_map(|other| other.lines()).collect();
    let lines = object.lines().skip(1);
    let lines = lines.filter(|line| !known.contains(line));
    let lines: Vec<&str> = lines.collect();
    format!("{head}\n  {}", lines.join("\n  "))
}
