//! Random writes, compactions, watches and slow readers, with the threads' turns chosen at random.
//! Compares the events that each watch received with those it should receive: ordered, unique,
//! complete, atomic.

use std::collections::BTreeMap;

use arbtest::arbitrary::{Result, Unstructured};
use bytes::Bytes;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use storage::mvcc::KeyRange;

use super::rig::*;
use crate::state::watch::RevisionLimits;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Large enough that a few puts fill a mailbox.
const LARGE: usize = 200_000;

struct World {
    rig: Rig,
    /// All events so far.
    history: Vec<Seen>,
    live: BTreeMap<&'static str, ()>,
    clients: Vec<Watching>,
}

/// A client and what it has received.
struct Watching {
    client: Client,
    asked: Vec<WatchCreateRequest>,
    watches: BTreeMap<i64, Watch>,
    /// The newest revision up to which progress was promised.
    promised: i64,
    /// Fragments of a response, put together.
    parts: Option<WatchResponse>,
}

struct Watch {
    request: WatchCreateRequest,
    /// The first revision that it must receive.
    from: i64,
    seen: Vec<Seen>,
    /// It was canceled because of this compaction.
    compacted: Option<i64>,
    canceled: bool,
}

impl World {
    fn new(limits: RevisionLimits) -> World {
        World {
            rig: Rig::with_limits(limits),
            history: Vec::new(),
            live: BTreeMap::new(),
            clients: Vec::new(),
        }
    }

    fn write(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let revision = self.rig.revision() + 1;
        let size = if u.ratio(1, 4)? { LARGE } else { 10 };
        let mut changes: Vec<(&'static str, bool)> = Vec::new();
        let mut keys = KEYS.to_vec();
        for _ in 0..u.int_in_range(1..=3)? {
            let key = keys.swap_remove(u.choose_index(keys.len())?);
            changes.push((key, self.live.contains_key(key) && u.ratio(1, 3)?));
        }
        let value = vec![b'x'; size];
        self.rig.write(|write| {
            for (key, is_deletion) in &changes {
                if *is_deletion {
                    let range = KeyRange::from_wire(key.as_bytes(), b"");
                    assert_eq!(write.delete_range(range).unwrap(), 1);
                } else {
                    write.put(key.as_bytes(), &value, 0).unwrap()
                }
            }
        });
        for (key, is_deletion) in changes {
            if is_deletion {
                self.live.remove(key)
            } else {
                self.live.insert(key, ())
            };
            self.history.push((revision, key.to_owned(), is_deletion));
        }
        Ok(())
    }

    fn create(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let revision = self.rig.revision();
        let start_revision = match u.int_in_range(0..=3)? {
            0 => 0,
            1 => revision + u.int_in_range(1..=5)?,
            _ => u.int_in_range(1..=revision)?,
        };
        let request = WatchCreateRequest {
            key: Bytes::from_static(u.choose(&KEYS)?.as_bytes()),
            range_end: Bytes::from_static(u.choose(&[&b""[..], b"\0", b"d"])?),
            start_revision,
            prev_kv: u.arbitrary()?,
            filters: if u.ratio(1, 4)? { vec![0] } else { vec![] },
            progress_notify: u.arbitrary()?,
            fragment: u.arbitrary()?,
            ..Default::default()
        };
        let is_empty = !request.range_end.is_empty() && request.key >= request.range_end;
        if is_empty && *request.range_end != *b"\0" {
            return Ok(());
        }
        let place = u.choose_index(self.clients.len())?;
        let watching = &mut self.clients[place];
        watching.client.create(request.clone());
        watching.asked.push(request);
        Ok(())
    }

    fn cancel(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let place = u.choose_index(self.clients.len())?;
        let watching = &mut self.clients[place];
        let open: Vec<i64> = watching.watches.keys().copied().collect();
        if !open.is_empty() {
            watching.client.cancel(*u.choose(&open)?);
        }
        Ok(())
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if self.clients.is_empty() || (self.clients.len() < 3 && u.ratio(1, 20)?) {
            self.clients.push(Watching {
                client: self.rig.client(),
                asked: Vec::new(),
                watches: BTreeMap::new(),
                promised: 0,
                parts: None,
            });
        }
        let who = u.choose_index(self.clients.len())?;
        match u.int_in_range(0..=19)? {
            0..=4 => self.write(u)?,
            5..=6 => self.rig.publish(),
            7 => self.create(u)?,
            8 if u.ratio(1, 4)? => self.cancel(u)?,
            9 if u.ratio(1, 4)? => {
                let revision = self.rig.revision();
                let compacted = self.rig.store.root().compacted().max(1);
                if compacted < revision {
                    let at = u.int_in_range(compacted + 1..=revision)?;
                    self.rig.write(|write| write.compact(at).unwrap());
                }
            }
            10 => self.rig.remove_compacted(),
            11 => self.clients[who].client.ask_progress(),
            12 if u.ratio(1, 2)? => self.clients[who].client.stream.tick(),
            12..=13 => {
                self.rig.turn();
            }
            14..=15 => {
                self.clients[who].client.turn();
            }
            16 => {
                self.clients[who].client.read_history();
            }
            _ => {
                self.clients[who].client.receive();
                self.clients[who].look();
            }
        }
        Ok(())
    }

    fn settle(&mut self) {
        self.rig.publish();
        for _ in 0..100_000 {
            let mut is_busy = self.rig.turn();
            for watching in &mut self.clients {
                is_busy |= watching.client.step();
                watching.look();
            }
            if !is_busy {
                return;
            }
        }
        panic!("the streams never come to rest");
    }

    /// Checks that every watch received all its events.
    fn check(&self) {
        for watching in &self.clients {
            assert!(watching.asked.is_empty(), "every watch was announced");
            assert!(watching.parts.is_none(), "the last fragment is missing");
            for watch in watching.watches.values() {
                let owed = self.owed(watch);
                match watch.compacted {
                    None if watch.canceled => assert!(owed.starts_with(&watch.seen)),
                    None => assert_eq!(watch.seen, owed),
                    // It received a beginning without gaps, and everything missing was compacted.
                    Some(compacted) => {
                        assert!(owed.starts_with(&watch.seen));
                        let newest = watch.seen.last().map_or(0, |seen| seen.0);
                        assert!(newest < compacted && watch.from < compacted);
                    }
                }
            }
        }
    }

    fn owed(&self, watch: &Watch) -> Vec<Seen> {
        let range = KeyRange::from_wire(&watch.request.key, &watch.request.range_end);
        let no_put = watch.request.filters.contains(&0);
        let mine = |(revision, key, is_deletion): &&Seen| {
            *revision >= watch.from && range.contains(key.as_bytes()) && (*is_deletion || !no_put)
        };
        self.history.iter().filter(mine).cloned().collect()
    }
}

impl Watching {
    /// Handles received responses.
    fn look(&mut self) {
        for response in self.client.take() {
            let Some(response) = self.whole(response) else {
                continue;
            };
            if response.created {
                self.announced(&response);
            } else if response.events.is_empty() && !response.canceled {
                let revision = header_revision(&response);
                match response.watch_id {
                    -1 => self.promised = self.promised.max(revision),
                    id => {
                        let newest = self.watches[&id].seen.last().map_or(0, |seen| seen.0);
                        assert!(revision >= newest, "progress goes back");
                    }
                }
            } else {
                self.told(&response);
            }
        }
    }

