//! Exact comparison with Kubernetes' own apiserver: codes, errors, defaults, tables.
//! `surface/*.txt` holds requests and responses; lines that begin with `=` are Kubernetes'
//! response, and lines with `~` are ours where it differs.
//!
//! `STELE_SURFACE=go UPDATE=1` runs Kubernetes again and writes its responses; `UPDATE=1` alone
//! writes where ours differ, so that a review shows each difference that appears or disappears.

pub(crate) mod normal;
mod script;

use script::{Block, Script};
use testkit::Kubernetes;

use crate::foreign::golden;
use crate::foreign::swap::world::World;
use crate::harness::cluster::kubectl_or_skip;

#[test]
fn paths_bodies_and_patches_are_answered_as_by_kubernetes() {
    play("wire");
}

#[test]
fn pods_are_answered_as_by_kubernetes() {
    play("pods");
}

#[test]
fn addresses_of_pods_are_answered_as_by_kubernetes() {
    play("pod_addresses");
}

#[test]
fn states_of_containers_are_answered_as_by_kubernetes() {
    play("pod_states");
}

#[test]
fn statuses_of_nodes_and_claims_are_answered_as_by_kubernetes() {
    play("statuses");
}

#[test]
fn other_kinds_are_answered_as_by_kubernetes() {
    play("kinds");
}

#[test]
fn lists_and_watches_are_answered_as_by_kubernetes() {
    play("lists");
}

#[test]
fn who_may_do_what_is_answered_as_by_kubernetes() {
    play("who");
}

#[test]
fn versions_of_custom_resources_are_answered_as_by_kubernetes() {
    play("versions");
}

#[test]
fn plugins_of_admission_decide_as_in_kubernetes() {
    play("plugins");
}

/// Scripts about services, and where those get their addresses.
const SERVICES: [(&str, &str); 4] = [
    ("two_families", "10.96.0.0/16,fd00:10:96::/112"),
    ("ipv6_alone", "fd00:10:96::/112"),
    ("ways_in", "fd00:10:96::/112,10.96.0.0/16"),
    ("old_addresses", "10.96.0.0/16,fd00:10:96::/112"),
];

#[test]
fn services_of_two_families_are_answered_as_by_kubernetes() {
    let [both, ..] = SERVICES;
    play_with(both);
}

#[test]
fn services_of_ipv6_alone_are_answered_as_by_kubernetes() {
    let [_, alone, ..] = SERVICES;
    play_with(alone);
}

#[test]
fn ways_into_services_are_answered_as_by_kubernetes() {
    let [.., ways_in, _] = SERVICES;
    play_with(ways_in);
}

#[test]
fn addresses_of_earlier_forms_are_kept_as_by_kubernetes() {
    let [.., old] = SERVICES;
    play_with(old);
}

/// They are short enough to ask Kubernetes each time whether it still says so.
#[test]
fn kubernetes_answers_about_services_as_recorded() {
    let test = "Kubernetes' own answers about services";
    if golden::updates() || !kubectl_or_skip(test) || Kubernetes::Apiserver.or_skip(test).is_none()
    {
        return;
    }
    for script in SERVICES {
        // Its repair of addresses may bring back one that was just released, as its cache is older: a
        // difference counts if it is there again.
        if !differences(true, script).is_empty() {
            play_on(true, script);
        }
    }
}

fn play(name: &str) {
    play_with((name, "10.96.0.0/16"));
}

/// Plays a script where services have these addresses.
fn play_with(script: (&str, &str)) {
    if kubectl_or_skip("the comparison with Kubernetes' apiserver") {
        play_on(golden::asks_go("STELE_SURFACE"), script);
    }
}

fn play_on(go: bool, script: (&str, &str)) {
    let wrong = differences(go, script);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Plays a script, and returns what is answered otherwise than it says.
fn differences(go: bool, (name, service_ranges): (&str, &str)) -> Vec<String> {
    let update = golden::updates();
    let path = golden::path(&format!("surface/{name}.txt"));
    let mut script = Script::read(&std::fs::read_to_string(&path).unwrap());
    let (world, address) = World::apiserver_alone_with(go, service_ranges);
    let mut wrong = Vec::new();
    for block in &mut script.blocks {
        if let Some((key, value)) = block.stored() {
            world.store(key, value);
            continue;
        }
        let answer = block.send(&address);
        match (go, update) {
            (true, true) => block.kubernetes = answer,
            (false, true) if answer == block.kubernetes => block.ours.clear(),
            (false, true) => block.ours = answer,
            (true, false) => wrong.extend(difference(block, &block.kubernetes, &answer)),
            (false, false) => wrong.extend(difference(block, block.expected(), &answer)),
        }
    }
    if update {
        std::fs::write(&path, script.to_string()).unwrap();
    }
    wrong
}

fn difference(block: &Block, expected: &[String], answer: &[String]) -> Option<String> {
    let told = || {
        let (expected, answer) = (expected.join("\n  "), answer.join("\n  "));
        format!("{block}should be\n  {expected}\nand is\n  {answer}\n")
    };
    (expected != answer).then(told)
}
