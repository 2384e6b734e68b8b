//! A store on a simulated disk, a hub, and streams with clients, all driven step by step.

use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use prost::Message;
use storage::mvcc::{Applied, KeyRange, Options, Reader, Store, Write};
use storage::vfs::sim::SimVfs;

use crate::state::snapshot::rows;
use crate::state::watch::{
    HistoryRead, Hub, HubHandle, Out, RevisionLimits, StreamOptions, WatchStream,
};

pub(super) const FRAGMENT_BYTES: usize = 2 << 20;
const DIR: &str = "/store";

pub(super) struct Rig {
    vfs: Arc<SimVfs>,
    pub(super) store: Store,
    pub(super) reader: Reader,
    pub(super) hub: Hub,
    pub(super) handle: HubHandle,
    index: u64,
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::with_limits(RevisionLimits::default())
    }

    pub(super) fn with_limits(limits: RevisionLimits) -> Rig {
        let vfs = Arc::new(SimVfs::new(1));
        let mut store = Store::open(vfs.clone(), Path::new(DIR), Options::default()).unwrap();
        store.publish();
        let reader = store.reader();
        let (hub, handle) = Hub::with_limits(reader.clone(), limits);
        Rig {
            vfs,
            store,
            reader,
            hub,
            handle,
            index: 0,
        }
    }

    /// Applies one log entry.
    pub(super) fn write(&mut self, f: impl FnOnce(&mut Write<'_>)) {
        self.index += 1;
        let applied = Applied {
            index: self.index,
            term: 1,
        };
        f(&mut self.store.write(applied));
    }

    /// Publishes the writes so far, and tells the hub.
    pub(super) fn publish(&mut self) {
        self.store.publish();
        self.handle.advanced(self.store.root().revision());
    }

    pub(super) fn put(&mut self, key: &str, value: &str) -> i64 {
        self.write(|write| write.put(key.as_bytes(), value.as_bytes(), 0).unwrap());
        self.publish();
        self.revision()
    }

    pub(super) fn delete(&mut self, key: &str) -> i64 {
        self.write(|write| {
            write
                .delete_range(KeyRange::from_wire(key.as_bytes(), b""))
                .unwrap();
        });
        self.publish();
        self.revision()
    }

    /// Compacts, and removes rows as far as the hub allows.
    pub(super) fn compact(&mut self, revision: i64) {
        self.write(|write| write.compact(revision).unwrap());
        self.publish();
        self.remove_compacted();
    }

    pub(super) fn remove_compacted(&mut self) {
        if self.handle.seen() >= self.store.root().compacted() {
            while !self.store.compact_step(100).unwrap().done {}
            self.store.publish();
        }
    }

    /// Replaces this member's state by another's.
    pub(super) fn replace_with(&mut self, other: &Rig) {
        let mut rows = Vec::new();
        rows::write(&other.reader.view(), &mut rows).unwrap();
        let vfs: Arc<SimVfs> = Arc::clone(&self.vfs);
        let incoming = rows::load(vfs, Path::new(DIR), Options::default(), &mut &rows[..]).unwrap();
        self.store.replace(incoming).unwrap();
        self.index = other.index;
        self.publish();
    }

    pub(super) fn revision(&self) -> i64 {
        self.store.root().revision()
    }

    /// One turn of the hub's thread. Returns false if there was nothing to do.
    pub(super) fn turn(&mut self) -> bool {
        self.hub.turn().unwrap()
    }

    pub(super) fn client(&self) -> Client {
        let options = StreamOptions {
            fragment_bytes: FRAGMENT_BYTES,
        };
        Client {
            stream: WatchStream::new(self.handle.clone(), self.reader.clone(), options),
            out: Out::default(),
            requests: Default::default(),
            read: None,
            bytes: BytesMut::new(),
            received: Vec::new(),
            most_held: 0,
        }
    }

    /// Runs hub and client until both are idle.
    pub(super) fn settle(&mut self, client: &mut Client) {
        loop {
            let turned = self.turn();
            // The client may have asked the hub for something, and have nothing more to do itself.
            if !client.step() && !turned && !self.turn() {
                return;
            }
        }
    }
}

/// A stream, its connection, and the client behind it.
pub(super) struct Client {
    pub(super) stream: WatchStream,
    out: Out,
    requests: std::collections::VecDeque<WatchRequest>,
    read: Option<HistoryRead>,
    bytes: BytesMut,
    /// Decoded responses that the test has not looked at.
    pub(super) received: Vec<WatchResponse>,
    /// The most bytes held for the stream: in mailbox, batch, history and output.
    pub(super) most_held: usize,
}

