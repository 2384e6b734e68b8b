//! Detects heartbeats that a leader sends too late, because late heartbeats cost it its followers.

use std::collections::BTreeMap;
use std::time::Duration;

use raft::{Body, Message, NodeId, Now};

/// A follower has missed a heartbeat after this many intervals.
const INTERVALS: u32 = 2;

/// When each follower was last sent a heartbeat.
#[derive(Clone)]
pub(super) struct Lateness {
    interval: Duration,
    sent: BTreeMap<NodeId, Now>,
}

impl Lateness {
    pub(super) fn new(interval: Duration) -> Lateness {
        Lateness {
            interval,
            sent: BTreeMap::new(),
        }
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Forgets all times, because the leader or the members have changed.
    pub(super) fn clear(&mut self) {
        self.sent.clear();
    }

    /// Notes these heartbeats. Returns the followers whose heartbeat is late, and by how much.
    pub(super) fn send(&mut self, now: Now, messages: &[Message]) -> Vec<(NodeId, Duration)> {
        let beats = messages
            .iter()
            .filter(|message| matches!(message.body, Body::Heartbeat { .. }));
        let late = beats.filter_map(|message| {
            let before = self.sent.insert(message.to, now)?;
            let over = (now - before).checked_sub(self.interval * INTERVALS)?;
            (!over.is_zero()).then_some((message.to, over))
        });
        late.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn heartbeat(to: NodeId) -> Message {
        Message {
            from: 1,
            to,
            term: 1,
            body: Body::Heartbeat {
                commit: 0,
                context: Default::default(),
            },
        }
    }

    #[test]
    fn a_heartbeat_is_late_after_two_intervals_for_whoever_waited_for_it() {
        let mut lateness = Lateness::new(100 * MS);
        let both = [heartbeat(2), heartbeat(3)];
        assert_eq!(lateness.send(50 * MS, &both), []);
        assert_eq!(lateness.send(250 * MS, &both[..1]), []);
        assert_eq!(lateness.send(270 * MS, &both), [(3, 20 * MS)]);
        lateness.clear();
        assert_eq!(lateness.send(9000 * MS, &both), []);
    }
}
