//! The shell of the provisioner: informers, a clock, and calls.

use api_client::{Client, Informer};
use futures_util::stream::{FuturesUnordered, StreamExt};
use machinery::schema;
use machinery::status::Status;
use tokio::time::Instant;

use super::carry::carry_out;
use super::known::{Job, Known, Sort, Task};

/// Maximum number of tasks in progress.
const TASKS_AT_ONCE: usize = 16;

/// Makes and deletes volumes until `stop` completes.
pub async fn run(kube: kube::Client, stop: impl Future<Output = ()>) {
    let client = Client::new(kube);
    let informer = |group: &str, kind: &str| {
        let kind = schema::kind(group, "v1", kind).expect("the table has it");
        Informer::of(kind.clone()).run(&client)
    };
    let mut classes = std::pin::pin!(informer("storage.k8s.io", "StorageClass"));
    let mut claims = std::pin::pin!(informer("", "PersistentVolumeClaim"));
    let mut volumes = std::pin::pin!(informer("", "PersistentVolume"));
    let mut known = Known::default();
    let mut tasks = FuturesUnordered::new();
    let mut stop = std::pin::pin!(stop);
    let start = Instant::now();
    // The volumes come first: those that are made already are not announced once more.
    tokio::select! {
        () = &mut stop => return,
        Some(notice) = volumes.next() => known.take(Sort::Volume, notice),
    }
    loop {
        while tasks.len() < TASKS_AT_ONCE
            && let Some((job, task)) = known.next(start.elapsed())
        {
            tasks.push(work(client.clone(), job, task));
        }
        // With the maximum number of tasks in progress only the end of one matters.
        let full = tasks.len() >= TASKS_AT_ONCE;
        let wake_at = known.wake_at().filter(|_| !full).map(|at| start + at);
        tokio::select! {
            () = &mut stop => return,
            Some((job, result)) = tasks.next() => known.done(&job, &result, start.elapsed()),
            Some(notice) = classes.next() => known.take(Sort::Class, notice),
            Some(notice) = claims.next() => known.take(Sort::Claim, notice),
            Some(notice) = volumes.next() => known.take(Sort::Volume, notice),
            () = api_client::until(wake_at) => {}
        }
    }
}

async fn work(client: Client, job: Job, task: Task) -> (Job, Result<(), Status>) {
    let result = carry_out(&client, &task, api_client::now()).await;
    if let Err(error) = &result {
        let (_, (namespace, name)) = &job;
        tracing::warn!(%namespace, %name, %error, "tried again later");
    }
    (job, result)
}

/// `stele-kube up` spawns all parts in one process, so the future must be `Send`.
#[cfg(test)]
#[test]
fn it_can_be_spawned() {
    fn spawnable<F: Future + Send>(_: fn(kube::Client) -> F) {}
    spawnable(|kube| run(kube, std::future::ready(())));
}
