//! `stele-kube test --seed N --faults …`: what clients meet, and which bugs of an operator it finds.

mod operator;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, PostParams, VersionMatch, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::json;

use crate::harness::cluster::{BINARY, WITHIN, told};
use operator::Bug;

const POLL: Duration = Duration::from_millis(20);
/// The seeds that find every bug below.
const SEEDS: [u64; 6] = [1, 2, 3, 4, 5, 6];
/// Seeds that together show every way in which a watch ends.
const WATCH_SEEDS: u64 = 6;
const BUGS: [Bug; 3] = [Bug::TrustsStaleCache, Bug::MissesDelete, Bug::NotIdempotent];
/// The number of orders, and of those whose receipts are deleted.
const ORDERS: u64 = 8;
const DELETED: u64 = 7;

/// A cluster with faults; it ends when dropped.
struct Faulty {
    child: Child,
    kubeconfig: PathBuf,
}

impl Faulty {
    fn start(flags: &[&str]) -> Faulty {
        let mut child = Command::new(BINARY)
            .arg("test")
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        Faulty {
            child,
            kubeconfig: PathBuf::from(line.trim_end()),
        }
    }

    /// A client that meets faults and does not try again by itself.
    async fn client(&self) -> Client {
        client(&self.kubeconfig).await
    }

    /// A client that meets none.
    async fn observer(&self) -> Client {
        client(&self.kubeconfig.with_file_name("observer.kubeconfig")).await
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        // Asked to stop, it removes its directory.
        let _ = Command::new("kill").arg(&id).status();
        let _ = self.child.wait();
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn version(map: &ConfigMap) -> i64 {
    map.resource_version().unwrap().parse().unwrap()
}

/// How a request ended.
fn outcome<T>(result: &kube::Result<T>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(kube::Error::Api(status)) => {
            format!("{} {} {}", status.code, status.reason, status.message)
        }
        Err(_) => "cut".into(),
    }
}

/// What the same requests meet in a cluster with these flags.
async fn met(flags: &[&str]) -> Vec<String> {
    let cluster = Faulty::start(flags);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client().await);
    let observed: Api<ConfigMap> = Api::default_namespaced(cluster.observer().await);
    let params = PostParams::default();
    let mut all = Vec::new();
    for at in 0..30 {
        let name = format!("map-{at}");
        all.push(outcome(&maps.create(&params, &map(&name)).await));
        // An answer that is lost says nothing of the object.
        if observed.get_opt(&name).await.unwrap().is_none() {
            observed.create(&params, &map(&name)).await.unwrap();
            all.push("not created".into());
        }
        for _ in 0..3 {
            let before = observed.get(&name).await.unwrap();
            let replaced = maps.replace(&name, &params, &before).await;
            all.push(outcome(&replaced));
            if matches!(&replaced, Err(kube::Error::Api(status)) if status.code == 409) {
                let after = observed.get(&name).await.unwrap();
                assert!(version(&after) > version(&before), "a conflict is true");
            }
            all.push(outcome(&maps.get(&name).await));
        }
    }
    all
}

#[tokio::test]
async fn the_same_seed_meets_the_same_faults_as_kubernetes_words_them() {
    let kinds = "--faults=conflicts,throttling=0.1,errors=0.2,cuts=0.1";
    let first = met(&["--seed=7", kinds]).await;
    assert_eq!(met(&["--seed=7", kinds]).await, first);
    assert_ne!(met(&["--seed=8", kinds]).await, first);
    let found = [
        "409 Conflict Operation cannot be fulfilled on configmaps \"map-",
        "429 TooManyRequests the server has received too many requests",
        "500 InternalError Internal error occurred: etcdserver: leader changed",
        "500 ServerTimeout The create operation against configmaps could not be completed at \
         this time, please try again.",
        "500  etcdserver: request timed out",
        "cut",
        "not created",
        "ok",
    ];
    for words in found {
        let has = first.iter().any(|one| one.starts_with(words));
        assert!(has, "{words}: {first:#?}");
    }
}

