//! Thousands of requests to every built-in kind, compared with Kubernetes' own responses.
//!
//! The requests are generated: `objects/` has valid objects of each kind; one field of one is
//! changed, as its type in the schema suggests; and each kind is read and written in the ways that
//! all kinds share. `golden/` has Kubernetes' responses: errors in full, objects by how they differ
//! from the valid one. `differences.txt` has ours where they differ, each under a reason.
//!
//! `STELE_CORPUS=go UPDATE=1` runs Kubernetes again and writes its responses; `UPDATE=1` alone
//! writes where ours differ. `STELE_CORPUS_KINDS=pods,services` runs some kinds alone.

mod answer;
mod bases;
mod changed;
mod deletes;
mod draw;
mod fields;
mod golden;
mod mutation;
mod reads;
mod request;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use machinery::object;
use serde_json::{Value, json};

use crate::foreign::golden::{asks_go, updates};
use crate::foreign::swap::world::World;
use crate::harness::cluster::{WITHIN, kubectl_or_skip};
use crate::requests::http::{Answer, Call};
use bases::Bases;
use golden::{Difference, Differences, Golden, OPEN};
use request::{Like, Request};

/// Kinds that are asked at the same time.
const AT_ONCE: usize = 4;
/// The corpus is not to shrink.
const REQUESTS_MIN: usize = 5000;
const POLL: Duration = Duration::from_millis(50);

#[test]
fn every_kind_is_validated_and_defaulted_as_by_kubernetes() {
    if !kubectl_or_skip("the corpus of Kubernetes' responses") {
        return;
    }
    let go = asks_go("STELE_CORPUS");
    let update = updates();
    let chosen = std::env::var("STELE_CORPUS_KINDS").ok();
    let mut kinds = bases::all();
    if let Some(chosen) = &chosen {
        let chosen: BTreeSet<&str> = chosen.split(',').collect();
        kinds.retain(|kind| chosen.contains(kind.name().as_str()));
    }
    let (_world, address) = World::apiserver_alone(go);
    let answers = ask_all(&address, &kinds);
    let asked: usize = answers.values().map(|golden| golden.answers.len()).sum();
    assert!(
        chosen.is_some() || asked >= REQUESTS_MIN,
        "{asked} requests"
    );
    if go && update {
        for (kind, golden) in &answers {
            golden.write(kind);
        }
        return;
    }
    let mut known = Differences::read();
    if go {
        known.all.clear();
    }
    let mut wrong = compare(&answers, &mut known, update);
    let gone = drop_unasked(&answers, &mut known, chosen.is_none());
    if !update {
        wrong.extend(gone);
    }
    if update {
        known.write();
    }
    let open = known.all.values().filter(|one| one.reason == OPEN).count();
    let equal = asked - known.all.len().min(asked);
    println!("{asked} requests, {equal} equal, {open} not mended");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Compares responses with Kubernetes' and with the known differences; returns what is new.
fn compare(
    answers: &BTreeMap<String, Golden>,
    known: &mut Differences,
    update: bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (kind, ours) in answers {
        let kubernetes: BTreeMap<String, Vec<String>> =
            Golden::read(kind).answers.into_iter().collect();
        let asked: BTreeSet<&String> = ours.answers.iter().map(|(name, _)| name).collect();
        for name in kubernetes.keys().filter(|name| !asked.contains(name)) {
            wrong.push(format!(
                "{kind}: {name} is not asked any more: record again"
            ));
        }
        for (name, answer) in &ours.answers {
            let Some(right) = kubernetes.get(name) else {
                wrong.push(format!("{kind}: {name} has no response: record again"));
                continue;
            };
            let key = (kind.clone(), name.clone());
            let before = known.all.remove(&key);
            let expected = before.as_ref().map_or(right, |one| &one.ours);
            if answer != expected && !update {
                let (expected, answer) = (expected.join("\n  "), answer.join("\n  "));
                wrong.push(format!(
                    "{kind}: {name}\nshould be\n  {expected}\nand is\n  {answer}\n"
                ));
            }
            if answer != right {
                let reason = before.map_or(OPEN.to_owned(), |one| one.reason);
                let ours = answer.clone();
                known.all.insert(key, Difference { reason, ours });
            }
        }
    }
    wrong
}

/// Drops the differences of requests that are not sent any more, and reports them. Kinds that were
/// left out count only if all kinds were asked.
fn drop_unasked(
    answers: &BTreeMap<String, Golden>,
    known: &mut Differences,
    all: bool,
) -> Vec<String> {
    let mut gone = Vec::new();
    known.all.retain(|(kind, request), _| {
        let asked = match answers.get(kind) {
            Some(golden) => golden.answers.iter().any(|(name, _)| name == request),
            None => !all,
        };
        if !asked {
            gone.push(format!(
                "{kind}: {request} differs, but is not asked any more"
            ));
        }
        asked
    });
    gone
}

/// Sends all requests; kinds do not act on each other.
fn ask_all(address: &str, kinds: &[Bases]) -> BTreeMap<String, Golden> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(kind) = kinds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let golden = ask(address, kind);
                    answers.lock().unwrap().insert(kind.name(), golden);
                }
            });
        }
    });
    answers.into_inner().unwrap()
}

