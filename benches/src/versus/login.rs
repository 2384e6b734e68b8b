//! The login load, which etcd's `benchmark` does not have.

#![expect(
    clippy::disallowed_methods,
    reason = "a load generator reads the clock"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use tokio::runtime::Runtime;

use super::Result;
use super::generator::Summary;
use super::loads::Load;

const ROOT: &str = "root";

/// Enables authentication, and logs in once.
pub(super) fn prepare(url: &str) -> Result<()> {
    runtime()?.block_on(async {
        let client = Client::connect(url.to_owned()).await?;
        let mut auth = client.auth();
        auth.user_add(pb::AuthUserAddRequest {
            name: ROOT.to_owned(),
            password: ROOT.to_owned(),
            ..Default::default()
        })
        .await?;
        let (user, role) = (ROOT.to_owned(), ROOT.to_owned());
        auth.user_grant_role(pb::AuthUserGrantRoleRequest { user, role })
            .await?;
        auth.auth_enable(pb::AuthEnableRequest {}).await?;
        auth.authenticate(as_root()).await?;
        Ok(())
    })
}

/// Logs in with all clients until the load's total is reached.
pub(super) fn run(url: &str, load: &Load) -> Result<Summary> {
    runtime()?.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..load.conns {
            connections.push(Client::connect(url.to_owned()).await?);
        }
        let left = Arc::new(AtomicU64::new(load.total));
        let began = Instant::now();
        let clients = (0..load.clients as usize).map(|number| {
            let client = connections[number % connections.len()].clone();
            tokio::spawn(log_in(client, Arc::clone(&left)))
        });
        let mut took = Vec::new();
        for client in clients.collect::<Vec<_>>() {
            took.extend(client.await??);
        }
        let per_second = took.len() as f64 / began.elapsed().as_secs_f64();
        took.sort_by(f64::total_cmp);
        let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
        Ok(Summary {
            per_second,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
        })
    })
}

/// The duration of each login, in milliseconds.
async fn log_in(client: Client, left: Arc<AtomicU64>) -> Result<Vec<f64>> {
    let (mut auth, mut took) = (client.auth(), Vec::new());
    let take_one = |left: u64| left.checked_sub(1);
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one)
        .is_ok()
    {
        let began = Instant::now();
        auth.authenticate(as_root()).await?;
        took.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(took)
}

fn as_root() -> pb::AuthenticateRequest {
    pb::AuthenticateRequest {
        name: ROOT.to_owned(),
        password: ROOT.to_owned(),
    }
}

fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(1).enable_all().build()?)
}
