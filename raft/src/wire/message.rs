//! Conversion between the one flat message of `raftpb` and our typed ones.
//!
//! | no | field | | no | field |
//! |---|---|---|---|---|
//! | 1 | type | | 7 | entries\* |
//! | 2 | to | | 8 | commit |
//! | 3 | from | | 9 | snapshot |
//! | 4 | term | | 10 | reject |
//! | 5 | log term | | 11 | reject hint |
//! | 6 | index | | 12 | context |

use bytes::Bytes;

use super::field::{Fields, Malformed, put_bytes, put_message, put_number, put_sized};
use super::parts::{decode_entry, decode_snapshot, encode_entry, encode_snapshot, entry_len};
use crate::message::{Body, Entry, Message, Position, Snapshot};

/// Far more entries than a real message holds. An entry can cost only two bytes on the wire but
/// more than fifty in memory.
const ENTRIES_MAX: usize = 1 << 18;

/// etcd writes this into the context of a vote request if the leader asked for the election.
const TRANSFER: &[u8] = b"CampaignTransfer";

const PROPOSE: u64 = 2;
const APPEND: u64 = 3;
const APPEND_REPLY: u64 = 4;
const VOTE: u64 = 5;
const VOTE_REPLY: u64 = 6;
const SNAPSHOT: u64 = 7;
const HEARTBEAT: u64 = 8;
const HEARTBEAT_REPLY: u64 = 9;
const TRANSFER_LEADER: u64 = 13;
const TIMEOUT_NOW: u64 = 14;
const READ_INDEX: u64 = 15;
const READ_INDEX_REPLY: u64 = 16;
const PRE_VOTE: u64 = 17;
const PRE_VOTE_REPLY: u64 = 18;

/// The fields of all types together.
#[derive(Default)]
struct Flat {
    kind: u64,
    at: Position,
    entries: Vec<Entry>,
    commit: u64,
    snapshot: Option<Snapshot>,
    reject: bool,
    reject_hint: u64,
    context: Bytes,
}

/// Estimated length of the encoded message, in bytes.
pub fn message_size_hint(message: &Message) -> usize {
    let entries = match &message.body {
        Body::Append { entries, .. } | Body::Propose { entries } => entries.as_slice(),
        Body::Snapshot(snapshot) => return 128 + snapshot.data.len(),
        _ => &[],
    };
    let entries = entries.iter().map(|entry| entry_len(entry) + 8);
    128 + entries.sum::<usize>()
}

pub fn encode_message(message: &Message, out: &mut Vec<u8>) {
    let flat = flatten(&message.body);
    put_number(out, 1, flat.kind);
    put_number(out, 2, message.to);
    put_number(out, 3, message.from);
    put_number(out, 4, message.term);
    put_number(out, 5, flat.at.term);
    put_number(out, 6, flat.at.index);
    let entries = match &message.body {
        Body::Append { entries, .. } | Body::Propose { entries } => entries,
        _ => &flat.entries,
    };
    for entry in entries {
        put_sized(out, 7, entry_len(entry), |out| encode_entry(entry, out));
    }
    put_number(out, 8, flat.commit);
    if let Body::Snapshot(snapshot) = &message.body {
        put_message(out, 9, &encode_snapshot(snapshot));
    }
    put_number(out, 10, u64::from(flat.reject));
    put_number(out, 11, flat.reject_hint);
    put_bytes(out, 12, &flat.context);
}

