//! One stream of watches, between the client and the member.

use std::collections::{BTreeSet, VecDeque};

use etcd_api::etcdserverpb as pb;
use pb::WatchCreateRequest;
use pb::watch_request::RequestUnion;
use prost::Message;
use server::auth::watch_refusal;
use server::basics::error::Error;
use server::member::event::Reply;
use server::state::watch::{Ended, HistoryRead, Out, WatchStream};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::clients::Claim;
use crate::world::Failed;

pub(super) struct Connection {
    pub host: usize,
    pub life: u64,
    /// The member's disk failed when history was read: the client has to go elsewhere.
    pub broken: bool,
    /// ..and was damaged.
    pub damage: Option<String>,
    /// Who watches, for as long as the stream lasts.
    pub claim: Claim,
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
    /// Watches that do not begin, and why, as their clients are about to hear.
    refused: VecDeque<(i64, String)>,
    catching_up: CatchingUp,
}

/// Whether the member knows who watches.
enum CatchingUp {
    NotNeeded,
    /// A request waits for that.
    Wanted,
    Waits(Receiver<Reply>),
    Done,
}

/// Whether a watch may begin, and otherwise what its client hears; `None`: the member has to catch
/// up.
type Judgement = Result<Option<Result<(), String>>, Failed>;

impl Connection {
    pub(super) fn new(host: usize, life: u64, claim: Claim, stream: WatchStream) -> Connection {
        Connection {
            host,
            life,
            broken: false,
            damage: None,
            claim,
            stream,
            requests: VecDeque::new(),
            out: Out::default(),
            bytes: Vec::new(),
            reading: None,
            last_id: 0,
            canceled_twice: BTreeSet::new(),
            refused: VecDeque::new(),
            catching_up: CatchingUp::NotNeeded,
        }
    }

    pub(super) fn wants_to_catch_up(&self) -> bool {
        matches!(self.catching_up, CatchingUp::Wanted)
    }

    pub(super) fn catches_up(&mut self, receiver: Receiver<Reply>) {
        self.catching_up = CatchingUp::Waits(receiver);
    }

    /// The first watch that was refused, and why.
    pub(super) fn refused(&mut self) -> Option<(i64, String)> {
        self.refused.pop_front()
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
    fn pass_on(
        &mut self,
        judge: &impl Fn(&WatchCreateRequest) -> Judgement,
    ) -> Result<bool, Failed> {
        if let CatchingUp::Waits(receiver) = &mut self.catching_up {
            match receiver.try_recv() {
                Err(TryRecvError::Empty) => return Ok(false),
                Ok(Ok(_)) => self.catching_up = CatchingUp::Done,
                // The member cannot say: the stream ends.
                _ => self.broken = true,
            }
        }
        if self.broken || self.wants_to_catch_up() || !self.stream.accepts() {
            return Ok(false);
        }
        let Some(union) = self.requests.pop_front() else {
            return Ok(false);
        };
        let refused = match &union {
            RequestUnion::CreateRequest(create) => match judge(create)? {
                None if matches!(self.catching_up, CatchingUp::Done) => {
                    Some((create.watch_id, watch_refusal(&Error::InvalidAuthToken)))
                }
                None => {
                    self.requests.push_front(union);
                    self.catching_up = CatchingUp::Wanted;
                    return Ok(false);
                }
                Some(judged) => judged.err().map(|reason| (create.watch_id, reason)),
            },
            _ => None,
        };
        self.catching_up = CatchingUp::NotNeeded;
        let request = pb::WatchRequest {
            request_union: Some(union),
        };
        match refused {
            Some((id, reason)) => {
                self.stream.refuse(request, &reason, &mut self.out);
                self.refused.push_back((id, reason));
            }
            None => self.stream.request(request, &mut self.out),
        }
        Ok(true)
    }

    /// As `server::api::grpc::watch` polls it. Whole responses.
    pub(super) fn pump(
        &mut self,
        judge: &impl Fn(&WatchCreateRequest) -> Judgement,
    ) -> Result<Vec<pb::WatchResponse>, Failed> {
        if let Some(read) = self.reading.take() {
            self.stream.read_done(read.run());
        }
        loop {
            let mut is_busy = self.pass_on(judge)?;
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
                Some(Ended::Failed(error @ storage::Error::Corrupt { .. })) => {
                    self.broken = true;
                    self.damage = Some(error.to_string());
                    return Ok(Vec::new());
                }
                Some(ended) => {
                    let what = format!("a stream ended by itself: {ended:?}");
                    return Err(("watches", what));
                }
            }
            if self.reading.is_none()
                && let Some(mut read) = self.stream.next_read()
            {
                if let Some(done) = read.run_if_short() {
                    self.stream.read_done(done);
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
            let response = pb::WatchResponse::decode(body);
            let response = response.map_err(|error| ("watches", error.to_string()))?;
            responses.push(response);
            self.bytes.drain(..5 + length as usize);
        }
        Ok(responses)
    }
}
