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
    since: Timestamp,
}

/// The calls that tell of a note.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) call: Call,
    /// Instead, if the Event whose count is raised is gone: the apiserver keeps Events for an hour, and
    /// a note may come again after days.
    pub(crate) otherwise: Option<Call>,
}

impl Recorder {
    /// The call that creates an Event for a note, or one that raises its count; `detail` replaces
    /// `{}` in the message.
    pub(crate) fn record(
        &mut self,
        component: &str,
        note: &Note,
        detail: &str,
        now: Timestamp,
    ) -> Telling {
        let mut message = note.message.replace("{}", detail);
        let end = message.floor_char_boundary(MESSAGE_MAX);
        message.truncate(end);
        let uid = object::text(&note.about, &["uid"]).to_owned();
        let same = (uid, note.reason, message.clone());
        let event = Event {
            about: note.about.clone(),
            warning: note.warning,
            reason: note.reason,
            message: &message,
            component,
            host: "",
        };
        if let Some(series) = self.series.get_mut(&same) {
            series.count += 1;
            let patch = json!({"count": series.count, "lastTimestamp": now.to_seconds()});
            let namespace = event::namespace(&note.about);
            let mut anew = event.create(&series.name, now);
            if let Call::Create { object, .. } = &mut anew {
                object["count"] = series.count.into();
                object["firstTimestamp"] = series.since.to_seconds().into();
            }
            return Telling {
                call: strategic(event::kind(), namespace, &series.name, patch),
                otherwise: Some(anew),
            };
        }
        let name = event.name(now, 0);
        let call = event.create(&name, now);
        let series = Series {
            name,
            count: 1,
            since: now,
        };
        self.remember(same, series);
        Telling {
            call,
            otherwise: None,
        }
    }

    fn remember(&mut self, same: Same, series: Series) {
        if self.order.len() >= NOTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.series.remove(&oldest);
        }
        self.order.push_back(same.clone());
        self.series.insert(same, series);
    }
}
