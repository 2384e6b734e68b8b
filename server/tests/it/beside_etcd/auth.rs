//! Users, roles and permissions compared with etcd: random ones, and random requests of random
//! users. Every answer, code and text must be the same.
//!
//! Runs `STELE_AUTH_OPS` operations (default 3,000) from the seed `STELE_AUTH_SEED`.

pub(crate) mod ask;
pub(crate) mod cluster;
mod generate;
mod guesses;
mod signed;

use std::collections::{BTreeMap, VecDeque};

use etcd_api::Client;
use testkit::{Server, Tools};

use crate::harness::subject;
use ask::ask;
use generate::{Generator, Op};

/// Operations shown before the one that differs.
const SHOWN_BEFORE: usize = 12;
/// Between two comparisons of all that is stored.
const OPS_PER_COMPARISON: usize = 250;
/// Hashing passwords is not what is compared.
pub(crate) const CHEAP: &str = "--bcrypt-cost=4";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_do_what_equals_real_etcds() {
    let Some(tools) = Tools::or_skip("the run with users") else {
        return;
    };
    let ops = subject::number("STELE_AUTH_OPS", 3_000) as usize;
    let seed = subject::number("STELE_AUTH_SEED", 1);
    let reference = Server::start_etcd(&tools, &["--unsafe-no-fsync", CHEAP]);
    let subject = subject::launch().flag(CHEAP).start();
    let subject = subject.unwrap_or_else(|error| panic!("{error}"));
    let clients = [client(&reference).await, client(&subject).await];
    let mut generator = Generator::new(seed);
    let mut recent: VecDeque<Op> = VecDeque::new();
    let mut tally: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
    for number in 1..=ops {
        let op = match number % OPS_PER_COMPARISON {
            0 => Op::everything(),
            _ => generator.next(),
        };
        let [a, b] = &clients;
        let tokens = generator.tokens_for(&op);
        let (a, b) = tokio::join!(
            ask(a, &op.request, tokens.as_ref().map(|tokens| &tokens[0][..])),
            ask(b, &op.request, tokens.as_ref().map(|tokens| &tokens[1][..])),
        );
        recent.push_back(op.clone());
        if recent.len() > SHOWN_BEFORE {
            recent.pop_front();
        }
        assert!(
            a.shown == b.shown,
            "operation {number} of seed {seed}:\n{recent:#?}\netcd:  {:?}\nStele: {:?}\n{}",
            a.shown,
            b.shown,
            last_lines(&subject)
        );
        *tally.entry((op.request.name(), a.outcome())).or_default() += 1;
        generator.learn(&op, &a, &b);
    }
    for ((name, outcome), count) in &tally {
        println!("{name:>12} {count:>6}  {outcome}");
    }
    // A run in which everything is denied, or nothing, shows little.
    let count = |wanted: &dyn Fn(&str) -> bool| -> usize {
        let found = tally.iter().filter(|((_, outcome), _)| wanted(outcome));
        found.map(|(_, count)| count).sum()
    };
    assert!(count(&|outcome| outcome == "ok") > ops / 10);
    assert!(count(&|outcome| outcome.contains("permission denied")) > ops / 20);
}

fn last_lines(server: &Server) -> String {
    let log = server.log();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

async fn client(server: &Server) -> Client {
    Client::connect(server.url()).await.unwrap()
}
