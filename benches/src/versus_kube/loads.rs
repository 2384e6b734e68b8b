//! The loads for an apiserver: one call after the other, then many watchers at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use futures_util::AsyncBufReadExt;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use super::Result;
use super::report::Report;
use super::side::{Server, Side};

const PODS: &str = "/api/v1/namespaces/default/pods";
const WATCHED: &str = "/api/v1/namespaces/default/configmaps";
const DELIVERED_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// The size of the loads.
pub(super) struct Size {
    pods: usize,
    lists: usize,
    watchers: usize,
    changes: usize,
}

impl Size {
    pub(super) fn of(options: &ArgMatches) -> Size {
        let number = |name: &str| options.get_one(name).copied().unwrap_or(1);
        Size {
            pods: number("pods"),
            lists: number("lists"),
            watchers: number("watchers"),
            changes: number("changes"),
        }
    }
}

pub(super) async fn run(
    side: Side,
    server: &Server,
    size: &Size,
    report: &mut Report,
) -> Result<()> {
    let asker = &server.asker;
    // A pod needs its service account, which a control loop would create.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default"}});
    asker
        .post("/api/v1/namespaces/default/serviceaccounts", &account)
        .await?;
    timed(side, server, "create pod", size.pods, report, async |at| {
        asker.post(PODS, &pod(at)).await
    })
    .await?;
    timed(side, server, "get pod", size.pods, report, async |at| {
        asker.get(&format!("{PODS}/pod-{at}")).await
    })
    .await?;
    timed(side, server, "patch pod", size.pods, report, async |at| {
        let patch = json!({"metadata": {"labels": {"round": "two"}}});
        asker.patch(&format!("{PODS}/pod-{at}"), &patch).await
    })
    .await?;
    let title = format!("list {} pods", size.pods);
    timed(side, server, &title, size.lists, report, async |_| {
        asker.get(PODS).await
    })
    .await?;
    let title = format!("list {} pods from the cache", size.pods);
    timed(side, server, &title, size.lists, report, async |_| {
        asker.get(&format!("{PODS}?resourceVersion=0")).await
    })
    .await?;
    LocalSet::new()
        .run_until(fan_out(side, server, size, report))
        .await?;
    report.end(side, &server.usage()?);
    Ok(())
}

/// Times calls, one after the other.
async fn timed(
    side: Side,
    server: &Server,
    title: &str,
    count: usize,
    report: &mut Report,
    call: impl AsyncFn(usize) -> Result<String>,
) -> Result<()> {
    let before = server.usage()?.cpu;
    let mut took = Vec::with_capacity(count);
    for at in 0..count {
        let begun = Instant::now();
        call(at).await?;
        took.push(begun.elapsed());
    }
    let cpu = server.usage()?.cpu - before;
    report.load(side, title, took, cpu);
    Ok(())
}

/// Changes an object repeatedly, and times from each request until all watchers see the change.
async fn fan_out(side: Side, server: &Server, size: &Size, report: &mut Report) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "watched"}, "data": {"text": "x".repeat(1000), "at": "none"}});
    let made = server.asker.post(WATCHED, &object).await?;
    let made: Value = serde_json::from_str(&made)?;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let path = format!("{WATCHED}?watch=true&resourceVersion={version}");
    let seen = Rc::new(RefCell::new(Vec::<(usize, Instant)>::new()));
    for _ in 0..size.watchers {
        let mut stream = server.asker.watch(&path).await?;
        let seen = Rc::clone(&seen);
        tokio::task::spawn_local(async move {
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                let now = Instant::now();
                // Searched as text, so that parsing is not measured.
                let at = line.split_once("\"at\":\"").and_then(|(_, rest)| {
                    let end = rest.find('"')?;
                    rest[..end].parse::<usize>().ok()
                });
                seen.borrow_mut().extend(at.map(|at| (at, now)));
                line.clear();
            }
        });
    }
    let before = server.usage()?.cpu;
    let mut sent = Vec::with_capacity(size.changes);
    for at in 0..size.changes {
        sent.push(Instant::now());
        let patch = json!({"data": {"at": at.to_string()}});
        server
            .asker
            .patch(&format!("{WATCHED}/watched"), &patch)
            .await?;
    }
    let begun = Instant::now();
    let all = size.watchers * size.changes;
    while seen.borrow().len() < all {
        if begun.elapsed() > DELIVERED_WITHIN {
            return Err(format!("{} of {all} events arrived", seen.borrow().len()).into());
        }
        tokio::time::sleep(POLL).await;
    }
    let cpu = server.usage()?.cpu - before;
    let seen = seen.borrow();
    let took = seen.iter().map(|(at, when)| *when - sent[*at]).collect();
    let title = format!("change to event, {} watchers", size.watchers);
    report.load(side, &title, took, cpu);
    Ok(())
}

fn pod(at: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{at}"), "labels": {"app": "web", "round": "one"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1",
            "ports": [{"name": "http", "containerPort": 80}],
            "env": [{"name": "COLOUR", "value": "blue"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}})
}
