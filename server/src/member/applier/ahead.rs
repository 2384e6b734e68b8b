//! What committed entries read is announced before the first of them is applied: the disk looks for
//! all of it together, where the entries would wait for one page after the other. A follower would
//! fall behind its leader, whose clients' changes are announced while the log is written.

use super::Applier;
use crate::member::event::Committed;
use crate::request::Request;
use crate::state::entry;

impl Applier {
    /// Has the disk look for the keys of entries that another member proposed; those of this member
    /// were announced then. Entries that are more than a put are decoded for it, and stay so. Then has
    /// it look for the values that any of them reads: where these are is known only now.
    pub(super) fn announce(&self, entries: &mut [Committed]) {
        let root = self.state.store.root();
        if !root.misses_pages() {
            return;
        }
        let applied = root.applied().index;
        let mut keys: Vec<&[u8]> = Vec::new();
        for committed in entries.iter_mut() {
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
        let mut values: Vec<&[u8]> = Vec::new();
        for committed in entries.iter() {
            if committed.entry.index > applied
                && let Some(request) = &committed.request
            {
                let answers = committed.reply.is_some();
                request.each_value(answers, &mut |key| values.push(key));
            }
        }
        root.announce_values(values);
    }
}

#[cfg(test)]
mod tests;
