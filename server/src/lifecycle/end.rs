//! What ends a server, and how it leaves: leadership, calls in progress, leases.

use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::GRACE;
use crate::config::Config;
use crate::member::cluster::peer::REMOVED;
use crate::member::event::LeaseCall;
use crate::request::Request;
use crate::runtime::Running;
use crate::runtime::etcd_server::EtcdServer;

/// Returned by a server that was not stopped by a signal: exit code 0.
pub(super) const NO_SIGNAL: i32 = 0;

/// How long a removed member keeps running, as in etcd.
const FAREWELL: Duration = Duration::from_secs(1);

/// Leases in one checkpoint entry written at the stop.
const LEASES_PER_ENTRY: usize = 10_000;

/// The source of the request to stop.
pub(super) enum End {
    Signal(Signals),
    Asked(oneshot::Receiver<()>),
}

/// What listens for the signals to stop, once it was waited for. It stays: a signal that comes while
/// nobody waits would be lost, as it does not end the process any more.
#[derive(Default)]
pub(super) struct Signals(Option<(Signal, Signal)>);

/// Returns the signal's number, or [`NO_SIGNAL`] if the host asked or this member was removed.
pub(super) async fn wait_for_end(running: &Running, end: &mut End) -> i32 {
    let asked = async {
        match end {
            End::Signal(signals) => signals.wait().await,
            End::Asked(stopped) => {
                // Dropping the sender counts as a request too.
                let _ = stopped.await;
                NO_SIGNAL
            }
        }
    };
    tokio::select! {
        signal = asked => signal,
        () = running.peers.gone() => {
            say_removed();
            // The other members may need this one to elect a leader without it.
            tokio::time::sleep(FAREWELL).await;
            NO_SIGNAL
        }
    }
}

/// Logs the lines that operators look for.
pub(super) fn say_removed() {
    tracing::warn!(error = REMOVED, "server error");
    tracing::warn!("data-dir used by this member must be removed");
}

impl Signals {
    async fn wait(&mut self) -> i32 {
        let (terminate, interrupt) = self.0.get_or_insert_with(listen);
        let (name, number) = tokio::select! {
            _ = terminate.recv() => ("terminated", SignalKind::terminate().as_raw_value()),
            _ = interrupt.recv() => ("interrupt", SignalKind::interrupt().as_raw_value()),
        };
        tracing::info!(signal = name, "received signal; shutting down");
        number
    }
}

fn listen() -> (Signal, Signal) {
    let (Ok(terminate), Ok(interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        crate::telemetry::fatal("failed to listen for signals", &"the system refused");
    };
    (terminate, interrupt)
}

/// Hands leadership over, lets clients end their calls, and stops.
pub(super) async fn close(
    running: Running,
    config: &Config,
    stop: tokio::sync::watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
) {
    tracing::info!(name = config.name, "closing etcd server");
    let handed_over = running.server.is_leader() && hand_over(&running.server).await;
    let _ = stop.send(true);
    // Otherwise watches would keep their connections open until these are cut.
    running.server.hub().stop();
    if tokio::time::timeout(GRACE, serving).await.is_err() {
        tracing::warn!("some clients did not end their calls in time; closing their connections");
    }
    if running.server.is_leader() && !handed_over {
        checkpoint_leases(&running.server).await;
    }
    let _ = tokio::task::spawn_blocking(move || Running::stop(running)).await;
}

/// Transfers leadership to another voter; returns whether one accepted it.
async fn hand_over(server: &EtcdServer) -> bool {
    let Some(to) = server.heir() else {
        return false;
    };
    let done = tokio::time::timeout(GRACE, server.transfer(to)).await;
    matches!(done, Ok(Ok(())))
}

/// Stores the remaining TTLs, so that a restart continues from them.
async fn checkpoint_leases(server: &EtcdServer) {
    let Ok((answer, _)) = server.lease(LeaseCall::CheckpointAll).await else {
        return;
    };
    for rows in answer.checkpoints.chunks(LEASES_PER_ENTRY) {
        let checkpoints = rows
            .iter()
            .map(|&(id, remaining_ttl)| pb::LeaseCheckpoint { id, remaining_ttl })
            .collect();
        let request = Request::LeaseCheckpoint(pb::LeaseCheckpointRequest { checkpoints });
        if let Err(error) = server.propose(request).await {
            tracing::warn!(%error, "leases will run for longer than they have left");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use rustix::process::{Signal, getpid, kill_process};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_signal_that_comes_while_nobody_waits_is_not_lost() {
        let mut signals = Signals::default();
        let waited = pin!(signals.wait()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(waited.is_pending());
        let mut other = signal(SignalKind::terminate()).unwrap();
        // The process does not end by it, because it listens now.
        kill_process(getpid(), Signal::TERM).unwrap();
        assert_eq!(other.recv().await, Some(()));
        let number = timeout(Duration::from_secs(60), signals.wait()).await;
        assert_eq!(number, Ok(15));
    }
}
