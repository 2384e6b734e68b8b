//! The events of one response, encoded once for all watches that get them.

use std::cell::OnceCell;

use bytes::Bytes;
use etcd_api::mvccpb::Event;
use etcd_api::mvccpb::event::EventType;
use prost::Message;

#[derive(Debug, Default)]
pub(super) struct Events(Vec<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) revision: i64,
    pub(super) is_delete: bool,
    event: Event,
    whole: OnceCell<Bytes>,
    /// Without the previous value.
    short: OnceCell<Bytes>,
}

impl Events {
    pub(super) fn new(events: Vec<Event>) -> Events {
        let shared = |event: Event| Shared {
            revision: event.kv.as_ref().map_or(0, |kv| kv.mod_revision),
            is_delete: event.r#type == EventType::Delete as i32,
            event,
            whole: OnceCell::new(),
            short: OnceCell::new(),
        };
        Events(events.into_iter().map(shared).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The revision behind the last event.
    pub(super) fn next(&self) -> Option<i64> {
        self.0.last().map(|event| event.revision + 1)
    }

    pub(super) fn encoded(
        &self,
        wanted: impl Fn(&Shared) -> bool,
        with_previous: bool,
    ) -> Vec<Bytes> {
        let wanted = self.0.iter().filter(|event| wanted(event));
        wanted.map(|event| event.encoded(with_previous)).collect()
    }
}

impl Shared {
    fn encoded(&self, with_previous: bool) -> Bytes {
        if with_previous || self.event.prev_kv.is_none() {
            let whole = || self.event.encode_to_vec().into();
            return self.whole.get_or_init(whole).clone();
        }
        let short = || {
            let short = Event {
                prev_kv: None,
                ..self.event.clone()
            };
            short.encode_to_vec().into()
        };
        self.short.get_or_init(short).clone()
    }
}
