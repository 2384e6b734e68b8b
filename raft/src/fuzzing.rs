//! Bodies of the fuzz targets; the crate's own tests run them, too, on seeded bytes.

use bytes::Bytes;

use crate::io::{Config, Input, Now, Output, Proposal, Recovered};
use crate::message::{Body, Entry, EntryKind, Message, NodeId, Position, Snapshot};
use crate::raft::Raft;
use crate::wire;

/// For any bytes: no panic, and what can be decoded survives a round trip.
pub fn wire_decode(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(message) = wire::decode_message(&bytes) {
        let mut again = Vec::new();
        wire::encode_message(&message, &mut again);
        assert_eq!(wire::decode_message(&again.into()), Ok(message));
    }
    if let Ok(entry) = wire::decode_entry(&bytes) {
        let mut again = Vec::new();
        wire::encode_entry(&entry, &mut again);
        assert_eq!(wire::decode_entry(&again.into()), Ok(entry));
    }
    if let Ok(state) = wire::decode_hard_state(&bytes) {
        assert_eq!(
            wire::decode_hard_state(&wire::encode_hard_state(&state)),
            Ok(state)
        );
    }
    if let Ok(snapshot) = wire::decode_snapshot(&bytes) {
        assert_eq!(
            wire::decode_snapshot(&wire::encode_snapshot(&snapshot)),
            Ok(snapshot)
        );
    }
    if let Ok(change) = wire::decode_conf_change(&bytes) {
        assert_eq!(
            wire::decode_conf_change(&wire::encode_conf_change(&change)),
            Ok(change)
        );
    }
    if let Ok(change) = wire::decode_conf_change_v2(&bytes) {
        let again = wire::encode_conf_change_v2(&change);
        assert_eq!(wire::decode_conf_change_v2(&again), Ok(change));
    }
}

/// Takes bytes as messages of two other members and as passing time: nothing they say causes a
/// panic. The member's own disk and state machine work as they should.
pub fn raft_receive(data: &[u8]) {
    let mut raft = Raft::new(
        Config::new(1, vec![1, 2, 3], 1),
        Recovered::default(),
        Now::ZERO,
    );
    let (mut now, mut out) = (Now::ZERO, Output::default());
    let mut source = Source(data);
    while let Some(choice) = source.byte() {
        let input = match choice % 8 {
            0 => {
                now += Now::from_millis(10 * u64::from(source.small()));
                Input::Tick
            }
            1 => Input::Propose(vec![Proposal::normal("own")]),
            _ => Input::Receive(source.message()),
        };
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            raft.step(now, input, &mut out);
            if out.install.is_some() {
                inputs.push(Input::SnapshotInstalled { ok: true });
            }
            for fetch in out.fetches.drain(..) {
                inputs.push(Input::Fetched { fetch, found: None });
            }
            if let Some(last) = out.committed.last() {
                inputs.push(Input::Applied { index: last.index });
            }
            if let Some(write) = &out.write {
                let ticket = write.ticket;
                inputs.push(Input::Durable { ticket });
            }
        }
    }
}

/// Numbers for messages: mostly plausible, sometimes impossible.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn small(&mut self) -> u8 {
        self.byte().unwrap_or_default()
    }

    fn number(&mut self) -> u64 {
        match self.small() {
            0xff => u64::MAX,
            0xfe => u64::MAX - 1,
            0xfd => 1 << 40,
            small => u64::from(small % 16),
        }
    }

    fn position(&mut self) -> Position {
        let (term, index) = (self.number(), self.number());
        Position { term, index }
    }

    fn message(&mut self) -> Message {
        let from = NodeId::from(self.small() % 5);
        let term = self.number();
        Message {
            from,
            to: 1,
            term,
            body: self.body(),
        }
    }

    fn entries(&mut self, after: u64) -> Vec<Entry> {
        let count = u64::from(self.small() % 4);
        let entry = |at: u64| Entry {
            term: self.number(),
            index: after.wrapping_add(at),
            kind: EntryKind::Normal,
            data: Bytes::from_static(b"other"),
        };
        (1..=count).map(entry).collect()
    }

    fn body(&mut self) -> Body {
        let kind = self.small();
        let granted = kind >= 128;
        match kind % 14 {
            0 | 1 => {
                let prev = self.position();
                Body::Append {
                    prev,
                    entries: self.entries(prev.index),
                    commit: self.number(),
                }
            }
            2 | 3 => Body::AppendReply {
                index: self.number(),
                rejected: (!granted).then(|| self.position()),
            },
            4 | 5 => Body::Heartbeat {
                commit: self.number(),
                context: Bytes::new(),
            },
            6 => Body::HeartbeatReply {
                context: Bytes::copy_from_slice(&self.number().to_le_bytes()),
            },
            7 => Body::Vote {
                last: self.position(),
                transfer: granted,
            },
            8 => Body::PreVote {
                last: self.position(),
                transfer: granted,
            },
            9 => Body::VoteReply { granted },
            10 => Body::PreVoteReply { granted },
            11 => {
                let mut snapshot = Snapshot {
                    position: self.position(),
                    ..Snapshot::default()
                };
                snapshot.conf.voters = vec![1, 2, 3];
                match kind {
                    249 => snapshot.conf.voters.push(0),
                    235 => snapshot.conf.learners.push(2),
                    221 => snapshot.conf.learners = std::mem::take(&mut snapshot.conf.voters),
                    _ => {}
                }
                Body::Snapshot(snapshot)
            }
            12 if granted => Body::TransferLeader,
            12 => Body::TimeoutNow,
            _ if granted => Body::ReadIndex {
                context: Bytes::from_static(b"context."),
            },
            _ => Body::Propose {
                entries: self.entries(0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_messages_make_a_member_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            raft_receive(&bytes);
            Ok(())
        })
        .budget_ms(1500);
    }
}
