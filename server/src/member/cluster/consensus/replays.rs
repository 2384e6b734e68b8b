//! The ids of the newest requests. A proposal is sent once. If a message brings it again, that is a
//! replay and must not be applied. Knows nothing of what requests ask for.

use std::collections::{HashSet, VecDeque};

use etcd_api::etcdserverpb as pb;
use prost::Message;
use raft::{Entry, EntryKind};

use crate::request::Request;

/// Number of ids kept. A replay that comes after this many newer requests is not recognised.
const REMEMBERED: usize = 1 << 14;

#[derive(Default)]
pub(super) struct Replays {
    seen: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Replays {
    /// Remembers the request in `entry`. Returns true if it is new; always true without an id.
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

/// The header of a request. Members of etcd write it last.
#[derive(Clone, PartialEq, prost::Message)]
struct Headed {
    #[prost(message, optional, tag = "100")]
    header: Option<pb::RequestHeader>,
}

fn id_of(data: &[u8]) -> Option<u64> {
    let own = Request::id_of(data);
    own.or_else(|| Some(Headed::decode(data).ok()?.header?.id))
}
