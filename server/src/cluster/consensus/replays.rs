//! The requests seen last, by id: a proposal is sent once, and whatever brings it again is an echo
//! that must not be applied a second time. Knows nothing of what requests ask for.

use std::collections::{HashSet, VecDeque};

use etcd_api::etcdserverpb as pb;
use prost::Message;
use raft::{Entry, EntryKind};

use crate::request::Request;

/// So many of the newest; an echo that comes later than that many requests is taken for news.
const REMEMBERED: usize = 1 << 14;

#[derive(Default)]
pub(super) struct Replays {
    seen: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Replays {
    /// Remembers what `entry` asks for; whether that is news. Entries without an id always are.
    pub(super) fn is_news(&mut self, entry: &Entry) -> bool {
        let id = match entry.kind {
            EntryKind::Normal => id_of(&entry.data),
            _ => raft::wire::decode_conf_change(&entry.data)
                .ok()
                .map(|change| change.id),
        };
        let Some(id) = id.filter(|id| *id != 0) else {
            return true;
        };
        if !self.seen.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }
}

/// As much of a request as says whose it is; members of etcd write it last.
#[derive(Clone, PartialEq, prost::Message)]
struct Headed {
    #[prost(message, optional, tag = "100")]
    header: Option<pb::RequestHeader>,
}

fn id_of(data: &[u8]) -> Option<u64> {
    let own = Request::id_of(data);
    own.or_else(|| Some(Headed::decode(data).ok()?.header?.id))
}
