//! Keep-alives: clients that renew the same lease at the same time share one request, and all
//! streams of a user share one stream to the cluster. A stream to the cluster that breaks is opened
//! again, which clients do not notice. One that ends with a refusal was ended by a single renewal:
//! only its clients hear of it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use futures_util::stream::{Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::forward::Along;
use super::leader::Leader;
use super::upstream::Upstream;

/// Renewals that wait for the stream to the cluster.
const WAITING_MAX: usize = 1024;

/// Requests that wait for the connection.
const REQUESTS_MAX: usize = 64;

/// Renewals of one client that are on their way at the same time.
const AT_ONCE_MAX: usize = 64;

/// Pause before a stream that broke is opened again.
const REOPEN: Duration = Duration::from_millis(50);

/// A stream without renewals for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);

type Answer = Result<pb::LeaseKeepAliveResponse, Status>;

/// A client's renewal.
struct Renewal {
    id: i64,
    answer: oneshot::Sender<Answer>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct KeepAlives {
    upstream: Upstream,
    leader: Leader,
    /// The streams to the cluster, by user.
    streams: Arc<Mutex<HashMap<Vec<u8>, mpsc::Sender<Renewal>>>>,
}

impl KeepAlives {
    pub(super) fn new(upstream: Upstream, leader: Leader) -> KeepAlives {
        KeepAlives {
            upstream,
            leader,
            streams: Arc::default(),
        }
    }

    /// Answers the renewals of one client, in their order.
    pub(super) async fn serve(
        self,
        along: Along,
        renewals: impl Stream<Item = Result<pb::LeaseKeepAliveRequest, Status>> + Send + 'static,
    ) -> Result<impl Stream<Item = Answer> + Send + 'static, Status> {
        let requires_leader = along.wants_leader();
        if requires_leader {
            self.leader.required().await?;
        }
        let leader = self.leader.clone();
        let renewals = tokio_stream::StreamExt::map_while(renewals, Result::ok);
        let answers = renewals
            .map(move |renewal| self.clone().renew(along.clone(), renewal.id))
            .buffered(AT_ONCE_MAX);
        Ok(leader.guard(requires_leader, answers))
    }

    async fn renew(self, along: Along, id: i64) -> Answer {
        let (answer, answered) = oneshot::channel();
        let mut renewal = Renewal { id, answer };
        // A stream that has just been closed, because it was idle, does not take it.
        while let Err(mpsc::error::SendError(same)) = self.stream(&along).send(renewal).await {
            renewal = same;
        }
        let gone = |_| Err(Status::unavailable("the stream to the cluster has ended"));
        answered.await.unwrap_or_else(gone)
    }

    /// The stream of a user; opened if there is none.
    fn stream(&self, along: &Along) -> mpsc::Sender<Renewal> {
        let mut streams = self.streams.lock();
        streams.retain(|_, stream| !stream.is_closed());
        let stream = streams.entry(along.user()).or_insert_with(|| {
            let (sender, renewals) = mpsc::channel(WAITING_MAX);
            let shared = Shared {
                upstream: self.upstream.clone(),
                along: along.user_alone(),
                renewals,
                waiting: HashMap::new(),
                sent: VecDeque::new(),
            };
            tokio::spawn(shared.run());
            sender
        });
        stream.clone()
    }
}

/// A stream to the cluster, shared by clients.
struct Shared {
    upstream: Upstream,
    along: Along,
    renewals: mpsc::Receiver<Renewal>,
    /// Clients by the lease whose renewal they wait for.
    waiting: HashMap<i64, Vec<oneshot::Sender<Answer>>>,
    /// Leases whose renewal was sent on the open stream and is not answered. A member takes one
    /// after the other.
    sent: VecDeque<i64>,
}

impl Shared {
    async fn run(mut self) {
        loop {
            match self.session().await {
                Ok(()) => return,
                Err(status) if is_passing(&status) => tokio::time::sleep(REOPEN).await,
                Err(status) => self.refused(&status),
            }
        }
    }

