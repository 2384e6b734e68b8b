//! One stream of watches, between the client and the member.

use std::collections::{BTreeSet, VecDeque};

use etcd_api::etcdserverpb as pb;
use pb::watch_request::RequestUnion;
use prost::Message;
use server::state::watch::{Ended, HistoryRead, Out, WatchStream};

pub(super) struct Connection {
    pub host: usize,
    pub life: u64,
    /// The member's disk failed when history was read: the client has to go elsewhere.
    pub broken: bool,
    stream: WatchStream,
    /// The member takes one after the other.
    requests: VecDeque<RequestUnion>,
    out: Out,
    bytes: Vec<u8>,
    /// Read by another thread, as it were; done at the next look.
    reading: Option<HistoryRead>,
    last_id: i64,
    /// Watches that were compacted when their client asked for their end.
    canceled_twice: BTreeSet<i64>,
}

impl Connection {
    pub(super) fn new(host: usize, life: u64, stream: WatchStream) -> Connection {
        Connection {
            host,
            life,
            broken: false,
            stream,
            requests: VecDeque::new(),
            out: Out::default(),
            bytes: Vec::new(),
            reading: None,
            last_id: 0,
            canceled_twice: BTreeSet::new(),
        }
    }

    /// For another watch on this stream.
    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn ask(&mut self, request: RequestUnion) {
        self.requests.push_back(request);
    }

    /// Another answer says that the watch has ended.
    pub(super) fn cancels_again(&mut self, id: i64) {
        self.canceled_twice.insert(id);
    }

    /// True once for each such watch.
    pub(super) fn is_canceled_twice(&mut self, id: i64) -> bool {
        self.canceled_twice.remove(&id)
    }

    /// The progress interval has passed.
    pub(super) fn tick(&mut self) {
        self.stream.tick();
    }

    /// True if the member took a request.
    fn pass_on(&mut self) -> bool {
        if !self.stream.accepts() {
            return false;
        }
        let Some(union) = self.requests.pop_front() else {
            return false;
        };
        let request = pb::WatchRequest {
            request_union: Some(union),
        };
        self.stream.request(request, &mut self.out);
        true
    }

    /// As `server::api::grpc::watch` polls it. Whole responses.
    pub(super) fn pump(&mut self) -> Result<Vec<pb::WatchResponse>, String> {
        if let Some(read) = self.reading.take() {
            self.stream.read_done(read.run());
        }
        loop {
            let mut is_busy = self.pass_on();
            self.stream.pump(&mut self.out);
            while let Some(frame) = self.out.next_frame() {
                self.bytes.extend_from_slice(&frame);
                is_busy = true;
            }
            match self.stream.ended() {
                None => {}
                Some(Ended::Failed(storage::Error::Io { .. })) => {
                    self.broken = true;
                    return Ok(Vec::new());
                }
                Some(ended) => return Err(format!("a stream ended by itself: {ended:?}")),
            }
            if self.reading.is_none()
                && let Some(read) = self.stream.next_read()
            {
                if read.is_short() {
                    self.stream.read_done(read.run());
                    is_busy = true;
                } else {
                    self.reading = Some(read);
                }
            }
            if !is_busy {
                break;
            }
        }
        let mut responses = Vec::new();
        while let Some((_, rest)) = self.bytes.split_first_chunk::<5>() {
            let length =
                u32::from_be_bytes([self.bytes[1], self.bytes[2], self.bytes[3], self.bytes[4]]);
            let Some(body) = rest.get(..length as usize) else {
                break;
            };
            let response = pb::WatchResponse::decode(body).map_err(|error| error.to_string())?;
            responses.push(response);
            self.bytes.drain(..5 + length as usize);
        }
        Ok(responses)
    }
}