/// All fields except the large ones: the entries of `Append` and `Propose`, and the snapshot.
fn flatten(body: &Body) -> Flat {
    let flat = |kind: u64| Flat {
        kind,
        ..Flat::default()
    };
    let asking = |kind: u64, at: Position, transfer: bool| Flat {
        at,
        context: Bytes::from_static(if transfer { TRANSFER } else { b"" }),
        ..flat(kind)
    };
    let reading = |kind: u64, context: &Bytes| Flat {
        entries: vec![Entry {
            data: context.clone(),
            ..Entry::default()
        }],
        ..flat(kind)
    };
    match body {
        Body::Propose { .. } => flat(PROPOSE),
        Body::Append { prev, commit, .. } => Flat {
            at: *prev,
            commit: *commit,
            ..flat(APPEND)
        },
        Body::AppendReply { index, rejected } => Flat {
            at: Position {
                term: rejected.map_or(0, |hint| hint.term),
                index: *index,
            },
            reject: rejected.is_some(),
            reject_hint: rejected.map_or(0, |hint| hint.index),
            ..flat(APPEND_REPLY)
        },
        Body::Vote { last, transfer } => asking(VOTE, *last, *transfer),
        Body::PreVote { last, transfer } => asking(PRE_VOTE, *last, *transfer),
        Body::VoteReply { granted } => Flat {
            reject: !granted,
            ..flat(VOTE_REPLY)
        },
        Body::PreVoteReply { granted } => Flat {
            reject: !granted,
            ..flat(PRE_VOTE_REPLY)
        },
        Body::Snapshot(_) => flat(SNAPSHOT),
        Body::Heartbeat { commit, context } => Flat {
            commit: *commit,
            context: context.clone(),
            ..flat(HEARTBEAT)
        },
        Body::HeartbeatReply { context } => Flat {
            context: context.clone(),
            ..flat(HEARTBEAT_REPLY)
        },
        Body::TransferLeader => flat(TRANSFER_LEADER),
        Body::TimeoutNow => flat(TIMEOUT_NOW),
        Body::ReadIndex { context } => reading(READ_INDEX, context),
        Body::ReadIndexReply { index, context } => Flat {
            at: Position {
                term: 0,
                index: *index,
            },
            ..reading(READ_INDEX_REPLY, context)
        },
    }
}

pub fn decode_message(bytes: &Bytes) -> Result<Message, Malformed> {
    let (mut to, mut from, mut term) = (0, 0, 0);
    let mut flat = Flat::default();
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => flat.kind = value.number()?,
            2 => to = value.number()?,
            3 => from = value.number()?,
            4 => term = value.number()?,
            5 => flat.at.term = value.number()?,
            6 => flat.at.index = value.number()?,
            7 if flat.entries.len() >= ENTRIES_MAX => return Err(Malformed("too many entries")),
            7 => flat.entries.push(decode_entry(&value.bytes()?)?),
            8 => flat.commit = value.number()?,
            9 => flat.snapshot = Some(decode_snapshot(&value.bytes()?)?),
            10 => flat.reject = value.number()? != 0,
            11 => flat.reject_hint = value.number()?,
            12 => flat.context = value.bytes()?,
            _ => {}
        }
    }
    let message = Message {
        from,
        to,
        term,
        body: raise(flat)?,
    };
    match message.flaw() {
        Some(flaw) => Err(Malformed(flaw)),
        None => Ok(message),
    }
}

fn raise(flat: Flat) -> Result<Body, Malformed> {
    let transfer = flat.context == TRANSFER;
    let first_data = flat.entries.first().map(|entry| entry.data.clone());
    Ok(match flat.kind {
        PROPOSE => Body::Propose {
            entries: flat.entries,
        },
        APPEND => Body::Append {
            prev: flat.at,
            entries: flat.entries,
            commit: flat.commit,
        },
        APPEND_REPLY => Body::AppendReply {
            index: flat.at.index,
            rejected: flat.reject.then_some(Position {
                term: flat.at.term,
                index: flat.reject_hint,
            }),
        },
        VOTE => Body::Vote {
            last: flat.at,
            transfer,
        },
        PRE_VOTE => Body::PreVote {
            last: flat.at,
            transfer,
        },
        VOTE_REPLY => Body::VoteReply {
            granted: !flat.reject,
        },
        PRE_VOTE_REPLY => Body::PreVoteReply {
            granted: !flat.reject,
        },
        SNAPSHOT => Body::Snapshot(flat.snapshot.unwrap_or_default()),
        HEARTBEAT => Body::Heartbeat {
            commit: flat.commit,
            context: flat.context,
        },
        HEARTBEAT_REPLY => Body::HeartbeatReply {
            context: flat.context,
        },
        TRANSFER_LEADER => Body::TransferLeader,
        TIMEOUT_NOW => Body::TimeoutNow,
        READ_INDEX => Body::ReadIndex {
            context: first_data.unwrap_or_default(),
        },
        READ_INDEX_REPLY => Body::ReadIndexReply {
            index: flat.at.index,
            context: first_data.unwrap_or_default(),
        },
        _ => return Err(Malformed("unknown type of message")),
    })
}
