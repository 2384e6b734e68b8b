//! Clients that watch: each has several watches on one stream after the other, at whichever
//! member, and always comes back where it was. The stream is the server's own; the connection is
//! [`connection`].

mod connection;
mod watch;

use etcd_api::etcdserverpb as pb;
use pb::watch_request::RequestUnion;
use server::member::event::{ConsensusEvent, ReplySlot};
use testkit::Rng;

use crate::canary::Canary;
use crate::world::{Event, Failed, MICRO, MILLI, Named, SECOND, World};
use connection::Connection;
use watch::Watch;

/// In this time a watch is told what has happened until it begins, or begins anew.
const BEGINS_WITHIN: u64 = SECOND;

/// Watches of one client.
const WATCHES_MAX: u64 = 4;
/// Of a thousand looks after which a watch that was refused is asked for again.
const ASKS_AGAIN: u64 = 30;
/// A watch begins so many revisions before the newest at most, or after it.
const BEGINS_BEFORE: u64 = 100;
const BEGINS_AFTER: u64 = 20;

struct Watcher {
    watches: Vec<Watch>,
    connection: Option<Connection>,
    host: usize,
    /// The next look is planned for then.
    planned: Option<u64>,
}

pub(crate) struct Watchers {
    rng: Rng,
    watchers: Vec<Watcher>,
    hosts: usize,
    /// Bytes of a response that may be sent in pieces.
    fragment_bytes: usize,
}

impl Watchers {
    pub(crate) fn new(mut rng: Rng, hosts: usize) -> Watchers {
        let count = rng.between(1, 5);
        let watchers = (0..count).map(|number| {
            let watches = (0..rng.between(1, WATCHES_MAX + 1))
                .map(|place| Watch::new(&format!("w{number}/{place}"), &mut rng))
                .collect();
            Watcher {
                watches,
                connection: None,
                host: rng.below(hosts as u64) as usize,
                planned: None,
            }
        });
        Watchers {
            watchers: watchers.collect(),
            hosts,
            fragment_bytes: *rng.pick(&[100, 2000, 2 << 20]),
            rng,
        }
    }

    pub(crate) fn add_host(&mut self) {
        self.hosts += 1;
    }

    pub(crate) fn count(&self) -> usize {
        self.watchers.len()
    }

    pub(crate) fn events(&self) -> u64 {
        let watches = self.watchers.iter().flat_map(|watcher| &watcher.watches);
        watches.map(|watch| watch.record.events).sum()
    }
}

impl World {
    /// Something may have come for those who watch there.
    pub(crate) fn wake_watchers_of(&mut self, host: usize) {
        for watcher in 0..self.watchers.count() {
            let connection = &self.watchers.watchers[watcher].connection;
            if connection.as_ref().is_some_and(|c| c.host == host) {
                // Now and then a client is slow to read.
                let rng = &mut self.watchers.rng;
                let soon = if rng.chance(20) {
                    rng.below(400 * MILLI)
                } else {
                    rng.between(10 * MICRO, MILLI)
                };
                self.look_at(watcher, self.now + soon);
            }
        }
    }

    fn look_at(&mut self, watcher: usize, at: u64) {
        let planned = &mut self.watchers.watchers[watcher].planned;
        if planned.is_none_or(|planned| at < planned) {
            *planned = Some(at);
            self.at(at, Event::Watcher(watcher));
        }
    }

    pub(crate) fn watcher(&mut self, number: usize) -> Result<(), Failed> {
        let watcher = &mut self.watchers.watchers[number];
        if watcher.planned.is_some_and(|planned| planned != self.now) {
            return Ok(()); // It has looked earlier than was planned first.
        }
        watcher.planned = None;
        let rng = &mut self.watchers.rng;
        let next = self.now + rng.between(50 * MILLI, 300 * MILLI);
        let leaves = rng.chance(10) && !self.quiet;
        let watcher = &mut self.watchers.watchers[number];
        let gone = watcher.connection.as_ref().is_some_and(|connection| {
            let host = &self.hosts[connection.host];
            host.life != connection.life || leaves || connection.broken
        });
        if gone {
            watcher.connection = None;
            watcher.watches.iter_mut().for_each(Watch::is_cut_off);
            watcher.host = self.watchers.rng.below(self.watchers.hosts as u64) as usize;
            self.note(&format!("w{number} loses its stream"));
        } else if self.watchers.watchers[number].connection.is_none() {
            self.connect(number);
        }
        self.follow(number)?;
        self.look_at(number, next);
        Ok(())
    }

