use arbitrary::{Arbitrary, Unstructured};
use arbtest::arbtest;
use bytes::Bytes;

use super::*;
use crate::fuzzing;
use crate::message::{
    Body, ConfChange, ConfChangeKind, ConfChangeV2, ConfState, Entry, EntryKind, HardState,
    Message, Position, Snapshot, Transition,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn message(body: Body) -> Message {
    Message {
        from: 3,
        to: 2,
        term: 300,
        body,
    }
}

fn encode(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(message, &mut out);
    out
}

const AT: Position = Position { term: 5, index: 6 };

fn entry(kind: EntryKind, data: &'static str) -> Entry {
    Entry {
        term: 5,
        index: 7,
        kind,
        data: data.into(),
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        position: AT,
        conf: ConfState {
            voters: vec![1, 2],
            learners: vec![3],
            ..ConfState::default()
        },
        data: "state".into(),
    }
}

/// One of each kind, with the bytes that protobuf's rules give for raftpb's field numbers.
fn golden() -> Vec<(Body, &'static str)> {
    let context = || Bytes::from_static(b"12345678");
    let hint = Some(Position { term: 4, index: 2 });
    vec![
        (
            Body::Propose {
                entries: vec![Entry {
                    data: "v".into(),
                    ..Entry::default()
                }],
            },
            "0802 1002 1803 20ac02 3a03 220176",
        ),
        (
            Body::Append {
                prev: AT,
                entries: vec![entry(EntryKind::ConfChange, "v")],
                commit: 4,
            },
            "0803 1002 1803 20ac02 2805 3006 3a09 0801 1005 1807 220176 4004",
        ),
        (
            Body::Append {
                prev: Position::default(),
                entries: vec![],
                commit: 0,
            },
            "0803 1002 1803 20ac02",
        ),
        (
            Body::AppendReply {
                index: 6,
                rejected: None,
            },
            "0804 1002 1803 20ac02 3006",
        ),
        (
            Body::AppendReply {
                index: 6,
                rejected: hint,
            },
            "0804 1002 1803 20ac02 2804 3006 5001 5802",
        ),
        (
            Body::Vote {
                last: AT,
                transfer: false,
            },
            "0805 1002 1803 20ac02 2805 3006",
        ),
        (
            Body::Vote {
                last: AT,
                transfer: true,
            },
            "0805 1002 1803 20ac02 2805 3006 6210 43616d706169676e5472616e73666572",
        ),
        (Body::VoteReply { granted: true }, "0806 1002 1803 20ac02"),
        (
            Body::VoteReply { granted: false },
            "0806 1002 1803 20ac02 5001",
        ),
        (
            Body::Snapshot(snapshot()),
            "0807 1002 1803 20ac02 4a15 0a057374617465 120c 0a06 080108021003 1006 1805",
        ),
        (
            Body::Heartbeat {
                commit: 4,
                context: context(),
            },
            "0808 1002 1803 20ac02 4004 6208 3132333435363738",
        ),
        (
            Body::HeartbeatReply {
                context: Bytes::new(),
            },
            "0809 1002 1803 20ac02",
        ),
        (Body::TransferLeader, "080d 1002 1803 20ac02"),
        (Body::TimeoutNow, "080e 1002 1803 20ac02"),
        (
            Body::ReadIndex { context: context() },
            "080f 1002 1803 20ac02 3a0a 2208 3132333435363738",
        ),
        (
            Body::ReadIndexReply {
                index: 6,
                context: context(),
            },
            "0810 1002 1803 20ac02 3006 3a0a 2208 3132333435363738",
        ),
        (
            Body::PreVote {
                last: AT,
                transfer: false,
            },
            "0811 1002 1803 20ac02 2805 3006",
        ),
        (
            Body::PreVoteReply { granted: true },
            "0812 1002 1803 20ac02",
        ),
    ]
}

#[test]
fn every_message_has_its_golden_bytes_both_ways() {
    for (body, bytes) in golden() {
        let message = message(body);
        let encoded = encode(&message);
        assert_eq!(hex(&encoded), bytes.replace(' ', ""), "{message:?}");
        assert!(encoded.len() <= message_size_hint(&message));
        assert_eq!(decode_message(&encoded.into()), Ok(message));
    }
}

#[test]
fn every_truncation_is_refused_or_another_message() {
    for (body, _) in golden() {
        let message = message(body);
        let bytes = Bytes::from(encode(&message));
        for len in 0..bytes.len() {
            assert_ne!(
                decode_message(&bytes.slice(..len)),
                Ok(message.clone()),
                "{len} bytes"
            );
        }
    }
}

#[test]
fn older_members_zero_fields_and_empty_snapshot_read_the_same() {
    // As 3.5 and 3.6 write them: a heartbeat with every field, and an empty snapshot.
    let written = "0808 1002 1803 20ac02 2800 3000 4004 4a08 1206 0a00 1000 1800 5000 5800 6a00";
    let bytes: Vec<u8> = written
        .split(' ')
        .flat_map(|run| (0..run.len()).step_by(2).map(|at| &run[at..at + 2]))
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    let context = Bytes::new();
    let wanted = message(Body::Heartbeat { commit: 4, context });
    assert_eq!(decode_message(&bytes.into()), Ok(wanted));
}

#[test]
fn what_is_stored_has_its_golden_bytes_both_ways() {
    let state = HardState {
        term: 2,
        vote: 1 << 63,
        commit: 9,
    };
    assert_eq!(
        hex(&encode_hard_state(&state)),
        "08021080808080808080808001".to_owned() + "1809"
    );
    assert_eq!(decode_hard_state(&encode_hard_state(&state)), Ok(state));
    let change = ConfChange {
        id: 8,
        kind: ConfChangeKind::AddLearnerNode,
        node: 5,
        context: "{}".into(),
    };
    assert_eq!(
        hex(&encode_conf_change(&change)),
        "080810031805".to_owned() + "22027b7d"
    );
    assert_eq!(decode_conf_change(&encode_conf_change(&change)), Ok(change));
    let change = ConfChangeV2 {
        transition: Transition::JointExplicit,
        changes: vec![
            (ConfChangeKind::AddNode, 5),
            (ConfChangeKind::RemoveNode, 6),
        ],
        context: "x".into(),
    };
    assert_eq!(
        hex(&encode_conf_change_v2(&change)),
        "0802".to_owned() + "12021005120408011006" + "1a0178"
    );
    assert_eq!(
        decode_conf_change_v2(&encode_conf_change_v2(&change)),
        Ok(change)
    );
    let conf = ConfState {
        voters: vec![1, 300],
        learners: vec![2],
        voters_outgoing: vec![1],
        learners_next: vec![4],
        auto_leave: true,
    };
    assert_eq!(
        hex(&encode_conf_state(&conf)),
        "080108ac02".to_owned() + "1002180120042801"
    );
    assert_eq!(decode_conf_state(&encode_conf_state(&conf)), Ok(conf));
    assert_eq!(
        decode_snapshot(&encode_snapshot(&snapshot())),
        Ok(snapshot())
    );
}

#[test]
fn packed_and_unknown_fields_are_read() {
    let packed = Bytes::from_static(b"\x0a\x03\x01\xac\x02\x10\x02\x7d1234\x79abcdefgh");
    let conf = decode_conf_state(&packed).unwrap();
    assert_eq!((conf.voters, conf.learners), (vec![1, 300], vec![2]));
}

#[test]
fn nonsense_is_refused() {
    for (bytes, why) in [
        (&b"\x08\x63"[..], "unknown type of message"),
        (
            b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
            "a number has more than 64 bits",
        ),
        (
            b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
            "a number has more than 64 bits",
        ),
        (b"\x0b", "unknown wire type"),
        (b"\x02\x00", "field number 0"),
        (b"\x0a\x00", "a field that should be a number is not"),
        (b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "cut off"),
        (
            b"\x08\x03\x30\x06\x3a\x02\x18\x09",
            "entries of an append do not follow each other",
        ),
    ] {
        let bytes = Bytes::from_static(bytes);
        assert_eq!(decode_message(&bytes), Err(Malformed(why)));
    }
}

#[test]
fn members_are_bounded_however_many_the_bytes_name() {
    let packed = [vec![0x0a, 0x80, 0x80, 0x01], vec![1; 16384]].concat();
    assert_eq!(
        decode_conf_state(&packed.into()),
        Err(Malformed("too many members"))
    );
}

/// Random fields: keys that exist here with random values, so that decoding gets far enough.
fn soup(u: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Vec<u8>> {
    let mut out = Vec::new();
    for _ in 0..u.int_in_range(0..=8)? {
        let field = u.int_in_range(1..=14u8)?;
        if u.ratio(1, 2)? {
            out.push(field << 3);
            let small = u.ratio(3, 4)?;
            out.push(if small {
                u.int_in_range(0..=18)?
            } else {
                u8::arbitrary(u)?
            });
        } else {
            let inner = match depth {
                0 => Vec::arbitrary(u)?,
                _ => soup(u, depth - 1)?,
            };
            out.push(field << 3 | 2);
            out.push(inner.len().min(127) as u8);
            out.extend_from_slice(&inner);
        }
    }
    Ok(out)
}

#[test]
fn no_bytes_make_decoding_panic_and_what_is_read_is_written_back() {
    arbtest(|u| {
        let bytes = if u.ratio(1, 4)? {
            Vec::arbitrary(u)?
        } else {
            soup(u, 3)?
        };
        fuzzing::wire_decode(&bytes);
        Ok(())
    })
    .budget_ms(1500);
}
