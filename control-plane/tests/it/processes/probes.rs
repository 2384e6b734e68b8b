//! The probes of an apiserver whose store does not answer.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::Launch;

use crate::harness::cluster::{BINARY, apiserver};
use crate::requests::http::Call;

/// Far above what the check takes that is asked for, and below what the other one takes.
const SOON: Duration = Duration::from_secs(2);
/// Longer than an answer of the store counts for other probes, too.
const ALONE: Duration = Duration::from_millis(400);

#[test]
fn each_check_of_the_store_ends_after_the_time_that_its_flag_says() {
    const CHECKS: [&str; 4] = [
        "/healthz/etcd",
        "/livez/etcd",
        "/readyz/etcd",
        "/readyz/etcd-readiness",
    ];
    let (shorter, longer) = ("100ms", "4s");
    for (health, readiness) in [(shorter, longer), (longer, shorter)] {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let flags = [
            format!("--etcd-healthcheck-timeout={health}"),
            format!("--etcd-readycheck-timeout={readiness}"),
        ];
        let (mut server, address) = apiserver(&store.url(), &[&flags[0], &flags[1]]);
        store.signal(Signal::STOP);
        for path in CHECKS {
            let is_readiness = path.ends_with("-readiness");
            let within = if is_readiness { readiness } else { health };
            thread::sleep(ALONE);
            let begun = Instant::now();
            let answer = Call::new(&address, "GET", path).send();
            let took = begun.elapsed();
            let told = String::from_utf8(answer.body).unwrap();
            assert_eq!(answer.code, 500, "{path}: {told}");
            assert!(told.contains("context deadline exceeded"), "{path}: {told}");
            assert_eq!(took < SOON, within == shorter, "{path} took {took:?}");
        }
        store.signal(Signal::CONT);
        server.kill().unwrap();
        server.wait().unwrap();
    }
}