/// Sends all requests to one kind.
fn ask(address: &str, bases: &Bases) -> Golden {
    if bases.kind.namespaced() {
        prepare_namespace(address, &bases::namespace(&bases.kind));
    }
    let mut golden = Golden::default();
    let (stored, version) = store(address, bases, &mut golden);
    let mut valid = BTreeMap::new();
    for (name, _) in bases.objects.iter().filter(|(name, _)| name != "stored") {
        let request = changed::valid(bases, name);
        let answer = request.send(address, &version);
        golden
            .answers
            .push((request.name.clone(), answer::lines(&answer, None)));
        valid.extend(answer::object_of(&answer).map(|object| (name.clone(), object)));
    }
    let mut requests = changed::requests(bases);
    requests.extend(writes::requests(bases));
    if bases.kind.has_verb("get") {
        requests.extend(reads::requests(bases));
        requests.extend(deletes::requests(bases));
        requests.extend(deletes::life(bases));
    }
    let mut names = BTreeSet::new();
    requests.retain(|request| names.insert(request.name.clone()));
    for request in requests {
        let like = match &request.like {
            Like::Base => stored.as_ref(),
            Like::Made(name) => valid.get(name),
        };
        let lines = answer::lines(&request.send(address, &version), like);
        golden.answers.push((request.name, lines));
    }
    golden
}

fn post(address: &str, path: &str, object: &Value) -> Answer {
    Call::new(address, "POST", path).json(object).send()
}

/// Makes a namespace in which pods can be created.
fn prepare_namespace(address: &str, name: &str) {
    let namespace = json!({"metadata": {"name": name}});
    post(address, "/api/v1/namespaces", &namespace).expect(201);
    let account = json!({"metadata": {"name": "default"}});
    let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
    post(address, &path, &account).expect(201);
}

/// Stores the objects that are read and updated; returns the first and its version.
fn store(address: &str, bases: &Bases, golden: &mut Golden) -> (Option<Value>, String) {
    if !bases.kind.has_verb("get") {
        return (None, String::new());
    }
    let base = bases.base();
    let path = changed::stored_path(bases, "");
    let steps = [
        Some(Request::new("STORE", "POST", &bases.collection()).json(&base)),
        bases
            .kind
            .subresource("status")
            .filter(|_| base.get("status").is_some())
            .map(|_| Request::new("STORE status", "PUT", &format!("{path}/status")).json(&base)),
        bases
            .second()
            .map(|second| Request::new("STORE second", "POST", &bases.collection()).json(&second)),
    ];
    for step in steps.into_iter().flatten() {
        let answer = step.send(address, "");
        golden
            .answers
            .push((step.name, answer::lines(&answer, None)));
    }
    let settled = settled(address, bases, &path);
    let version = object::resource_version(&settled.object()).to_owned();
    (answer::object_of(&settled), version)
}

/// The stored object, when the apiserver itself has nothing more to write to it.
fn settled(address: &str, bases: &Bases, path: &str) -> Answer {
    let last = match bases.kind.plural() {
        "customresourcedefinitions" => Some("Established"),
        "apiservices" => Some("Available"),
        "flowschemas" => Some("Dangling"),
        _ => None,
    };
    let begun = Instant::now();
    loop {
        let answer = Call::new(address, "GET", path).send();
        let object = answer.object();
        let known = |kind: &str| {
            let conditions = object::items(&object, &["status", "conditions"]);
            conditions
                .iter()
                .any(|one| one["type"] == kind && (one["status"] == "True" || kind == "Dangling"))
        };
        if last.is_none_or(known) {
            return answer;
        }
        assert!(begun.elapsed() < WITHIN, "{path} has no conditions");
        thread::sleep(POLL);
    }
}