    fn connect(&mut self, number: usize) {
        let watcher = &mut self.watchers.watchers[number];
        let host = &self.hosts[watcher.host];
        let Some(process) = host.process.as_ref().filter(|_| !host.paused) else {
            // Of many machines few may be left: a client does not look for them for ever.
            let up = (0..self.hosts.len()).filter(|host| self.hosts[*host].is_up());
            let up: Vec<usize> = up.collect();
            let rng = &mut self.watchers.rng;
            watcher.host = if up.is_empty() || rng.chance(500) {
                rng.below(self.watchers.hosts as u64) as usize
            } else {
                *rng.pick(&up)
            };
            return;
        };
        let stream = process.open_stream(self.watchers.fragment_bytes);
        let claim = self.clients.any_claim(&mut self.watchers.rng);
        watcher.connection = Some(Connection::new(watcher.host, host.life, claim, stream));
        let text = format!("w{number} has a stream to h{}", watcher.host);
        self.note(&text);
    }

    /// Asks for what it wants, and takes what the stream has.
    fn follow(&mut self, number: usize) -> Result<(), Failed> {
        let connection = &self.watchers.watchers[number].connection;
        let Some(host) = connection.as_ref().map(|connection| connection.host) else {
            return Ok(());
        };
        if self.hosts[host].paused {
            return Ok(());
        }
        self.ask_of_stream(number);
        let loses = self.watchers.rng.chance(20);
        let Some(connection) = &mut self.watchers.watchers[number].connection else {
            return Ok(());
        };
        let claim = connection.claim.clone();
        let mut connection = self.watchers.watchers[number].connection.take();
        let pumped = match (self.door(host), &mut connection) {
            (Some(door), Some(connection)) => connection.pump(&|create| door.watch(&claim, create)),
            _ => Ok(Vec::new()),
        };
        self.watchers.watchers[number].connection = connection;
        let responses = pumped?;
        let connection = self.watchers.watchers[number].connection.as_mut();
        if let Some(damage) = connection.and_then(|connection| connection.damage.take())
            && !self.finds_rot(host, &damage)?
        {
            return Err(("watches", format!("a stream ended by itself: {damage}")));
        }
        self.catch_up_for(number, host);
        for (place, response) in responses.into_iter().enumerate() {
            if loses && place == 0 && self.canary == Some(Canary::LostEvents) {
                continue;
            }
            self.watcher_hears(number, response)?;
        }
        let hub = self.now + self.watchers.rng.between(5 * MICRO, MILLI);
        self.turn_hub_at(host, hub);
        Ok(())
    }

    /// A member that does not know who watches there has to catch up first.
    fn catch_up_for(&mut self, number: usize, host: usize) {
        let Some(connection) = &mut self.watchers.watchers[number].connection else {
            return;
        };
        if !connection.wants_to_catch_up() {
            return;
        }
        let (Ok(permit), Some(process)) = (self.clients.admit(host), &mut self.hosts[host].process)
        else {
            return;
        };
        let (slot, receiver) = ReplySlot::new(permit);
        connection.catches_up(receiver);
        process.ports.to_consensus.push(ConsensusEvent::Read(slot));
        self.schedule(host);
    }

    fn ask_of_stream(&mut self, number: usize) {
        let rng = &mut self.watchers.rng;
        let (asks, ticks) = (rng.chance(60), rng.chance(30));
        let cancels = rng.chance(15) && !self.quiet;
        let watcher = &mut self.watchers.watchers[number];
        let Some(connection) = &mut watcher.connection else {
            return;
        };
        let late = i64::from(self.canary == Some(Canary::LateResume));
        let mut texts = Vec::new();
        // Who may not watch is in no hurry to ask again.
        let mut asks_for = |watch: &Watch| !watch.may_not_begin || rng.chance(ASKS_AGAIN);
        for watch in watcher.watches.iter_mut() {
            if watch.id != 0 || !asks_for(watch) {
                continue;
            }
            watch.id = connection.next_id();
            let mut request = watch.request();
            request.start_revision += late;
            texts.push(format!(
                "{} watches from {} as {}",
                watch.record.name, request.start_revision, watch.id
            ));
            connection.ask(RequestUnion::CreateRequest(request));
        }
        if cancels {
            let place = rng.below(watcher.watches.len() as u64) as usize;
            let watch = &mut watcher.watches[place];
            if watch.is_announced && !watch.is_canceled {
                watch.is_canceled = true;
                let watch_id = watch.id;
                let request = pb::WatchCancelRequest { watch_id };
                connection.ask(RequestUnion::CancelRequest(request));
                texts.push(format!("{} is to end", watch.record.name));
            }
        }
        if asks {
            connection.ask(RequestUnion::ProgressRequest(Default::default()));
        }
        if ticks {
            connection.tick();
        }
        texts.iter().for_each(|text| self.note(text));
    }