#[tokio::test]
async fn stale_lists_are_no_older_than_they_may_be() {
    let cluster = Faulty::start(&["--seed=1", "--faults=stale-reads=1"]);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client().await);
    let mut newest = 0;
    for at in 0..40 {
        let object = map(&format!("map-{at}"));
        let made = maps.create(&PostParams::default(), &object).await;
        newest = version(&made.unwrap());
    }
    let listed = async |params: ListParams| {
        let list = maps.list(&params).await.unwrap();
        list.metadata
            .resource_version
            .unwrap()
            .parse::<i64>()
            .unwrap()
    };
    let mut oldest = i64::MAX;
    for _ in 0..10 {
        oldest = oldest.min(listed(ListParams::default().match_any()).await);
        let demanded = (newest - 3).to_string();
        let params = ListParams::default().at(&demanded);
        let at = listed(params.matching(VersionMatch::NotOlderThan)).await;
        assert!(at >= newest - 3, "{at} is before {demanded}");
        assert!(listed(ListParams::default()).await >= newest);
    }
    assert!(oldest < newest, "no list was stale");
}

#[tokio::test]
async fn watches_end_early_and_their_events_are_late_but_none_is_left_out() {
    let mut ends = BTreeSet::new();
    for seed in 1..=WATCH_SEEDS {
        watch_to_the_end(seed, &mut ends).await;
    }
    for end in [
        "clean",
        "too old resource version: N",
        "The resourceVersion for the provided watch is too old.",
    ] {
        assert!(ends.contains(end), "{ends:?}");
    }
}

/// Creates objects and sees all of them, in order, in one watch after the other; collects how these
/// end.
async fn watch_to_the_end(seed: u64, ends: &mut BTreeSet<String>) {
    let seed = format!("--seed={seed}");
    let cluster = Faulty::start(&[&seed, "--faults=watch-delay=1,watch-expiry=1"]);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client().await);
    let list = maps.list(&ListParams::default()).await.unwrap();
    let mut from = list.metadata.resource_version.unwrap();
    let names: Vec<String> = (0..60).map(|at| format!("map-{at:02}")).collect();
    for name in &names {
        maps.create(&PostParams::default(), &map(name))
            .await
            .unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < names.len() {
        let watch = maps.watch(&WatchParams::default(), &from).await.unwrap();
        let mut events = pin!(watch);
        let mut end = "clean".to_owned();
        while seen.len() < names.len()
            && let Some(event) = events.try_next().await.unwrap()
        {
            match event {
                WatchEvent::Added(map) => {
                    from = map.resource_version().unwrap();
                    seen.push(map.name_any());
                }
                WatchEvent::Error(status) => {
                    assert_eq!((status.code, &*status.reason), (410, "Expired"));
                    end = status.message.replace(&from, "N");
                }
                other => panic!("{other:?}"),
            }
        }
        ends.insert(end);
    }
    assert_eq!(seen, names);
}

#[tokio::test]
async fn the_server_goes_away_and_comes_back_with_everything_at_the_same_address() {
    let cluster = Faulty::start(&["--seed=3", "--faults=restarts=0.1"]);
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client().await);
    let names: Vec<String> = (0..60).map(|at| format!("map-{at:02}")).collect();
    for name in &names {
        let made = async {
            loop {
                match maps.create(&PostParams::default(), &map(name)).await {
                    Ok(_) => return,
                    Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => return,
                    Err(_) => tokio::time::sleep(POLL).await,
                }
            }
        };
        tokio::time::timeout(WITHIN, made).await.unwrap();
    }
    let observer = cluster.observer().await;
    let metrics = || http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = until(async || observer.request_text(metrics()).await.ok()).await;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("stele_faults_injected_total{kind=\"restarts\"} "));
    assert!(line.unwrap().parse::<u64>().unwrap() >= 2, "{metrics}");
    let observed: Api<ConfigMap> = Api::default_namespaced(observer);
    let there = observed.list(&ListParams::default()).await.unwrap();
    let there: Vec<String> = there.iter().map(|map| map.name_any()).collect();
    assert_eq!(there, names);
}

