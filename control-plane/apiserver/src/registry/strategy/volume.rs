//! Persistent volumes: when their phase changed.

use machinery::object;
use serde_json::{Value, json};

use crate::basics::clock;

const SINCE: [&str; 2] = ["status", "lastPhaseTransitionTime"];

/// A new volume waits for a loop.
pub(super) fn prepare_for_create(volume: &mut Value) {
    volume["status"] = json!({"phase": "Pending"});
    object::set(volume, &SINCE, clock::now().to_seconds().into());
}

/// Dates a new phase, unless the client does.
pub(super) fn date_phase(old: &Value, volume: &mut Value) {
    let phase = |volume: &Value| object::text(volume, &["status", "phase"]).to_owned();
    let since = |volume: &Value| object::text(volume, &SINCE).to_owned();
    let (before, after) = (since(old), since(volume));
    if phase(old) != phase(volume) {
        if after.is_empty() || after == before {
            object::set(volume, &SINCE, clock::now().to_seconds().into());
        }
    } else if after.is_empty() && !before.is_empty() {
        object::set(volume, &SINCE, before.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(phase: &str, since: &str) -> Value {
        json!({"status": {"phase": phase, "lastPhaseTransitionTime": since}})
    }

    #[test]
    fn a_phase_has_the_time_of_its_beginning() {
        let (long_ago, later) = ("2001-01-01T00:00:00Z", "2002-01-01T00:00:00Z");
        let updated = |new: Value| {
            let mut new = new;
            date_phase(&volume("Available", long_ago), &mut new);
            object::text(&new, &SINCE).to_owned()
        };
        assert_eq!(updated(json!({"status": {"phase": "Available"}})), long_ago);
        assert_eq!(updated(volume("Bound", later)), later);
        for undated in [
            json!({"status": {"phase": "Bound"}}),
            volume("Bound", long_ago),
        ] {
            let since = updated(undated);
            assert!(since.as_str() > later, "{since}");
        }
        let mut new = json!({});
        prepare_for_create(&mut new);
        assert!(!object::text(&new, &SINCE).is_empty());
    }
}
