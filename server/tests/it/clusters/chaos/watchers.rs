//! Watchers that follow all changes through all faults of their members. Each resumes where its
//! last stream ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::event::EventType;
use pb::watch_request::RequestUnion;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::harness::rng::Rng;

const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// Somebody writes all the time: who hears nothing for so long asks another member.
const QUIET_MAX: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) revision: i64,
    pub(super) key: Vec<u8>,
    /// `None`: a deletion.
    pub(super) value: Option<Vec<u8>>,
    pub(super) create_revision: i64,
    pub(super) version: i64,
}

pub(super) struct Watcher {
    pub(super) urls: Vec<String>,
    /// Stays with the first URL, however quiet it is.
    pub(super) stays: bool,
    /// Up to where it has heard everything, for whoever compacts.
    pub(super) heard: Arc<AtomicI64>,
    /// The last revision there will be, once that is known.
    pub(super) last: watch::Receiver<Option<i64>>,
    pub(super) rng: Rng,
}

#[derive(Default)]
pub(super) struct Heard {
    pub(super) events: Vec<Event>,
    pub(super) streams: usize,
}

impl Watcher {
    /// Everything after revision 1 up to the last.
    pub(super) async fn run(mut self) -> Result<Heard, String> {
        let mut heard = Heard::default();
        self.heard.store(1, Ordering::Relaxed);
        loop {
            let url = if self.stays {
                self.urls[0].clone()
            } else {
                self.rng.pick(&self.urls)
            };
            let opening = tokio::time::timeout(CONNECT_PATIENCE, self.open(&url)).await;
            if let Ok(Some((_requests, stream))) = opening {
                heard.streams += 1;
                if self.follow(stream, &mut heard).await? {
                    return Ok(heard);
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn open(
        &self,
        url: &str,
    ) -> Option<(mpsc::Sender<pb::WatchRequest>, Streaming<pb::WatchResponse>)> {
        let client = Client::connect(url).await.ok()?;
        let (requests, receiver) = mpsc::channel(1);
        let create = pb::WatchCreateRequest {
            key: b"\0".as_slice().into(),
            range_end: b"\0".as_slice().into(),
            start_revision: self.heard.load(Ordering::Relaxed) + 1,
            ..Default::default()
        };
        let request = pb::WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        };
        requests.send(request).await.ok()?;
        let opening = client.watch().watch(ReceiverStream::new(receiver)).await;
        Some((requests, opening.ok()?.into_inner()))
    }

    /// Until the stream ends. True: everything was heard.
    async fn follow(
        &mut self,
        mut stream: Streaming<pb::WatchResponse>,
        heard: &mut Heard,
    ) -> Result<bool, String> {
        let mut last = self.last.clone();
        loop {
            let seen = self.heard.load(Ordering::Relaxed);
            if last.borrow_and_update().is_some_and(|last| seen >= last) {
                return Ok(true);
            }
            let response = tokio::select! {
                response = stream.message() => response,
                _ = last.changed() => continue,
                () = tokio::time::sleep(QUIET_MAX), if !self.stays => return Ok(false),
            };
            let Ok(Some(response)) = response else {
                return Ok(false);
            };
            if response.canceled {
                return Err(format!("canceled after {seen}: {response:?}"));
            }
            self.take(response, seen, heard)?;
        }
    }

    fn take(
        &self,
        response: pb::WatchResponse,
        seen: i64,
        heard: &mut Heard,
    ) -> Result<(), String> {
        let mut newest = seen;
        for event in response.events {
            let is_put = event.r#type() == EventType::Put;
            let kv = event.kv.unwrap_or_default();
            // Later responses begin with a later revision: a revision comes whole.
            if kv.mod_revision <= seen || kv.mod_revision < newest {
                return Err(format!(
                    "after {seen} and {newest} came {}",
                    kv.mod_revision
                ));
            }
            newest = kv.mod_revision;
            heard.events.push(Event {
                revision: kv.mod_revision,
                key: kv.key.to_vec(),
                value: is_put.then(|| kv.value.to_vec()),
                create_revision: kv.create_revision,
                version: kv.version,
            });
        }
        self.heard.store(newest, Ordering::Relaxed);
        Ok(())
    }
}
