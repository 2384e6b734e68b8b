//! What committed entries read is announced before the first of them is applied: the disk looks for
//! all of it together, where the entries would wait for one page after the other. A follower would
//! fall behind its leader, whose clients' changes are announced while the log is written.

use super::Applier;
use crate::member::event::Committed;
use crate::request::Request;
use crate::state::entry;

impl Applier {
    /// Has the disk look for the keys of entries that another member proposed; those of this member
    /// were announced then. Entries that are more than a put are decoded for it, and stay so.
    pub(super) fn announce(&self, entries: &mut [Committed]) {
        let root = self.state.store.root();
        if !root.misses_pages() {
            return;
        }
        let applied = root.applied().index;
        let mut keys: Vec<&[u8]> = Vec::new();
        for committed in entries {
            let Committed { entry, request, .. } = committed;
            let has_request = entry.kind == raft::EntryKind::Normal && !entry.data.is_empty();
            if !has_request || request.is_some() || entry.index <= applied {
                continue;
            }
            if let Some(put) = Request::lone_put(&entry.data) {
                keys.push(put.key);
            } else if let Ok(decoded) = entry::request(entry) {
                // What cannot be decoded is reported when it is its turn.
                let decoded = request.insert(decoded);
                decoded.each_key(&mut |key| keys.push(key));
            }
        }
        root.announce_changes(keys);
    }
}

#[cfg(test)]
mod tests;
