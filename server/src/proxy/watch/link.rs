//! A stream of watches to the cluster, shared by all broadcasts of a user. When it breaks, it is
//! opened again and its watches go on where they were.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Note;
use super::events::Events;
use super::hub::{End, Heard, NO_WATCH_ID};
use crate::proxy::forward::Along;
use crate::proxy::lease::is_passing;
use crate::proxy::namespace::Namespace;
use crate::proxy::upstream::Upstream;

/// Requests that wait for the connection.
const REQUESTS_MAX: usize = 64;

/// Pause before a stream that broke is opened again.
const REOPEN: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) enum Command {
    Begin {
        broadcast: i64,
        range: (Bytes, Bytes),
        revision: i64,
    },
    End(i64),
}

pub(super) struct Link {
    pub(super) upstream: Upstream,
    pub(super) user: Along,
    pub(super) namespace: Namespace,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) notes: mpsc::Sender<Note>,
    /// By broadcast, which is also the id on the stream.
    pub(super) watches: BTreeMap<i64, Place>,
}

/// A watch of the cluster, and where it would go on.
#[derive(Debug)]
pub(super) struct Place {
    range: (Bytes, Bytes),
    next: i64,
}

/// Why a session ended.
enum Ended {
    /// No more commands will come.
    Done,
    Broken(Status),
}

impl From<Status> for Ended {
    fn from(status: Status) -> Ended {
        Ended::Broken(status)
    }
}

impl Link {
    /// Runs until no more commands will come.
    pub(super) async fn run(mut self) {
        loop {
            if self.watches.is_empty() {
                let Some(command) = self.commands.recv().await else {
                    return;
                };
                self.take(command);
                continue;
            }
            match self.session().await {
                Err(Ended::Done) => return,
                Err(Ended::Broken(status)) if is_passing(&status) => {
                    tokio::time::sleep(REOPEN).await;
                }
                Err(Ended::Broken(status)) => {
                    for (broadcast, _) in std::mem::take(&mut self.watches) {
                        self.refused(broadcast, None, status.message().to_owned())
                            .await;
                    }
                }
                // All watches have ended.
                Ok(()) => {}
            }
        }
    }

    /// Opens the stream and passes on what comes until it breaks, or until no watch is left.
    async fn session(&mut self) -> Result<(), Ended> {
        let (requests, sent) = mpsc::channel(REQUESTS_MAX);
        let begun = self.watches.iter();
        let mut unsent: VecDeque<_> = begun.map(|(id, place)| place.request(*id)).collect();
        // The answers to these requests come in their order.
        let mut unanswered: VecDeque<i64> = self.watches.keys().copied().collect();
        // A member sends nothing, not even headers, before the first request.
        if let Some(request) = unsent.pop_front() {
            let _ = requests.try_send(request);
        }
        let mut client = WatchClient::new(self.upstream.clone())
            .max_decoding_message_size(self.upstream.how().max_recv_bytes);
        let request = self.user.with(ReceiverStream::new(sent));
        let mut answers = client.watch(request).await?.into_inner();
        let broken = || Status::unavailable("the stream to the cluster has ended");
        while !self.watches.is_empty() {
            tokio::select! {
                room = requests.reserve(), if !unsent.is_empty() => {
                    let room = room.map_err(|_| broken())?;
                    if let Some(request) = unsent.pop_front() {
                        room.send(request);
                    }
                }
                command = self.commands.recv() => {
                    let Some(command) = command else { return Err(Ended::Done) };
                    if let Command::Begin { broadcast, .. } = command {
                        unanswered.push_back(broadcast);
                    }
                    unsent.extend(self.take(command));
                }
                answer = answers.message() => {
                    let answer = answer?.ok_or_else(broken)?;
                    self.hear(answer, &mut unanswered).await;
                }
            }
        }
        Ok(())
    }

    /// Takes a command over; returns the request that it leads to on an open stream.
    fn take(&mut self, command: Command) -> Option<pb::WatchRequest> {
        match command {
            Command::Begin {
                broadcast,
                range,
                revision,
            } => {
                let place = Place {
                    range,
                    next: revision,
                };
                let request = place.request(broadcast);
                self.watches.insert(broadcast, place);
                Some(request)
            }
            Command::End(broadcast) => {
                self.watches.remove(&broadcast)?;
                let cancel = pb::WatchCancelRequest {
                    watch_id: broadcast,
                };
                Some(pb::WatchRequest {
                    request_union: Some(RequestUnion::CancelRequest(cancel)),
                })
            }
        }
    }

    async fn hear(&mut self, mut answer: pb::WatchResponse, unanswered: &mut VecDeque<i64>) {
        let mut broadcast = answer.watch_id;
        if answer.created {
            let first = unanswered.pop_front();
            if broadcast == NO_WATCH_ID {
                broadcast = first.unwrap_or(NO_WATCH_ID);
            }
        }
        if !self.watches.contains_key(&broadcast) {
            return;
        }
        if answer.canceled {
            self.watches.remove(&broadcast);
            if answer.compact_revision == 0 {
                return self
                    .refused(broadcast, answer.header, answer.cancel_reason)
                    .await;
            }
        } else if answer.created {
            return;
        }
        self.namespace.leave_events(&mut answer.events);
        let events = Events::new(answer.events);
        let revision = answer.header.map_or(0, |header| header.revision);
        let next = events.next().unwrap_or(revision + 1);
        if let Some(place) = self.watches.get_mut(&broadcast) {
            place.next = place.next.max(next);
        }
        let heard = Heard {
            header: answer.header,
            events,
            end: answer.canceled.then_some(End {
                compact_revision: answer.compact_revision,
                reason: answer.cancel_reason,
            }),
        };
        // The hub lives as long as the proxy.
        let _ = self.notes.send(Note::Heard(broadcast, heard)).await;
    }

    async fn refused(&self, broadcast: i64, header: Option<pb::ResponseHeader>, reason: String) {
        let heard = Heard {
            header,
            events: Events::default(),
            end: Some(End {
                compact_revision: 0,
                reason,
            }),
        };
        let _ = self.notes.send(Note::Heard(broadcast, heard)).await;
    }
}

impl Place {
    fn request(&self, id: i64) -> pb::WatchRequest {
        let (key, range_end) = self.range.clone();
        let create = pb::WatchCreateRequest {
            key,
            range_end,
            start_revision: self.next,
            progress_notify: true,
            prev_kv: true,
            watch_id: id,
            ..pb::WatchCreateRequest::default()
        };
        pb::WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        }
    }
}