impl Client {
    pub(super) fn send(&mut self, union: RequestUnion) {
        self.requests.push_back(WatchRequest {
            request_union: Some(union),
        });
    }

    pub(super) fn create(&mut self, request: WatchCreateRequest) {
        self.send(RequestUnion::CreateRequest(request));
    }

    pub(super) fn cancel(&mut self, watch_id: i64) {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }));
    }

    pub(super) fn ask_progress(&mut self) {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {}));
    }

    /// The server's side of the call: takes up to one request, and works for the stream while the
    /// connection has room. Returns false if there was nothing to do.
    pub(super) fn turn(&mut self) -> bool {
        let mut busy = false;
        if self.stream.accepts()
            && let Some(request) = self.requests.pop_front()
        {
            self.stream.request(request, &mut self.out);
            busy = true;
        }
        self.note_held();
        self.stream.pump(&mut self.out);
        self.note_held();
        busy |= self.stream.accepts() && !self.requests.is_empty();
        if self.read.is_none() {
            self.read = self.stream.next_read();
            busy |= self.read.is_some();
        }
        busy
    }

    /// The thread that reads history.
    pub(super) fn read_history(&mut self) -> bool {
        let read = self.read.take();
        let had = read.is_some();
        if let Some(mut read) = read {
            self.stream.read_done(match read.run_if_short() {
                Some(done) => done,
                None => read.run(),
            });
        }
        self.note_held();
        had
    }

    fn note_held(&mut self) {
        let held = self.stream.bytes_held() + self.out.waiting_bytes();
        self.most_held = self.most_held.max(held);
    }

    /// The client's side: takes one frame from the connection.
    pub(super) fn receive(&mut self) -> bool {
        let frame = self.out.next_frame();
        let had = frame.is_some();
        self.bytes.extend_from_slice(&frame.unwrap_or_default());
        while let Some(message) = next_message(&mut self.bytes) {
            self.received.push(WatchResponse::decode(message).unwrap());
        }
        had
    }

    pub(super) fn step(&mut self) -> bool {
        // All three must run; `||` would stop at the first true.
        let did = [self.turn(), self.read_history(), self.receive()];
        did.contains(&true)
    }

    pub(super) fn take(&mut self) -> Vec<WatchResponse> {
        std::mem::take(&mut self.received)
    }
}

/// The responses once everything is idle.
pub(super) fn answers(rig: &mut Rig, client: &mut Client) -> Vec<WatchResponse> {
    rig.settle(client);
    client.take()
}

/// The id of a new watch; other responses stay in `received`.
pub(super) fn created(rig: &mut Rig, client: &mut Client, request: WatchCreateRequest) -> i64 {
    client.create(request);
    rig.settle(client);
    let place = client.received.iter().position(|response| response.created);
    let response = client
        .received
        .remove(place.expect("the watch was announced"));
    assert!(!response.canceled, "{}", response.cancel_reason);
    response.watch_id
}

/// A create request for one key, from a revision on.
pub(super) fn watch(key: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        start_revision,
        ..Default::default()
    }
}

/// A create request for every key.
pub(super) fn watch_all(start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        range_end: Bytes::from_static(b"\0"),
        ..watch("", start_revision)
    }
}

/// (revision, key, is a delete)
pub(super) type Seen = (i64, String, bool);

pub(super) fn seen(response: &WatchResponse) -> Vec<Seen> {
    let event = |event: &etcd_api::mvccpb::Event| {
        let kv = event.kv.as_ref().unwrap();
        let key = String::from_utf8(kv.key.to_vec()).unwrap();
        (kv.mod_revision, key, event.r#type == 1)
    };
    response.events.iter().map(event).collect()
}

pub(super) fn all_seen(responses: &[WatchResponse]) -> Vec<Seen> {
    responses.iter().flat_map(seen).collect()
}

pub(super) fn header_revision(response: &WatchResponse) -> i64 {
    response.header.as_ref().unwrap().revision
}

/// Everything in `out`, decoded.
pub(super) fn messages(out: &mut Out) -> Vec<WatchResponse> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = out.next_frame() {
        bytes.extend_from_slice(&frame);
    }
    let mut all = Vec::new();
    while let Some(message) = next_message(&mut bytes) {
        all.push(WatchResponse::decode(message).unwrap());
    }
    assert!(bytes.is_empty(), "the last message is cut off");
    all
}

/// The next whole gRPC message.
fn next_message(bytes: &mut BytesMut) -> Option<BytesMut> {
    let prefix = bytes.get(..5)?;
    assert_eq!(prefix[0], 0, "not compressed");
    let len = u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize;
    if bytes.len() < 5 + len {
        return None;
    }
    bytes.advance(5);
    Some(bytes.split_to(len))
}