#[test]
fn faults_that_do_not_exist_are_refused_by_name() {
    for (flags, why) in [
        (
            &["--faults=conflicts,gremlins"][..],
            "\"gremlins\" is no kind of fault; the kinds are all, conflicts, ",
        ),
        (
            &["--faults=cuts=7"][..],
            "the rate of \"cuts\" must be above 0",
        ),
        (&["--seed=1"][..], "--faults <LIST>"),
    ] {
        let output = Command::new(BINARY).arg("test").args(flags).output();
        let output = output.unwrap();
        assert!(!output.status.success(), "{flags:?}");
        assert!(told(&output).contains(why), "{}", told(&output));
    }
}

/// Waits until `ask` has an answer.
async fn until<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    let answered = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(WITHIN, answered).await.unwrap()
}

/// The test of an operator. The error is what it finds wrong. It waits for nothing but what every
/// operator here gets to sooner or later, and never for time to pass.
async fn check(cluster: &Faulty, bug: Bug) -> Result<(), String> {
    let observer = cluster.observer().await;
    let namespace = format!("{bug:?}").to_ascii_lowercase();
    let object = json!({"metadata": {"name": namespace}});
    let object: Namespace = serde_json::from_value(object).unwrap();
    let params = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(observer.clone());
    namespaces.create(&params, &object).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(observer, &namespace);
    maps.create(&params, &map("ledger")).await.unwrap();
    let operated = Api::namespaced(cluster.client().await, &namespace);
    let operator = tokio::spawn(operator::run(operated, bug));
    for number in 0..ORDERS {
        if number == ORDERS - 1 {
            for number in 0..DELETED {
                for receipt in receipts(&maps, number).await {
                    let params = DeleteParams::default();
                    maps.delete(&receipt, &params).await.unwrap();
                }
            }
        }
        let order = json!({
            "metadata": {"name": format!("order-{number}"), "labels": {"app": "shop", "kind": "order"}},
            "data": {"amount": (number + 1).to_string()},
        });
        let order: ConfigMap = serde_json::from_value(order).unwrap();
        maps.create(&params, &order).await.unwrap();
        // An operator looks at the orders by their names: when this one is charged, it has done what
        // is left to do for those before.
        let name = format!("order-{number}");
        until(async || {
            let order = maps.get(&name).await.ok()?;
            order
                .annotations()
                .contains_key(operator::CHARGED)
                .then_some(())
        })
        .await;
    }
    let mut wrong = Vec::new();
    for number in 0..ORDERS {
        let written = receipts(&maps, number).await.len();
        if written != 1 {
            wrong.push(format!("order-{number} has {written} receipts"));
        }
    }
    let ledger = maps.get("ledger").await.unwrap().data.unwrap_or_default();
    let charged: u64 = ledger.values().map(|text| operator::number(text)).sum();
    if charged != (1..=ORDERS).sum::<u64>() {
        wrong.push(format!("{charged} is charged"));
    }
    operator.abort();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join(", "))
    }
}

/// The names of the receipts of an order.
async fn receipts(maps: &Api<ConfigMap>, number: u64) -> Vec<String> {
    let params = ListParams::default().labels(&format!("order=order-{number}"));
    let list = maps.list(&params).await.unwrap();
    list.iter().map(|map| map.name_any()).collect()
}

#[tokio::test]
async fn seeds_find_bugs_that_a_calm_cluster_hides() {
    // No fault comes at this rate: the cluster is calm, and has an observer.
    let calm = Faulty::start(&["--seed=1", "--faults=cuts=0.000000001"]);
    for bug in [Bug::Nothing].into_iter().chain(BUGS) {
        assert_eq!(check(&calm, bug).await, Ok(()), "{bug:?} without faults");
    }
    drop(calm);
    let kinds =
        "--faults=conflicts,stale-reads=0.5,watch-delay,watch-expiry=1,throttling,errors,cuts";
    let mut found: Vec<(Bug, u64, String)> = Vec::new();
    for seed in SEEDS {
        let cluster = Faulty::start(&[&format!("--seed={seed}"), kinds]);
        assert_eq!(check(&cluster, Bug::Nothing).await, Ok(()), "seed {seed}");
        for bug in BUGS {
            if let Err(why) = check(&cluster, bug).await {
                found.push((bug, seed, why));
            }
        }
    }
    eprintln!("found: {found:#?}");
    for bug in BUGS {
        let finds = found.iter().any(|(one, ..)| *one == bug);
        assert!(finds, "no seed finds {bug:?}: {found:#?}");
    }
}
