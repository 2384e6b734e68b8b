//! What a member shows is what the model has at the same index: revisions and changes at every
//! index, all keys, leases and alarms now and then.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::ControlFlow;

use etcd_api::mvccpb::KeyValue;
use server::basics::error::Error;
use server::state;
use storage::mvcc::{Change, Item, KeyRange, Root, Want};

use super::Verdict;
use super::users::same_rows;
use crate::model::{Event, Lease, Model, Revisions, SIDES_EVERY, Sides};

#[derive(Debug)]
pub struct States {
    /// By host: the changes have been compared up to here.
    seen: Vec<i64>,
    compared: u64,
}

impl States {
    pub fn new(hosts: usize) -> States {
        States {
            seen: vec![1; hosts],
            compared: 0,
        }
    }

    pub fn add_host(&mut self) {
        self.seen.push(1);
    }

    /// A process begins. The changes that its store has were compared when they came; those above
    /// `known` came from its log alone.
    pub fn restarts(&mut self, host: usize, root: &Root, known: i64) {
        self.seen[host] = root.revision().min(known);
    }

    /// What `host` shows now. Told after each of its turns, it misses nothing but what a
    /// compaction removed while the host was down. `wholly`: whatever the index.
    pub fn shows(&mut self, host: usize, root: &Root, model: &Model, wholly: bool) -> Verdict {
        let index = root.applied().index;
        let shown = Revisions {
            current: root.revision(),
            compacted: root.compacted(),
        };
        let told = |what: &str| format!("host {host} has applied {index}: {what}");
        let Some(revisions) = model.revisions_at(index) else {
            return Err(told("nobody committed so much"));
        };
        same("revisions", &shown, &revisions).map_err(|what| told(&what))?;
        self.compare_changes(host, root, model)
            .map_err(|what| told(&what))?;
        if !wholly && !index.is_multiple_of(SIDES_EVERY) {
            return Ok(());
        }
        self.compared += 1;
        compare_keys(root, model).map_err(|what| told(&what))?;
        let Some(sides) = model.sides_at(index) else {
            return Ok(());
        };
        compare_sides(root, sides).map_err(|what| told(&what))?;
        if model.has_users() {
            same_rows(root, model.users_at(index)).map_err(|what| told(&what))?;
        }
        compare_attached(root, sides, model).map_err(|what| told(&what))
    }

    /// Whole states.
    pub fn compared(&self) -> u64 {
        self.compared
    }

    fn compare_changes(&mut self, host: usize, root: &Root, model: &Model) -> Verdict {
        let from = (self.seen[host] + 1).max(root.compacted() + 1);
        self.seen[host] = root.revision();
        if from > root.revision() {
            return Ok(());
        }
        let mut shown: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
        let read = root.changes(from, root.revision(), &mut |change| {
            let (revision, event) = event(&change);
            shown.entry(revision).or_default().push(event);
            Ok(ControlFlow::Continue(()))
        });
        read.map_err(|error| format!("its history cannot be read: {error}"))?;
        for (revision, expected) in model.changes(from - 1, root.revision()) {
            let events = shown.remove(&revision).unwrap_or_default();
            if events != expected {
                return Err(format!(
                    "revision {revision} is {events:?}, by the log {expected:?}"
                ));
            }
        }
        match shown.first_key_value() {
            None => Ok(()),
            Some((revision, events)) => Err(format!(
                "revision {revision} is {events:?}, by the log there is none"
            )),
        }
    }
}

fn same<T: PartialEq + Debug>(what: &str, shown: &T, expected: &T) -> Verdict {
    if shown == expected {
        Ok(())
    } else {
        Err(format!("{what} {shown:?}, by the log {expected:?}"))
    }
}

fn compare_keys(root: &Root, model: &Model) -> Verdict {
    let mut expected = model.live_at(root.revision());
    let mut wrong = None;
    let read = root.range(KeyRange::ALL, 0, Want::Values, &mut |item| {
        let next = expected.next();
        if next.is_some_and(|kv| is(&item, kv)) {
            return ControlFlow::Continue(());
        }
        wrong = Some(format!("the next key is {item:?}, by the log {next:?}"));
        ControlFlow::Break(())
    });
    read.map_err(|error| format!("its keys cannot be read: {error}"))?;
    match (wrong, expected.next()) {
        (Some(wrong), _) => Err(wrong),
        (None, None) => Ok(()),
        (None, Some(kv)) => Err(format!("{kv:?} is missing")),
    }
}

fn is(item: &Item<'_>, kv: &KeyValue) -> bool {
    item.key == kv.key
        && item.value == kv.value
        && item.create_revision == kv.create_revision
        && item.mod_revision == kv.mod_revision
        && item.version == kv.version
        && item.lease == kv.lease
}

fn compare_sides(root: &Root, expected: &Sides) -> Verdict {
    let unreadable = |error: Error| format!("it cannot be read: {error}");
    let leases = state::leases(root).map_err(unreadable)?.into_iter();
    let leases = leases.map(|row| {
        let lease = Lease {
            granted_ttl: row.granted_ttl,
            remaining_ttl: row.remaining_ttl,
        };
        (row.id, lease)
    });
    let alarms = state::alarms(root).map_err(unreadable)?.into_iter();
    let shown = Sides {
        leases: leases.collect(),
        alarms: alarms.map(|alarm| (alarm.member_id, alarm.alarm)).collect(),
    };
    same("leases and alarms", &shown, expected)
}

/// The keys of each lease are those that name it.
fn compare_attached(root: &Root, sides: &Sides, model: &Model) -> Verdict {
    let mut expected: BTreeMap<i64, Vec<&[u8]>> = BTreeMap::new();
    for kv in model.live_at(root.revision()).filter(|kv| kv.lease != 0) {
        expected.entry(kv.lease).or_default().push(&kv.key);
    }
    for lease in sides.leases.keys() {
        let shown = state::lease_keys(root, *lease);
        let shown = shown.map_err(|error| format!("it cannot be read: {error}"))?;
        let expected = expected.remove(lease).unwrap_or_default();
        if shown != expected {
            return Err(format!(
                "lease {lease} has {shown:?}, by the log {expected:?}"
            ));
        }
    }
    Ok(())
}

fn event(change: &Change<'_>) -> (i64, Event) {
    match change {
        Change::Put { revision, item } => {
            let event = Event {
                key: item.key.to_vec(),
                value: Some(item.value.to_vec()),
                create_revision: item.create_revision,
                version: item.version,
                lease: item.lease,
            };
            (revision.main, event)
        }
        Change::Delete { revision, key } => (revision.main, Event::deletion(key)),
    }
}
