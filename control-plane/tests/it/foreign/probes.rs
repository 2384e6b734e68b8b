//! The probes of health and their checks, compared with those of Kubernetes' own apiserver.
//!
//! `STELE_PROBES=go UPDATE=1` asks Kubernetes again and writes what it says.

use crate::foreign::golden::{asks_go, check, write_block};
use crate::foreign::swap::world::World;
use crate::harness::cluster::kubectl_or_skip;
use crate::requests::http::Call;

const VARIABLE: &str = "STELE_PROBES";
const PROBES: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// What is asked of each probe besides all its checks.
const ASKED: [&str; 14] = [
    "",
    "/",
    "?verbose=false",
    "?exclude=ping&verbose",
    "?exclude=ping,etcd&exclude=etcd&verbose",
    "?exclude=nothing",
    "/ping",
    "/ping?verbose",
    "/ping/",
    "/nothing",
    "/shutdown",
    "/etcd-readiness",
    "/poststarthook",
    "/poststarthook/rbac/bootstrap-roles",
];
/// Checks of Kubernetes to which nothing here corresponds.
const WITHOUT: [&str; 9] = [
    "loopback-serving-certificate",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-object-count-tracker-hook",
];

#[test]
fn probes_are_answered_as_by_kubernetes() {
    if !kubectl_or_skip("the comparison of probes") {
        return;
    }
    let (_world, address) = World::apiserver_alone(asks_go(VARIABLE));
    let ask = |path: &str| Call::new(&address, "GET", path).send();
    let root = ask("/").object();
    let paths = root["paths"].as_array().unwrap().iter();
    let paths: Vec<&str> = paths.filter_map(|path| path.as_str()).collect();
    let mut answers = String::new();
    for probe in PROBES {
        let known = |check: &str| !WITHOUT.contains(&check);
        let of_probe = |path: &&str| {
            path.strip_prefix(probe)?
                .strip_prefix('/')
                .map(str::to_owned)
        };
        let checks: Vec<String> = paths.iter().filter_map(of_probe).collect();
        let checks: Vec<String> = checks.into_iter().filter(|one| known(one)).collect();
        for one in &checks {
            assert_eq!(ask(&format!("{probe}/{one}")).code, 200, "{probe}/{one}");
        }
        write_block(&mut answers, &format!("checks of {probe}"), &checks);
        for asked in ASKED {
            let answer = ask(&format!("{probe}{asked}"));
            let text = String::from_utf8(answer.body).unwrap();
            let name = |line: &str| line.split_once(']')?.1.split(' ').next().map(str::to_owned);
            let lines = text
                .lines()
                .filter(|line| name(line).is_none_or(|name| known(&name)));
            let mut lines: Vec<String> = lines.map(str::to_owned).collect();
            lines.insert(0, answer.code.to_string());
            write_block(&mut answers, &format!("{probe}{asked}"), &lines);
        }
    }
    check("probes.txt", VARIABLE, &answers);
}
