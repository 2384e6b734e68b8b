//! The operations sent to both servers, and their answers.

use etcd_api::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DefragmentResponse,
    DeleteRangeRequest, DeleteRangeResponse, HashKvRequest, HashKvResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveResponse, LeaseLeasesResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, MemberListRequest,
    MemberListResponse, PutRequest, PutResponse, RangeRequest, RangeResponse, StatusResponse,
    TxnRequest, TxnResponse, WatchCreateRequest, WatchResponse,
};

/// One operation. Stream numbers name slots for watch streams, opened at first use.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Range(RangeRequest),
    RangeStream(RangeRequest),
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    HashKv(HashKvRequest),
    Grant(LeaseGrantRequest),
    /// A lease whose id or end the test cannot foresee: granted and revoked in one go.
    GrantAndRevoke(LeaseGrantRequest),
    Revoke(LeaseRevokeRequest),
    TimeToLive(LeaseTimeToLiveRequest),
    Leases,
    /// Requests on one keep-alive stream, which is then closed.
    KeepAlive(Vec<i64>),
    Members(MemberListRequest),
    Status,
    Alarms(AlarmRequest),
    Defragment,
    /// Opens a watch and waits for as many control messages (created, canceled) as `answers`.
    Watch {
        stream: usize,
        request: WatchCreateRequest,
        answers: usize,
    },
    /// Cancels a watch that exists and waits for the answer.
    CancelWatch {
        stream: usize,
        id: i64,
    },
    /// Things that get no answer: a cancel of an unknown id, an empty request.
    SendUnanswered {
        stream: usize,
        cancel: Option<i64>,
    },
    /// Closes the stream from the client's side.
    CloseStream {
        stream: usize,
    },
    /// Waits for everything the open watches have to say; the store is at `revision`.
    Drain {
        revision: i64,
    },
    /// Stops both servers (kill -9 or SIGTERM) and starts them on what they left.
    Restart {
        kill: bool,
    },
}

impl Op {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Op::Range(_) => "Range",
            Op::RangeStream(_) => "RangeStream",
            Op::Put(_) => "Put",
            Op::Delete(_) => "Delete",
            Op::Txn(_) => "Txn",
            Op::Compact(_) => "Compact",
            Op::HashKv(_) => "HashKV",
            Op::Grant(_) => "Grant",
            Op::GrantAndRevoke(_) => "GrantAndRevoke",
            Op::Revoke(_) => "Revoke",
            Op::TimeToLive(_) => "TimeToLive",
            Op::Leases => "Leases",
            Op::KeepAlive(_) => "KeepAlive",
            Op::Members(_) => "Members",
            Op::Status => "Status",
            Op::Alarms(_) => "Alarms",
            Op::Defragment => "Defragment",
            Op::Watch { .. } => "Watch",
            Op::CancelWatch { .. } => "CancelWatch",
            Op::SendUnanswered { .. } => "SendUnanswered",
            Op::CloseStream { .. } => "CloseStream",
            Op::Drain { .. } => "Drain",
            Op::Restart { .. } => "Restart",
        }
    }
}

/// The code of an answer that did not come in time; no gRPC code is negative.
pub(crate) const NO_ANSWER: i32 = -1;

/// What came back. Two equal answers mean that the servers agree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Error { code: i32, message: String },
    Range(RangeResponse),
    Put(PutResponse),
    Delete(DeleteRangeResponse),
    Txn(TxnResponse),
    Compact(CompactionResponse),
    HashKv(HashKvResponse),
    Grant(LeaseGrantResponse),
    Revoke(LeaseRevokeResponse),
    GrantAndRevoke(LeaseGrantResponse, LeaseRevokeResponse),
    TimeToLive(LeaseTimeToLiveResponse),
    Leases(LeaseLeasesResponse),
    KeepAlive(Vec<LeaseKeepAliveResponse>),
    Members(MemberListResponse),
    Status(StatusResponse),
    Alarms(AlarmResponse),
    Defragment(DefragmentResponse),
    Control(Vec<WatchResponse>),
    Done,
}

/// Longer texts are cut when printed: values may have a megabyte.
const PRINTED_MAX: usize = 6_000;

/// A debug rendering fit for a terminal.
pub(crate) fn shown(value: &impl std::fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    if text.len() > PRINTED_MAX {
        let length = text.len();
        let end = text.floor_char_boundary(PRINTED_MAX);
        text.truncate(end);
        text.push_str(&format!(".. ({length} characters)"));
    }
    text
}
