//! Loops that are wrong on purpose: the crash tests must find the error, or they prove nothing.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::scenario::BEGINNING;
use super::simulation::{Loops, Simulation, kind};
use crate::cache::{Caches, Changed};
use crate::decision::{Decision, create, merge};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::meta;

const MARK: &str = "greeted";
const ACCOUNT: &str = "greeting";

/// Creates an account in every namespace, and marks the namespace with a label.
enum Greeter {
    /// Marks it first: a crash after that leaves the namespace without an account.
    Hasty,
    /// Creates the account first, each time with another name: a crash after that leaves two.
    Forgetful,
    /// Always uses the same name, and marks the namespace last.
    Careful,
}

impl Loop for Greeter {
    fn name(&self) -> &'static str {
        "greeter"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        if let Changed::Namespace(diff) = changed {
            diff.new
                .iter()
                .for_each(|one| wake(meta::key(&one.metadata)));
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let known = context.caches.namespaces.at(key);
        let marked = |one: &Namespace| {
            let labels = one.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.contains_key(MARK))
        };
        let Some(namespace) = known.filter(|one| !marked(one)) else {
            return Decision::nothing();
        };
        let name = meta::name(&namespace.metadata);
        let labels = json!({"metadata": {"labels": {MARK: "yes"}}});
        let mark = merge(kind("", "Namespace"), "", name, labels);
        let account = |account: &str, prefix: &str| {
            let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let metadata = ObjectMeta {
                namespace: text(name),
                name: text(account),
                generate_name: text(prefix),
                ..ObjectMeta::default()
            };
            create(&ServiceAccount {
                metadata,
                ..ServiceAccount::default()
            })
        };
        let made = context.caches.service_accounts.get(name, ACCOUNT).is_some();
        let calls = match self {
            Greeter::Hasty => vec![mark, account(ACCOUNT, "")],
            Greeter::Forgetful => vec![account("", "greeting-"), mark],
            Greeter::Careful if made => vec![mark],
            Greeter::Careful => vec![account(ACCOUNT, ""), mark],
        };
        let mut decision = Decision::nothing();
        for call in calls {
            decision.push(call);
        }
        decision
    }
}

/// The number of crash points that lead to another final state.
fn found(loops: Loops) -> usize {
    let end = |crash_after| {
        let mut simulation = Simulation::of(loops, 1, crash_after);
        BEGINNING.play(&mut simulation);
        (simulation.normalised(), simulation.writes())
    };
    let (expected, writes) = end(None);
    assert!(writes > BEGINNING.writes_min);
    let crashes = 1..=writes;
    crashes
        .filter(|crash| end(Some(*crash)).0 != expected)
        .count()
}

#[test]
fn crashes_find_loops_that_count_on_their_next_write() {
    assert!(found(|| vec![Box::new(Greeter::Hasty)]) > 0);
    assert!(found(|| vec![Box::new(Greeter::Forgetful)]) > 0);
    assert_eq!(found(|| vec![Box::new(Greeter::Careful)]), 0);
}