    fn watcher_hears(&mut self, number: usize, response: pb::WatchResponse) -> Result<(), Failed> {
        let watcher = &mut self.watchers.watchers[number];
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        let id = response.watch_id;
        let model = &self.model;
        if id == -1 && response.created && response.canceled {
            return self.watcher_is_refused(number, &response);
        }
        if id == -1 && !response.canceled {
            // Of the stream as a whole.
            let told = watcher.watches.iter_mut();
            for watch in told.filter(|watch| watch.is_announced && !watch.is_canceled) {
                let judged = watch.record.hears_of_all_through(model, revision);
                judged.of("watches")?;
            }
            self.note(&format!("w{number} hears of progress to {revision}"));
            return Ok(());
        }
        let Some(watch) = watcher.watches.iter_mut().find(|watch| watch.id == id) else {
            let what = format!("w{number} hears of a watch it does not have: {response:?}");
            let connection = watcher.connection.as_mut();
            let is_late = connection.is_some_and(|connection| connection.is_canceled_twice(id));
            let is_right = is_late && response.canceled && response.compact_revision == 0;
            return if is_right {
                Ok(())
            } else {
                Err(("watches", what))
            };
        };
        let mut text = format!("{} hears at {revision}:", watch.record.name);
        if response.created || response.canceled {
            watch.changed_at = self.now;
        }
        if response.created && !response.canceled {
            watch.is_announced = true;
            watch.may_not_begin = false;
            text += " created";
        } else if response.canceled {
            text += &format!(" canceled, compacted {}", response.compact_revision);
            if response.compact_revision != 0 && watch.is_canceled {
                // Its client asked for its end, and will hear of that, too.
                let connection = watcher.connection.as_mut();
                connection.into_iter().for_each(|c| c.cancels_again(id));
            }
            watch.ends(response.compact_revision).of("watches")?;
            let rng = &mut self.watchers.rng;
            if rng.chance(400) {
                let newest = model.newest().current;
                let seen = newest + rng.below(BEGINS_AFTER) as i64;
                watch.begins_anew((seen - rng.below(BEGINS_BEFORE) as i64).max(0));
            }
        } else if response.events.is_empty() {
            text += " progress";
            let judged = watch.record.hears_of_all_through(model, revision);
            judged.of("watches")?;
        } else {
            let wrong = self.canary == Some(Canary::LostPrevKv);
            let told = watch.hears(model, revision, response, wrong);
            text += &told.map_err(|what| ("watches", what))?;
        }
        self.note(&text);
        Ok(())
    }

    /// A watch that it asked for does not begin.
    fn watcher_is_refused(
        &mut self,
        number: usize,
        response: &pb::WatchResponse,
    ) -> Result<(), Failed> {
        let watcher = &mut self.watchers.watchers[number];
        let refused = watcher.connection.as_mut().and_then(Connection::refused);
        let watch = refused.as_ref().and_then(|(id, _)| {
            let mut watches = watcher.watches.iter_mut();
            watches.find(|watch| watch.id == *id)
        });
        let (Some(watch), Some((_, reason))) = (watch, &refused) else {
            let what = format!("w{number} is refused a watch that it may have: {response:?}");
            return Err(("watches", what));
        };
        if response.cancel_reason != *reason {
            let what = format!("w{number} is refused with {response:?}, and not as {reason}");
            return Err(("watches", what));
        }
        watch.is_refused();
        let name = watch.record.name.clone();
        self.figures.denied += 1;
        self.note(&format!("{name} is refused: {reason}"));
        Ok(())
    }

    /// At rest, with all streams up.
    pub(crate) fn watchers_have_seen_all(&mut self) -> Result<(), Failed> {
        let model = &self.model;
        let newest = model.newest().current;
        for watcher in &mut self.watchers.watchers {
            for watch in &mut watcher.watches {
                let has_just_changed = watch.changed_at + BEGINS_WITHIN >= self.now;
                if watch.may_not_begin || has_just_changed {
                    continue;
                }
                let name = watch.record.name.clone();
                if watcher.connection.is_none() || !watch.is_announced {
                    return Err(("watches", format!("{name} finds nobody to watch at")));
                }
                // One may begin with a revision that never comes.
                if watch.record.seen <= newest {
                    let judged = watch.record.hears_of_all_through(model, newest);
                    judged.of("watches")?;
                }
            }
        }
        Ok(())
    }
}