    /// The response with the fragments before it, unless more follow.
    fn whole(&mut self, response: WatchResponse) -> Option<WatchResponse> {
        let response = match self.parts.take() {
            None => response,
            Some(mut parts) => {
                assert_eq!(response.watch_id, parts.watch_id, "between fragments");
                assert!(!response.created && !response.canceled);
                parts.fragment = response.fragment;
                parts.events.extend(response.events);
                parts
            }
        };
        if response.fragment {
            self.parts = Some(response);
            return None;
        }
        Some(response)
    }

    fn announced(&mut self, response: &WatchResponse) {
        assert!(!response.canceled);
        // Answers arrive in the order of requests.
        let request = self.asked.remove(0);
        let from = match request.start_revision {
            0 => header_revision(response) + 1,
            start => start,
        };
        let watch = Watch {
            request,
            from,
            seen: Vec::new(),
            compacted: None,
            canceled: false,
        };
        let before = self.watches.insert(response.watch_id, watch);
        assert!(before.is_none(), "ids are not given twice");
        // A progress promise covers only the watches of its time.
        self.promised = 0;
    }

    fn told(&mut self, response: &WatchResponse) {
        let watch = self
            .watches
            .get_mut(&response.watch_id)
            .expect("was announced");
        assert!(!watch.canceled, "nothing comes after the cancel");
        if response.canceled {
            watch.canceled = response.compact_revision == 0;
            watch.compacted = watch
                .compacted
                .or(Some(response.compact_revision))
                .filter(|compacted| *compacted > 0);
            return;
        }
        assert!(watch.compacted.is_none());
        let events = seen(response);
        let newest = watch.seen.last().map_or(0, |seen| seen.0);
        assert!(events[0].0 > newest, "a revision's events are torn");
        assert!(
            events[0].0 > self.promised,
            "an event after the promise that there is none"
        );
        assert!(header_revision(response) >= events[events.len() - 1].0);
        watch.seen.extend(events);
    }
}

#[test]
fn watches_are_ordered_unique_complete_and_atomic_whoever_gets_his_turn_when() {
    arbtest::arbtest(run)
        .size_min(1 << 10)
        .size_max(1 << 14)
        .budget_ms(3_000);
}

/// A stream must not wait for the gap of a watch that is canceled already.
#[test]
fn a_watch_canceled_while_its_gap_is_read_does_not_hold_up_its_stream() {
    arbtest::arbtest(run).seed(0x57e6_3646_0000_4000);
}

/// Nor does the read for it count for a watch whose gap opens before that read is done.
#[test]
fn a_read_for_a_canceled_watch_does_not_close_the_gap_of_another() {
    arbtest::arbtest(run).seed(0xcb51_a6f5_0000_4000);
}

/// A revision with two large values, or one that replaces another and is told with it, is beyond the
/// limit.
#[test]
fn so_they_are_where_revisions_are_too_large_to_be_held() {
    let limits = RevisionLimits {
        held_bytes: LARGE + LARGE / 2,
        piece_bytes: LARGE / 2,
        piece_changes: 1,
        ..RevisionLimits::default()
    };
    arbtest::arbtest(|u| run_with(u, limits))
        .size_min(1 << 10)
        .size_max(1 << 14)
        .budget_ms(3_000);
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    run_with(u, RevisionLimits::default())
}

fn run_with(u: &mut Unstructured<'_>, limits: RevisionLimits) -> Result<()> {
    let mut world = World::new(limits);
    let steps = u.int_in_range(1..=600)?;
    for _ in 0..steps {
        if u.is_empty() {
            break;
        }
        world.step(u)?;
    }
    world.settle();
    world.check();
    Ok(())
}
