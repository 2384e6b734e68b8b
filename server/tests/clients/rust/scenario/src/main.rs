//! The etcd-client crate against the server whose ports for plain text and for TLS are given, with
//! the folder of its certificates: sessions, locks and elections built on leases and transactions
//! and those the server keeps, optimistic transfers, a watch over a restart, TLS and users.
//!
//! Whoever runs it restarts the server when asked: the line "restart" on stdout asks, a line on
//! stdin says that the server is back. A broken promise is a panic.

mod secure;

use std::path::Path;
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, Error, EventType, GetOptions, PutOptions, SortOrder,
    SortTarget, Txn, TxnOp, WatchOptions,
};

type Result<T> = std::result::Result<T, Error>;

const WORKERS: usize = 6;
const TURNS: i64 = 8;
const ACCOUNTS: i64 = 4;
const OPENING: i64 = 100;

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, port, tls_port, pki] = &words[..] else {
        panic!("usage: scenario PORT TLS-PORT CERTIFICATES");
    };
    let secure = secure::Secure { port: tls_port, pki: Path::new(pki) };
    let client = Client::connect([format!("127.0.0.1:{port}")], None).await?;
    lists(client.clone()).await?;
    println!("ok lists");
    session(client.clone()).await?;
    println!("ok session");
    lock(client.clone()).await?;
    println!("ok lock");
    election(client.clone()).await?;
    println!("ok election");
    transfers(client.clone()).await?;
    println!("ok transfers");
    secure::server_side(client.clone()).await?;
    watch_over_restart(client.clone()).await?;
    println!("ok watch over a restart");
    secure::tls(&secure).await?;
    secure::auth(client, &secure).await
}

async fn lists(mut client: Client) -> Result<()> {
    for i in 0..20 {
        client.put(format!("list/{i:02}"), format!("{}", 20 - i), None).await?;
    }
    let by_value = GetOptions::new()
        .with_prefix()
        .with_limit(3)
        .with_sort(SortTarget::Mod, SortOrder::Descend);
    let page = client.get("list/", Some(by_value)).await?;
    let keys: Vec<&str> = page.kvs().iter().map(|kv| kv.key_str()).collect::<Result<_>>()?;
    assert_eq!((keys, page.more(), page.count()), (vec!["list/19", "list/18", "list/17"], true, 20));
    let removed = DeleteOptions::new().with_range("list/05").with_prev_key();
    let removed = client.delete("list/", Some(removed)).await?;
    assert_eq!((removed.deleted(), removed.prev_kvs().len()), (5, 5));
    let counted = GetOptions::new().with_prefix().with_count_only();
    assert_eq!(client.get("list/", Some(counted)).await?.count(), 15);
    Ok(())
}

async fn session(mut client: Client) -> Result<()> {
    let lease = client.lease_grant(7, None).await?.id();
    let attached = PutOptions::new().with_lease(lease);
    client.put("session/key", "alive", Some(attached)).await?;
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
    for _ in 0..3 {
        keeper.keep_alive().await?;
        assert_eq!(answers.message().await?.map(|answer| answer.ttl()), Some(7));
    }
    client.lease_revoke(lease).await?;
    assert!(client.get("session/key", None).await?.kvs().is_empty());
    keeper.keep_alive().await.ok();
    match answers.message().await {
        Ok(Some(answer)) => assert_eq!(answer.ttl(), 0, "a revoked lease is not renewed"),
        Ok(None) | Err(_) => {}
    }
    let mut expiring = client.watch("session/short", None).await?;
    let short = client.lease_grant(1, None).await?.id();
    let attached = PutOptions::new().with_lease(short);
    client.put("session/short", "alive", Some(attached)).await?;
    while let Some(response) = expiring.message().await? {
        if response.events().iter().any(|event| event.event_type() == EventType::Delete) {
            return Ok(());
        }
    }
    panic!("the watch ended before the lease")
}

/// Takes the lock and returns the revision it is held at: the oldest key under the prefix holds,
/// the others wait for the one before them to go away.
async fn acquire(client: &mut Client, prefix: &str, lease: i64) -> Result<String> {
    let key = format!("{prefix}/{lease:x}");
    let missing = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
    let put = TxnOp::put(key.clone(), "", Some(PutOptions::new().with_lease(lease)));
    let created = client.txn(Txn::new().when([missing]).and_then([put])).await?;
    assert!(created.succeeded(), "a lease waits in a line once");
    let mine = created.header().expect("responses have a header").revision();
    loop {
        let older = GetOptions::new()
            .with_prefix()
            .with_max_create_revision(mine - 1)
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_limit(1);
        let before = client.get(format!("{prefix}/"), Some(older)).await?;
        let Some(holder) = before.kvs().first() else { return Ok(key) };
        let from = before.header().expect("responses have a header").revision() + 1;
        let from = WatchOptions::new().with_start_revision(from);
        let mut gone = client.watch(holder.key(), Some(from)).await?;
        'gone: while let Some(response) = gone.message().await? {
            for event in response.events() {
                if event.event_type() == EventType::Delete {
                    break 'gone;
                }
            }
        }
    }
}

async fn lock(mut client: Client) -> Result<()> {
    client.put("counter", "0", None).await?;
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| tokio::spawn(count_under_lock(client.clone())))
        .collect();
    for worker in workers {
        worker.await.expect("a worker does not panic")?;
    }
    assert_eq!(number(&mut client, "counter").await?.0, WORKERS as i64 * TURNS);
    Ok(())
}

