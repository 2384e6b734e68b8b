//! Requests: watchers are made, join the hub, and are canceled.

use etcd_api::etcdserverpb::WatchCreateRequest;

use super::{
    COMPACTED, DUPLICATE_ID, EMPTY_RANGE, FILTER_NO_DELETE, FILTER_NO_PUT, Phase, WatchStream,
    Watcher, created, refused,
};
use crate::state::watch::event::Wants;
use crate::state::watch::inbox::{HubEvent, Join};
use crate::state::watch::index::Span;
use crate::state::watch::response::{Fields, Out};

impl WatchStream {
    pub(super) fn create(&mut self, request: &WatchCreateRequest, out: &mut Out) {
        let current = self.reader.view().revision();
        let refuse = |out: &mut Out, reason: &str| out.control(current, &refused(reason));
        if request.start_revision < 0 {
            return refuse(out, COMPACTED);
        }
        let Some(span) = Span::from_wire(&request.key, &request.range_end) else {
            return refuse(out, EMPTY_RANGE);
        };
        let id = match request.watch_id {
            0 => self.free_id(),
            taken if self.by_id.contains_key(&taken) => return refuse(out, DUPLICATE_ID),
            id => id,
        };
        let is_past = request.start_revision > 0 && request.start_revision <= current;
        self.next_serial += 1;
        let watcher = Watcher {
            id,
            serial: self.next_serial,
            span,
            wants: Wants {
                no_put: request.filters.contains(&FILTER_NO_PUT),
                no_delete: request.filters.contains(&FILTER_NO_DELETE),
                prev_kv: request.prev_kv,
            },
            phase: if is_past {
                Phase::Behind
            } else {
                Phase::Creating
            },
            next: request.start_revision,
            start: request.start_revision,
            fragment: request.fragment,
            progress_notify: request.progress_notify,
            is_alone: false,
            idle: true,
            pending: Vec::new(),
            sent: 0,
        };
        let slot = self.place(watcher);
        self.by_id.insert(id, slot);
        if is_past {
            self.behind.push_back(slot);
            out.control(current, &created(id));
        } else {
            self.asking = true;
            self.join(vec![slot]);
        }
    }

    fn free_id(&mut self) -> i64 {
        while self.by_id.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn place(&mut self, watcher: Watcher) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(watcher);
                slot
            }
            None => {
                self.slots.push(Some(watcher));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(super) fn cancel(&mut self, id: i64, out: &mut Out) {
        let Some(slot) = self.by_id.remove(&id) else {
            return;
        };
        let watcher = self.watcher(slot);
        watcher.phase = Phase::Leaving;
        watcher.progress_notify = false;
        watcher.pending.clear();
        watcher.sent = 0;
        let stream = self.id;
        self.hub.send(HubEvent::Leave { stream, slot });
        let fields = Fields {
            watch_id: id,
            canceled: true,
            ..Fields::default()
        };
        out.control(self.reader.view().revision(), &fields);
    }

    /// Asks the hub to accept these watchers, from their `next` on.
    pub(super) fn join(&mut self, slots: Vec<u32>) {
        let joins = slots.into_iter().map(|slot| {
            let watcher = self.slots[slot as usize].as_ref().expect("is in use");
            Join {
                slot,
                span: watcher.span.clone(),
                next: watcher.next,
                wants: watcher.wants,
            }
        });
        let joins = joins.collect();
        let stream = self.id;
        self.hub.send(HubEvent::Join { stream, joins });
    }

    pub(super) fn watcher(&mut self, slot: u32) -> &mut Watcher {
        self.slots[slot as usize].as_mut().expect("is in use")
    }
}
