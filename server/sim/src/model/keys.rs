//! All versions of all keys.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use etcd_api::mvccpb::KeyValue;

use super::Event;

/// Reads at this revision see everything.
pub(super) const NEWEST: i64 = i64::MAX;

#[derive(Debug, Default)]
pub(super) struct Keys {
    /// By key: its versions with their revisions, in order; `None` for a deletion. Of several
    /// versions of one revision the last one counts.
    versions: BTreeMap<Bytes, Vec<(i64, Option<KeyValue>)>>,
    /// By revision: its changes in order.
    history: BTreeMap<i64, Vec<Event>>,
}

impl Keys {
    /// The newest revision; 1 if nothing was ever written.
    pub(super) fn revision(&self) -> i64 {
        self.history.last_key_value().map_or(1, |(last, _)| *last)
    }

    pub(super) fn history(&self) -> &BTreeMap<i64, Vec<Event>> {
        &self.history
    }

    pub(super) fn get(&self, key: &[u8], at: i64) -> Option<&KeyValue> {
        newest(self.versions.get(key)?, at)
    }

    /// Keys that are live at `at`, in order. An empty `end` means the one key, a zero byte all keys
    /// from `start` on.
    pub(super) fn range(
        &self,
        start: &[u8],
        end: &[u8],
        at: i64,
    ) -> impl Iterator<Item = &KeyValue> {
        let last = match end {
            [] => Bound::Included(start),
            [0] => Bound::Unbounded,
            end => Bound::Excluded(end),
        };
        let is_empty = matches!(last, Bound::Excluded(end) if end <= start);
        let range = (!is_empty).then(|| {
            self.versions
                .range::<[u8], _>((Bound::Included(start), last))
        });
        let versions = range.into_iter().flatten();
        versions.filter_map(move |(_, versions)| newest(versions, at))
    }

    pub(super) fn put(&mut self, key: &Bytes, value: &Bytes, lease: i64, revision: i64) {
        let before = self.get(key, NEWEST);
        let kv = KeyValue {
            key: key.clone(),
            value: value.clone(),
            create_revision: before.map_or(revision, |kv| kv.create_revision),
            mod_revision: revision,
            version: before.map_or(1, |kv| kv.version + 1),
            lease,
        };
        let event = Event {
            key: key.to_vec(),
            value: Some(value.to_vec()),
            create_revision: kv.create_revision,
            version: kv.version,
            lease,
        };
        self.add(key, revision, Some(kv), event);
    }

    /// Deletes a key that is live.
    pub(super) fn delete(&mut self, key: &Bytes, revision: i64) {
        self.add(key, revision, None, Event::deletion(key));
    }

    fn add(&mut self, key: &Bytes, revision: i64, version: Option<KeyValue>, event: Event) {
        let versions = self.versions.entry(key.clone()).or_default();
        versions.push((revision, version));
        self.history.entry(revision).or_default().push(event);
    }
}

fn newest(versions: &[(i64, Option<KeyValue>)], at: i64) -> Option<&KeyValue> {
    let upto = versions.partition_point(|(revision, _)| *revision <= at);
    versions[..upto].last()?.1.as_ref()
}