    /// The stream ended with this refusal, and so did the first renewal that has no answer. The
    /// others are sent again.
    fn refused(&mut self, status: &Status) {
        // The first renewal of a stream opens it: nothing ends before one is sent.
        let refused = self.sent.pop_front();
        let clients = refused.and_then(|id| self.waiting.remove(&id));
        for client in clients.unwrap_or_default() {
            // A client may have left.
            let _ = client.send(Err(status.clone()));
        }
    }

    /// Opens the stream and renews on it until it breaks; or until it is idle, which is no error.
    async fn session(&mut self) -> Result<(), Status> {
        if self.waiting.is_empty() && !self.take_next().await {
            return Ok(());
        }
        let (requests, sent) = mpsc::channel(REQUESTS_MAX);
        let mut unsent: VecDeque<i64> = self.waiting.keys().copied().collect();
        self.sent.clear();
        // A member sends nothing, not even headers, before the first request.
        if let Some(id) = unsent.pop_front() {
            let _ = requests.try_send(pb::LeaseKeepAliveRequest { id });
            self.sent.push_back(id);
        }
        let mut lease = LeaseClient::new(self.upstream.clone());
        let request = self.along.with(ReceiverStream::new(sent));
        let mut answers = lease.lease_keep_alive(request).await?.into_inner();
        let ended = || Status::unavailable("the stream to the cluster has ended");
        loop {
            if self.waiting.is_empty() && self.renewals.is_closed() && self.renewals.is_empty() {
                return Ok(());
            }
            tokio::select! {
                room = requests.reserve(), if !unsent.is_empty() => {
                    let room = room.map_err(|_| ended())?;
                    if let Some(id) = unsent.pop_front() {
                        room.send(pb::LeaseKeepAliveRequest { id });
                        self.sent.push_back(id);
                    }
                }
                Some(renewal) = self.renewals.recv() => {
                    let id = renewal.id;
                    if self.wait(renewal) {
                        unsent.push_back(id);
                    }
                }
                answer = answers.message() => {
                    let answer = answer?.ok_or_else(ended)?;
                    let place = self.sent.iter().position(|id| *id == answer.id);
                    if let Some(place) = place {
                        self.sent.remove(place);
                    }
                    for client in self.waiting.remove(&answer.id).unwrap_or_default() {
                        // A client may have left.
                        let _ = client.send(Ok(answer));
                    }
                }
                // Those that come later find it closed and open another.
                () = tokio::time::sleep(IDLE_MAX), if self.waiting.is_empty() => {
                    self.renewals.close();
                }
            }
        }
    }

    /// Waits for the first renewal. False if none will come.
    async fn take_next(&mut self) -> bool {
        match self.renewals.recv().await {
            Some(renewal) => self.wait(renewal),
            None => false,
        }
    }

    /// Returns true if nobody waits for this lease yet.
    fn wait(&mut self, renewal: Renewal) -> bool {
        let clients = self.waiting.entry(renewal.id).or_default();
        clients.push(renewal.answer);
        clients.len() == 1
    }
}

/// True for errors of a connection or a member that others may not have.
pub(super) fn is_passing(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Internal | Code::Cancelled
    )
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::proxy::upstream::tests::to_nobody;

    #[test]
    fn a_refusal_is_of_the_first_renewal_without_an_answer() {
        let (_sender, renewals) = mpsc::channel(1);
        let mut shared = Shared {
            upstream: to_nobody(),
            along: Along::default(),
            renewals,
            waiting: HashMap::new(),
            sent: VecDeque::from([8, 7]),
        };
        let mut wait = |id| {
            let (answer, answered) = oneshot::channel();
            assert!(shared.wait(Renewal { id, answer }));
            answered
        };
        let (mut other, mut refused) = (wait(7), wait(8));
        shared.refused(&Status::permission_denied("not this one"));
        let why = refused.try_recv().unwrap().unwrap_err();
        assert_eq!(why.code(), Code::PermissionDenied);
        assert!(matches!(other.try_recv(), Err(TryRecvError::Empty)));
        assert!(shared.waiting.contains_key(&7), "it is sent again");
    }
}
