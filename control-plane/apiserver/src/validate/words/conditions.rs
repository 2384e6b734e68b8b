//! Conditions in a status, where their kind has the type that all newer kinds share.

use std::collections::BTreeSet;

use machinery::status::Cause;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON_BYTES_MAX: usize = 1 << 10;
const MESSAGE_BYTES_MAX: usize = 32 << 10;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

impl Causes {
    /// The conditions of a status.
    pub(crate) fn conditions(&mut self, status: &FieldValue) {
        let mut seen = BTreeSet::new();
        self.each(status, "conditions", |causes, condition| {
            let kind = condition.text("type");
            if !seen.insert(kind) {
                causes.push(Cause::duplicate(&condition.path_of("type"), &kind.into()));
            }
            causes.condition(condition);
        });
    }

    fn condition(&mut self, condition: &FieldValue) {
        self.label_name(condition, "type");
        if !STATUSES.contains(&condition.text("status")) {
            self.unknown(condition, "status", &STATUSES);
        }
        if condition.number("observedGeneration") < 0 {
            let why = "must be greater than or equal to zero";
            self.wrong(condition, "observedGeneration", why);
        }
        self.required(condition, "lastTransitionTime");
        let reason = condition.text("reason");
        if self.required(condition, "reason") {
            if !is_reason(reason) {
                self.wrong(condition, "reason", REASON);
            }
            self.at_most(condition, "reason", REASON_BYTES_MAX);
        }
        self.at_most(condition, "message", MESSAGE_BYTES_MAX);
    }

    /// A text of at most this many bytes.
    pub(crate) fn at_most(&mut self, at: &FieldValue, key: &str, bytes: usize) {
        if at.text(key).len() > bytes {
            self.push(Cause::too_long(&at.path_of(key), bytes));
        }
    }
}

fn is_reason(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || "_,:".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(inside)
}
