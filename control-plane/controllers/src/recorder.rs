//! Notes of loops as Events: a note that repeats is counted, not told again.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use machinery::event::{self, Event};
use machinery::object;
use machinery::time::Timestamp;
use machinery::world::Call;
use serde_json::json;

use crate::decision::{Note, strategic};

/// How many notes are remembered to be counted.
const NOTES_MAX: usize = 4096;
/// The most bytes of a message.
const MESSAGE_MAX: usize = 1024;

/// What was told last, and as which Event.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    told: BTreeMap<Same, Told>,
    order: VecDeque<Same>,
}

/// What makes two notes the same: the object's uid, the reason and the text.
type Same = (String, &'static str, String);

#[derive(Debug)]
struct Told {
    name: String,
    count: u64,
}

impl Recorder {
    /// The call that tells a note of a part of the control plane; `detail` takes the place of
    /// `{}` in its message.
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
        if let Some(told) = self.told.get_mut(&same) {
            told.count += 1;
            let patch = json!({"count": told.count, "lastTimestamp": now.to_seconds()});
            let namespace = event::namespace(&note.about);
            return strategic(event::kind(), namespace, &told.name, patch);
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
            self.told.remove(&oldest);
        }
        self.order.push_back(same.clone());
        self.told.insert(same, Told { name, count: 1 });
    }
}
