//! Turns notes of loops into Events. A repeated note raises the Event's count.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use machinery::api::Call;
use machinery::event::{self, Event};
use machinery::object;
use machinery::time::Timestamp;
use serde_json::json;

use crate::decision::{Note, strategic};

/// Maximum number of notes remembered for counting.
const NOTES_MAX: usize = 4096;
/// Maximum bytes of a message.
const MESSAGE_MAX: usize = 1024;

/// The latest notes and the Event of each.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    series: BTreeMap<Same, Series>,
    order: VecDeque<Same>,
}

/// Two notes are the same if these are equal: the object's uid, the reason and the message.
type Same = (String, &'static str, String);

#[derive(Debug)]
struct Series {
    name: String,
    count: u64,
}

impl Recorder {
    /// The call that creates an Event for a note, or raises its count; `detail` replaces `{}` in
    /// the message.
    pub(crate) fn record(
        &mut self,
        component: &str,
        note: &Note,
        detail: &str,
        now: Timestamp,
    ) -> Call {
        let mut message = note.message.replace("{}", detail);
        let end = message.floor_char_boundary(MESSAGE_MAX);
        message.truncate(end);
        let uid = object::text(&note.about, &["uid"]).to_owned();
        let same = (uid, note.reason, message.clone());
        if let Some(series) = self.series.get_mut(&same) {
            series.count += 1;
            let patch = json!({"count": series.count, "lastTimestamp": now.to_seconds()});
            let namespace = event::namespace(&note.about);
            return strategic(event::kind(), namespace, &series.name, patch);
        }
        let event = Event {
            about: note.about.clone(),
            warning: note.warning,
            reason: note.reason,
            message: &message,
            component,
            host: "",
        };
        let name = event.name(now, 0);
        let call = event.create(&name, now);
        self.remember(same, name);
        call
    }

    fn remember(&mut self, same: Same, name: String) {
        if self.order.len() >= NOTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.series.remove(&oldest);
        }
        self.order.push_back(same.clone());
        self.series.insert(same, Series { name, count: 1 });
    }
}
