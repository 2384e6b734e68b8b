//! Whether the cluster has a leader, for clients that want their streams to end without one. Streams
//! to the cluster are shared by clients with and without that wish, so the proxy watches for itself.

use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::Status;

use super::forward::Along;
use super::upstream::Upstream;
use crate::basics::error::Error;

/// A key that nobody writes: the watch is for the sake of its end.
const KEY: &str = "__lostleader";

/// Later than any event.
const NEVER: i64 = i64::MAX - 2;

/// Pause before asking again.
const RETRY: Duration = Duration::from_millis(100);

/// How long a new stream waits to learn of a leader.
const PATIENCE: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Leader(watch::Receiver<bool>);

impl Leader {
    /// Begins to watch. Must be called inside the runtime.
    pub(super) fn follow(upstream: Upstream) -> Leader {
        let (known, leader) = watch::channel(false);
        tokio::spawn(async move {
            while !known.is_closed() {
                // Why it ended does not matter.
                let _ = hold(&upstream, &known).await;
                known.send_replace(false);
                tokio::time::sleep(RETRY).await;
            }
        });
        Leader(leader)
    }

    /// Fails if there is no leader.
    pub(super) async fn required(&self) -> Result<(), Error> {
        let mut leader = self.0.clone();
        let found = timeout(PATIENCE, leader.wait_for(|has| *has)).await;
        found.map(drop).map_err(|_| Error::NoLeader)
    }

    /// Ends a client's stream with an error when the leader is lost, if that is `wanted`.
    pub(super) fn guard<T>(
        self,
        wanted: bool,
        answers: impl Stream<Item = Result<T, Status>>,
    ) -> impl Stream<Item = Result<T, Status>> {
        let Leader(known) = self.clone();
        let lost = async move {
            if !wanted || self.0.clone().wait_for(|has| !*has).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let error = stream::once(async move { wanted && !*known.borrow() })
            .filter_map(async |lost| lost.then(|| Err(Error::NoLeader.into())));
        answers.take_until(lost).chain(error)
    }
}

/// Holds a stream that members end when they have no leader.
async fn hold(upstream: &Upstream, known: &watch::Sender<bool>) -> Result<(), Status> {
    let create = pb::watch_request::RequestUnion::CreateRequest(pb::WatchCreateRequest {
        key: KEY.into(),
        start_revision: NEVER,
        ..pb::WatchCreateRequest::default()
    });
    let create = pb::WatchRequest {
        request_union: Some(create),
    };
    let requests =
        tokio_stream::StreamExt::chain(tokio_stream::once(create), tokio_stream::pending());
    let mut client = WatchClient::new(upstream.clone());
    let request = Along::requiring_leader().with(requests);
    let mut answers = client.watch(request).await?.into_inner();
    // Any answer comes from a member with a leader, even if nobody may watch without a token.
    while answers.message().await?.is_some() {
        known.send_replace(true);
    }
    Ok(())
}
