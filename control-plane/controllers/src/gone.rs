//! Objects that are deleted for good.

use std::collections::{BTreeSet, VecDeque};

/// Maximum number of remembered uids of deleted objects: far more than can still arrive late.
const GONE_MAX: usize = 10_000;

/// The uids of deleted objects. An older state of such an object may still arrive: from a watch, if
/// an own call deleted it, or in the response to an own call, if the watch was faster. Uids are
/// never reused, so remembering them is safe; the number is limited.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    uids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Gone {
    pub(crate) fn add(&mut self, uid: &str) {
        if !self.uids.insert(uid.to_owned()) {
            return;
        }
        self.order.push_back(uid.to_owned());
        if self.order.len() > GONE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}
