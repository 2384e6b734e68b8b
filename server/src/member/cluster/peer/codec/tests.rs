use super::super::outgoing::Turn;
use super::*;
use raft::{Entry, EntryKind};

fn append(term: u64, prev: (u64, u64), count: u64) -> Message {
    let entry = |index| Entry {
        term,
        index,
        kind: EntryKind::Normal,
        data: Bytes::from(vec![b'x'; index as usize % 7]),
    };
    Message {
        from: 1,
        to: 2,
        term,
        body: Body::Append {
            prev: Position {
                term: prev.0,
                index: prev.1,
            },
            entries: (prev.1 + 1..=prev.1 + count).map(entry).collect(),
            commit: prev.1,
        },
    }
}

fn heartbeat() -> Message {
    Message {
        from: 1,
        to: 2,
        term: 3,
        body: Body::Heartbeat {
            commit: 4,
            context: Bytes::new(),
        },
    }
}

#[test]
fn messages_cut_anywhere_come_out_whole() {
    let messages = [
        append(2, (1, 4), 2),
        append(2, (2, 6), 3),
        append(3, (2, 9), 0),
    ];
    for kind in [Kind::Message, Kind::MsgApp] {
        let (mut encoder, mut bytes) = (Encoder::new(kind), Vec::new());
        for message in &messages {
            encoder.message(message, &mut bytes);
            encoder.heartbeat(&mut bytes);
        }
        for step in [1, 3, bytes.len()] {
            let (mut decoder, mut found) = (Decoder::new(kind, 1, 2), Vec::new());
            for piece in bytes.chunks(step) {
                decoder.push(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    found.push(frame);
                }
            }
            let wanted = messages
                .iter()
                .flat_map(|m| [Frame::Message(m.clone()), Frame::LinkHeartbeat]);
            assert_eq!(found, wanted.collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_bytes_are_those_of_etcd() {
    let mut out = Vec::new();
    Encoder::new(Kind::Message).message(&heartbeat(), &mut out);
    assert_eq!(
        out,
        [0, 0, 0, 0, 0, 0, 0, 10, 8, 8, 16, 2, 24, 1, 32, 3, 64, 4]
    );
    let (mut encoder, mut out) = (Encoder::new(Kind::MsgApp), Vec::new());
    encoder.message(&append(1, (1, 1), 0), &mut out);
    assert_eq!(out[0], APP);
    out.clear();
    encoder.message(&append(1, (1, 1), 1), &mut out);
    let entry = [0, 0, 0, 0, 0, 0, 0, 7, 16, 1, 24, 2, 34, 2];
    assert_eq!(out[..9], [APP_ENTRIES, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(out[9 + 7], 8);
    assert_eq!(out[17..23], entry[8..]);
}

#[test]
fn followers_share_the_encoded_entries_of_an_append() {
    // The same 40 entries for two followers, of which one was told of an older commit.
    let large = |to: u64, commit: u64| {
        let mut message = append(2, (2, 6), 40);
        let Body::Append {
            entries,
            commit: told,
            ..
        } = &mut message.body
        else {
            unreachable!("an append")
        };
        for entry in entries {
            entry.data = vec![entry.index as u8; 1000].into();
        }
        *told = commit;
        Message { to, ..message }
    };
    let messages = [large(2, 6), large(3, 5)];
    let mut turn = Turn::default();
    let mut places = Vec::new();
    for message in messages {
        let to = message.to;
        let (mut encoder, mut pieces) = (Encoder::new(Kind::MsgApp), Pieces::default());
        // The stream has to know where the entries begin.
        encoder.outgoing(&append(2, (2, 5), 1).into(), &mut pieces);
        encoder.outgoing(&turn.outgoing(message.clone()), &mut pieces);
        let mut decoder = Decoder::new(Kind::MsgApp, 1, to);
        while let Some(piece) = pieces.pop() {
            if piece.len() > 40_000 {
                places.push(piece.as_ptr());
            }
            decoder.push(&piece);
        }
        assert!(decoder.next().unwrap().is_some());
        assert_eq!(decoder.next().unwrap(), Some(Frame::Message(message)));
    }
    assert_eq!(places.len(), 2);
    assert_eq!(places[0], places[1], "they were encoded twice");
    // As many entries of another leader are others.
    let mut later = large(2, 6);
    later.term = 3;
    let [known, other] = [large(2, 6), later].map(|message| turn.outgoing(message).entries);
    assert!(known.as_ref().unwrap().get().is_some());
    assert!(other.as_ref().unwrap().get().is_none());
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let (mut encoder, mut good) = (Encoder::new(Kind::MsgApp), Vec::new());
    encoder.message(&append(2, (1, 4), 2), &mut good);
    encoder.message(&append(2, (2, 6), 3), &mut good);
    for at in 0..good.len() {
        for value in [0, 1, 2, 7, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            for kind in [Kind::Message, Kind::MsgApp] {
                let mut decoder = Decoder::new(kind, 1, 2);
                decoder.push(&bad);
                while let Ok(Some(_)) = decoder.next() {}
            }
        }
    }
    let mut decoder = Decoder::new(Kind::MsgApp, 1, 2);
    decoder.push(&[9]);
    assert!(decoder.next().is_err());
    let mut decoder = Decoder::new(Kind::Message, 1, 2);
    decoder.push(&[0xff; 8]);
    assert!(decoder.next().is_err());
}
