//! Clients that watch: each follows a range of keys over one stream after the other, at whichever
//! member, and always comes back where it was. The stream is the server's own; the connection is
//! this file.

use etcd_api::etcdserverpb as pb;
use pb::watch_request::RequestUnion;
use prost::Message;
use server::state::watch::{Ended, HistoryRead, Out, WatchStream};

use crate::canary::Canary;
use crate::check::watches::WatchRecord;
use crate::model;
use crate::world::{Event, Failed, MICRO, MILLI, Named, World};
use testkit::Rng;

const PUT: i32 = 0;

struct Connection {
    host: usize,
    life: u64,
    stream: WatchStream,
    out: Out,
    bytes: Vec<u8>,
    /// Read by another thread, as it were; done at the next look.
    reading: Option<HistoryRead>,
    asked: bool,
    /// The member's disk failed when history was read: the client has to go elsewhere.
    broken: bool,
}

struct Watcher {
    record: WatchRecord,
    connection: Option<Connection>,
    host: usize,
    /// The next look is planned for then.
    planned: Option<u64>,
}

pub(crate) struct Watchers {
    rng: Rng,
    watchers: Vec<Watcher>,
    hosts: usize,
}

impl Watchers {
    pub(crate) fn new(mut rng: Rng, hosts: usize) -> Watchers {
        let ranges: [(&str, &[u8], &[u8]); 4] = [
            ("w/all", b"\0", b"\xff"),
            ("w/keys", b"k/", b"k0"),
            ("w/one", b"k/1/0", b"k/1/0\0"),
            ("w/leased", b"l/", b"l0"),
        ];
        let count = rng.between(1, 6) as usize;
        let watchers = (0..count).map(|number| {
            let (name, start, end) = ranges[number % ranges.len()];
            Watcher {
                record: WatchRecord::new(format!("{name}/{number}"), start, end, 1),
                connection: None,
                host: rng.below(hosts as u64) as usize,
                planned: None,
            }
        });
        Watchers {
            watchers: watchers.collect(),
            hosts,
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
        self.watchers
            .iter()
            .map(|watcher| watcher.record.events)
            .sum()
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
            watcher.record.is_cut_off();
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
        let late = i64::from(self.canary == Some(Canary::LateResume));
        let mut connection = Connection {
            host: watcher.host,
            life: host.life,
            stream: process.open_stream(),
            out: Out::default(),
            bytes: Vec::new(),
            reading: None,
            asked: false,
            broken: false,
        };
        let request = pb::WatchCreateRequest {
            key: watcher.record.start.clone().into(),
            range_end: watcher.record.end.clone().into(),
            start_revision: watcher.record.seen + 1 + late,
            progress_notify: true,
            fragment: true,
            ..Default::default()
        };
        let text = format!(
            "w{number} watches at h{} from {}",
            watcher.host, request.start_revision
        );
        connection.request(RequestUnion::CreateRequest(request));
        watcher.connection = Some(connection);
        self.note(&text);
    }

    /// Takes what the stream has.
    fn follow(&mut self, number: usize) -> Result<(), Failed> {
        let rng = &mut self.watchers.rng;
        let (asks, ticks, loses) = (rng.chance(60), rng.chance(30), rng.chance(20));
        let watcher = &mut self.watchers.watchers[number];
        let Some(connection) = &mut watcher.connection else {
            return Ok(());
        };
        let host = connection.host;
        if self.hosts[host].paused {
            return Ok(());
        }
        if asks && connection.asked && connection.stream.accepts() {
            connection.request(RequestUnion::ProgressRequest(Default::default()));
        }
        if ticks {
            connection.stream.tick();
        }
        let responses = connection.pump().map_err(|what| ("watches", what))?;
        for (place, response) in responses.into_iter().enumerate() {
            if loses && place == 0 && self.canary == Some(Canary::LostEvents) {
                continue;
            }
            if !self.watcher_hears(number, response)? {
                break;
            }
        }
        let hub = self.now + self.watchers.rng.between(5 * MICRO, MILLI);
        self.turn_hub_at(host, hub);
        Ok(())
    }

    /// False when the watch has come to its end.
    fn watcher_hears(
        &mut self,
        number: usize,
        response: pb::WatchResponse,
    ) -> Result<bool, Failed> {
        let watcher = &mut self.watchers.watchers[number];
        let model = &self.model;
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        let mut text = format!("w{number} hears at {revision}:");
        let mut goes_on = true;
        if response.canceled {
            text += &format!(" canceled, compacted {}", response.compact_revision);
            if response.compact_revision == 0 {
                return Err(("watches", text));
            }
            if response.compact_revision <= watcher.record.seen {
                text += ", which it has heard of";
                return Err(("watches", text));
            }
            watcher.record.skips_to(response.compact_revision - 1);
            watcher.connection = None;
            goes_on = false;
        } else if response.created {
            text += " created";
        } else if response.events.is_empty() {
            text += " progress";
            let judged = watcher.record.hears_of_all_through(model, revision);
            judged.of("watches")?;
        } else {
            let events: Vec<_> = response.events.iter().filter_map(event).collect();
            let (first, last) = (events.first().map(|e| e.0), events.last().map(|e| e.0));
            text += &format!(" {} events {first:?} to {last:?}", events.len());
            if last > Some(revision) {
                return Err(("watches", text));
            }
            let judged = watcher.record.hears(model, events, response.fragment);
            judged.of("watches")?;
        }
        self.note(&text);
        Ok(goes_on)
    }

    /// At rest, with all streams up.
    pub(crate) fn watchers_have_seen_all(&mut self) -> Result<(), Failed> {
        let model = &self.model;
        for watcher in &mut self.watchers.watchers {
            let name = watcher.record.name.clone();
            if watcher.connection.is_none() {
                return Err(("watches", format!("{name} finds nobody to watch at")));
            }
            let judged = watcher
                .record
                .hears_of_all_through(model, model.newest().current);
            judged.of("watches")?;
        }
        Ok(())
    }
}

fn event(event: &etcd_api::mvccpb::Event) -> Option<(i64, model::Event)> {
    let kv = event.kv.as_ref()?;
    let told = model::Event {
        key: kv.key.to_vec(),
        value: (event.r#type == PUT).then(|| kv.value.to_vec()),
        create_revision: kv.create_revision,
        version: kv.version,
        lease: kv.lease,
    };
    Some((kv.mod_revision, told))
}

impl Connection {
    fn request(&mut self, union: RequestUnion) {
        self.asked = true;
        let request = pb::WatchRequest {
            request_union: Some(union),
        };
        self.stream.request(request, &mut self.out);
    }

    /// As `server::api::grpc::watch` polls it. Whole responses.
    fn pump(&mut self) -> Result<Vec<pb::WatchResponse>, String> {
        if let Some(read) = self.reading.take() {
            self.stream.read_done(read.run());
        }
        loop {
            self.stream.pump(&mut self.out);
            let mut is_busy = false;
            while let Some(frame) = self.out.next_frame() {
                self.bytes.extend_from_slice(&frame);
                is_busy = true;
            }
            match self.stream.ended() {
                None => {}
                Some(Ended::Failed(storage::Error::Io { .. })) => {
                    self.broken = true;
                    return Ok(Vec::new());
                }
                Some(ended) => return Err(format!("a stream ended by itself: {ended:?}")),
            }
            if self.reading.is_none()
                && let Some(read) = self.stream.next_read()
            {
                if read.is_short() {
                    self.stream.read_done(read.run());
                    is_busy = true;
                } else {
                    self.reading = Some(read);
                }
            }
            if !is_busy {
                break;
            }
        }
        let mut responses = Vec::new();
        while let Some((_, rest)) = self.bytes.split_first_chunk::<5>() {
            let length =
                u32::from_be_bytes([self.bytes[1], self.bytes[2], self.bytes[3], self.bytes[4]]);
            let Some(body) = rest.get(..length as usize) else {
                break;
            };
            let response = pb::WatchResponse::decode(body).map_err(|error| error.to_string())?;
            responses.push(response);
            self.bytes.drain(..5 + length as usize);
        }
        Ok(responses)
    }
}
