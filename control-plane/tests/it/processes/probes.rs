//! The probes of an apiserver whose store does not answer.

use rustix::process::Signal;
use testkit::Launch;

use crate::harness::cluster::{BINARY, apiserver};
use crate::requests::http::{Answer, Call};

/// Checks that fail while the store is stopped, and others that begin before them and wait until
/// it runs again.
#[test]
fn each_check_of_the_store_ends_after_the_time_that_its_flag_says() {
    const HEALTH: &[&str] = &["/healthz/etcd", "/livez/etcd", "/readyz/etcd"];
    const READINESS: &[&str] = &["/readyz/etcd-readiness"];
    let (shorter, longer) = ("100ms", "1h");
    let told = |answer: Answer| (answer.code, String::from_utf8(answer.body).unwrap());
    for (health, readiness) in [(shorter, longer), (longer, shorter)] {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let flags = [
            format!("--etcd-healthcheck-timeout={health}"),
            format!("--etcd-readycheck-timeout={readiness}"),
        ];
        let (mut server, address) = apiserver(&store.url(), &[&flags[0], &flags[1]]);
        let (failing, waiting) = if health == shorter {
            (HEALTH, READINESS)
        } else {
            (READINESS, HEALTH)
        };
        store.signal(Signal::STOP);
        let waiting = waiting.iter();
        let waiting = waiting.map(|path| (path, Call::new(&address, "GET", path).begin()));
        let waiting: Vec<_> = waiting.collect();
        for path in failing {
            let (code, told) = told(Call::new(&address, "GET", path).send());
            assert_eq!(code, 500, "{path}: {told}");
            assert!(told.contains("context deadline exceeded"), "{path}: {told}");
        }
        store.signal(Signal::CONT);
        for (path, begun) in waiting {
            let (code, told) = told(begun.answer());
            assert_eq!(code, 200, "{path}: {told}");
        }
        server.kill().unwrap();
        server.wait().unwrap();
    }
}
