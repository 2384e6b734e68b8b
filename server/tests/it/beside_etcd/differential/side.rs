//! One of the two servers: process, connection, watch streams.

use std::future::Future;
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Server;
use tonic::{Code, Request, Status};

use super::op::{Answer, NO_ANSWER, Op};
use super::stream::{STREAMS, Stream};

/// No operation takes this long on a server that lives.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Side {
    pub(crate) server: Server,
    client: Client,
    pub(crate) streams: [Option<Stream>; STREAMS],
}

impl Side {
    pub(crate) async fn new(server: Server) -> Side {
        let client = connect(&server).await;
        Side {
            server,
            client,
            streams: Default::default(),
        }
    }

    /// Asks and waits for the answer.
    pub(crate) async fn run(&mut self, op: &Op) -> Answer {
        match tokio::time::timeout(ANSWER_WITHIN, self.ask(op)).await {
            Ok(Ok(answer)) => answer,
            // Nobody here sets a deadline: the test itself has waited long enough.
            Ok(Err(status)) if status.code() == Code::DeadlineExceeded => Answer::Error {
                code: NO_ANSWER,
                message: status.message().to_string(),
            },
            Ok(Err(status)) => Answer::Error {
                code: status.code() as i32,
                message: status.message().to_string(),
            },
            Err(_) => Answer::Error {
                code: NO_ANSWER,
                message: "no answer".to_string(),
            },
        }
    }

    async fn ask(&mut self, op: &Op) -> Result<Answer, Status> {
        match op {
            Op::Range(r) => unary(self.client.kv().range(r.clone()), Answer::Range).await,
            Op::RangeStream(r) => self.range_stream(r.clone()).await,
            Op::Put(r) => unary(self.client.kv().put(r.clone()), Answer::Put).await,
            Op::Delete(r) => unary(self.client.kv().delete_range(r.clone()), Answer::Delete).await,
            Op::Txn(r) => unary(self.client.kv().txn(r.clone()), Answer::Txn).await,
            Op::Compact(r) => unary(self.client.kv().compact(*r), Answer::Compact).await,
            Op::HashKv(r) => unary(self.client.maintenance().hash_kv(*r), Answer::HashKv).await,
            Op::Grant(r) => unary(self.client.lease().lease_grant(*r), Answer::Grant).await,
            Op::Revoke(r) => unary(self.client.lease().lease_revoke(*r), Answer::Revoke).await,
            Op::GrantAndRevoke(r) => self.grant_and_revoke(*r).await,
            Op::TimeToLive(r) => {
                unary(
                    self.client.lease().lease_time_to_live(*r),
                    Answer::TimeToLive,
                )
                .await
            }
            Op::Leases => {
                let request = pb::LeaseLeasesRequest {};
                unary(self.client.lease().lease_leases(request), Answer::Leases).await
            }
            Op::KeepAlive(ids) => self.keep_alive(ids).await,
            Op::Members(r) => unary(self.client.cluster().member_list(*r), Answer::Members).await,
            Op::Status => {
                let request = pb::StatusRequest {};
                unary(self.client.maintenance().status(request), Answer::Status).await
            }
            Op::Alarms(r) => unary(self.client.maintenance().alarm(*r), Answer::Alarms).await,
            Op::Defragment => {
                let request = pb::DefragmentRequest {};
                unary(
                    self.client.maintenance().defragment(request),
                    Answer::Defragment,
                )
                .await
            }
            Op::Watch {
                stream,
                request,
                answers,
            } => {
                let stream = self.stream(*stream);
                stream.create(request.clone()).await;
                Ok(Answer::Control(stream.control(*answers).await?))
            }
            Op::CancelWatch { stream, id } => {
                let stream = self.stream(*stream);
                stream.cancel(*id).await;
                Ok(Answer::Control(stream.control(1).await?))
            }
            Op::SendUnanswered { stream, cancel } => {
                let stream = self.stream(*stream);
                match cancel {
                    Some(id) => stream.cancel(*id).await,
                    None => stream.send(None).await,
                }
                Ok(Answer::Done)
            }
            Op::CloseStream { stream } => {
                self.streams[*stream] = None;
                Ok(Answer::Done)
            }
            Op::Drain { revision } => {
                for stream in self.streams.iter_mut().flatten() {
                    stream.settle(*revision).await?;
                }
                Ok(Answer::Done)
            }
            Op::Restart { kill } => {
                self.restart(*kill).await;
                Ok(Answer::Done)
            }
        }
    }

    fn stream(&mut self, slot: usize) -> &mut Stream {
        let client = &self.client;
        self.streams[slot].get_or_insert_with(|| Stream::open(client.watch()))
    }

    /// The parts of a streamed range, merged as a client merges them. Only the last part may tell
    /// the header, the count and whether there is more.
    async fn range_stream(&self, request: pb::RangeRequest) -> Result<Answer, Status> {
        let mut parts = self.client.kv().range_stream(request).await?.into_inner();
        let mut merged = pb::RangeResponse::default();
        while let Some(part) = parts.message().await? {
            let part = part
                .range_response
                .ok_or_else(|| Status::internal("an empty part"))?;
            if merged.header.is_some() {
                return Err(Status::internal("a part behind the last one"));
            }
            merged.kvs.extend(part.kvs);
            merged.header = part.header;
            merged.more |= part.more;
            merged.count += part.count;
        }
        Ok(Answer::Range(merged))
    }

    async fn grant_and_revoke(&self, request: pb::LeaseGrantRequest) -> Result<Answer, Status> {
        let mut lease = self.client.lease();
        let mut granted = lease.lease_grant(request).await?.into_inner();
        let revoke = pb::LeaseRevokeRequest { id: granted.id };
        let revoked = lease.lease_revoke(revoke).await?.into_inner();
        if request.id == 0 && granted.id > 0 {
            granted.id = 0;
        }
        Ok(Answer::GrantAndRevoke(granted, revoked))
    }

    async fn keep_alive(&self, ids: &[i64]) -> Result<Answer, Status> {
        let requests: Vec<_> = ids
            .iter()
            .map(|id| pb::LeaseKeepAliveRequest { id: *id })
            .collect();
        let requests = Request::new(tokio_stream::iter(requests));
        let mut stream = self
            .client
            .lease()
            .lease_keep_alive(requests)
            .await?
            .into_inner();
        let mut answers = Vec::new();
        while let Some(answer) = stream.message().await? {
            answers.push(answer);
        }
        Ok(Answer::KeepAlive(answers))
    }

    async fn restart(&mut self, kill: bool) {
        self.streams = Default::default();
        if kill {
            self.server.kill();
        } else {
            self.server.terminate();
        }
        self.server
            .start()
            .unwrap_or_else(|error| panic!("{error}"));
        self.client = connect(&self.server).await;
    }
}

async fn connect(server: &Server) -> Client {
    let connected = Client::connect(server.url()).await;
    connected.unwrap_or_else(|error| panic!("cannot connect to {}: {error}", server.url()))
}

async fn unary<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    wrap: impl FnOnce(T) -> Answer,
) -> Result<Answer, Status> {
    Ok(wrap(call.await?.into_inner()))
}