async fn count_under_lock(mut client: Client) -> Result<()> {
    let lease = client.lease_grant(30, None).await?.id();
    for _ in 0..TURNS {
        let key = acquire(&mut client, "lock", lease).await?;
        let (value, _) = number(&mut client, "counter").await?;
        client.put("counter", (value + 1).to_string(), None).await?;
        client.delete(key, None).await?;
    }
    client.lease_revoke(lease).await?;
    Ok(())
}

/// Each candidate leads once, in the order of arrival; losing the lease ends the reign.
async fn election(mut client: Client) -> Result<()> {
    let mut leases = Vec::new();
    for _ in 0..3 {
        leases.push(client.lease_grant(30, None).await?.id());
    }
    let first = acquire(&mut client, "election", leases[0]).await?;
    let mut waiting = client.clone();
    let second = leases[1];
    let second = tokio::spawn(async move { acquire(&mut waiting, "election", second).await });
    let oldest = || {
        let oldest = GetOptions::new().with_prefix().with_limit(1);
        oldest.with_sort(SortTarget::Create, SortOrder::Ascend)
    };
    let leader = client.get("election/", Some(oldest())).await?;
    assert_eq!(leader.kvs()[0].key_str()?, first);
    client.lease_revoke(leases[0]).await?;
    let second = second.await.expect("the candidate does not panic")?;
    let leader = client.get("election/", Some(oldest())).await?;
    assert_eq!(leader.kvs()[0].key_str()?, second);
    client.lease_revoke(leases[1]).await?;
    acquire(&mut client, "election", leases[2]).await?;
    client.lease_revoke(leases[2]).await?;
    Ok(())
}

/// Optimistic transactions: both accounts are written only if neither has changed since.
async fn transfers(mut client: Client) -> Result<()> {
    for i in 0..ACCOUNTS {
        client.put(format!("account/{i}"), OPENING.to_string(), None).await?;
    }
    let movers: Vec<_> = (0..WORKERS as i64)
        .map(|seed| tokio::spawn(move_money(client.clone(), seed)))
        .collect();
    for mover in movers {
        mover.await.expect("a mover does not panic")?;
    }
    let mut sum = 0;
    for i in 0..ACCOUNTS {
        sum += number(&mut client, &format!("account/{i}")).await?.0;
    }
    assert_eq!(sum, ACCOUNTS * OPENING);
    Ok(())
}

async fn move_money(mut client: Client, seed: i64) -> Result<()> {
    for turn in 0..TURNS {
        let from = format!("account/{}", (seed + turn) % ACCOUNTS);
        let to = format!("account/{}", (seed + turn + 1 + turn % 2) % ACCOUNTS);
        loop {
            let (source, source_revision) = number(&mut client, &from).await?;
            let (target, target_revision) = number(&mut client, &to).await?;
            let amount = 1 + source / 10;
            let unchanged = [
                Compare::mod_revision(from.clone(), CompareOp::Equal, source_revision),
                Compare::mod_revision(to.clone(), CompareOp::Equal, target_revision),
            ];
            let moved = [
                TxnOp::put(from.clone(), (source - amount).to_string(), None),
                TxnOp::put(to.clone(), (target + amount).to_string(), None),
            ];
            if client.txn(Txn::new().when(unchanged).and_then(moved)).await?.succeeded() {
                break;
            }
        }
    }
    Ok(())
}

/// This client does not reopen a watch by itself: its user goes on behind the last revision seen.
async fn watch_over_restart(mut client: Client) -> Result<()> {
    let start = client.put("watched/start", "", None).await?;
    let mut next = start.header().expect("responses have a header").revision() + 1;
    let (first, mut seen) = (next, Vec::new());
    let mut stream = reopen(&mut client, next).await;
    for i in 0..40 {
        if i == 20 {
            restart();
        }
        put_until_acknowledged(&mut client, &format!("watched/{i}")).await;
        while seen.len() <= i {
            match stream.message().await {
                Ok(Some(response)) => {
                    for event in response.events() {
                        let kv = event.kv().expect("events carry their key");
                        seen.push(kv.key_str()?.to_string());
                        assert!(kv.mod_revision() >= next, "a revision came twice");
                        next = kv.mod_revision() + 1;
                    }
                }
                Ok(None) | Err(_) => stream = reopen(&mut client, next).await,
            }
        }
    }
    let expected: Vec<String> = (0..40).map(|i| format!("watched/{i}")).collect();
    assert_eq!((seen, next - first), (expected, 40));
    Ok(())
}

/// Returns when the server was killed and serves again.
fn restart() {
    println!("restart");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the runner answers");
}

async fn reopen(client: &mut Client, from: i64) -> etcd_client::WatchStream {
    loop {
        let options = WatchOptions::new().with_prefix().with_start_revision(from);
        match client.watch("watched/", Some(options)).await {
            Ok(stream) => return stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A put is repeated only while the server is away; a key is never written twice with success.
async fn put_until_acknowledged(client: &mut Client, key: &str) {
    let missing = || Compare::create_revision(key, CompareOp::Equal, 0);
    let put = || TxnOp::put(key, "value", None);
    while client.txn(Txn::new().when([missing()]).and_then([put()])).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn number(client: &mut Client, key: &str) -> Result<(i64, i64)> {
    let found = client.get(key, None).await?;
    let kv = found.kvs().first().expect("the key exists");
    Ok((kv.value_str()?.parse().expect("the value is a number"), kv.mod_revision()))
}
