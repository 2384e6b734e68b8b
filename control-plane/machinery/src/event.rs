//! Events of the core API: what a part of the control plane tells people about an object.

use serde_json::{Value, json};

use crate::object;
use crate::schema::{self, Kind};
use crate::time::Timestamp;
use crate::world::Call;

/// The kind.
pub fn kind() -> &'static Kind {
    schema::kind("", "v1", "Event").expect("the table has events")
}

/// What is told.
#[derive(Debug)]
pub struct Event<'a> {
    /// `involvedObject`; the Event lies in its namespace.
    pub about: Value,
    pub warning: bool,
    pub reason: &'a str,
    pub message: &'a str,
    /// Who says it.
    pub component: &'a str,
    /// On which node; empty for those that are on none.
    pub host: &'a str,
}

impl Event<'_> {
    /// Its name when it is told `now`; `number` tells apart what is told at the same time.
    pub fn name(&self, now: Timestamp, number: usize) -> String {
        let nanos =
            i128::from(now.seconds) * 1_000_000_000 + i128::from(now.nanos) + number as i128;
        format!("{}.{nanos:x}", object::text(&self.about, &["name"]))
    }

    /// The call that tells it for the first time.
    pub fn create(self, name: &str, now: Timestamp) -> Call {
        let namespace = namespace(&self.about).to_owned();
        let mut source = json!({"component": self.component});
        if !self.host.is_empty() {
            source["host"] = self.host.into();
        }
        Call::Create {
            kind: kind(),
            object: json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"namespace": namespace, "name": name},
                "involvedObject": self.about, "reason": self.reason, "message": self.message,
                "type": if self.warning { "Warning" } else { "Normal" }, "count": 1,
                "firstTimestamp": now.to_seconds(), "lastTimestamp": now.to_seconds(),
                "source": source, "reportingComponent": self.component,
                "reportingInstance": self.host,
            }),
        }
    }
}

/// Where an Event about this object lies: objects of the cluster have theirs in `default`.
pub fn namespace(about: &Value) -> &str {
    match object::text(about, &["namespace"]) {
        "" => "default",
        namespace => namespace,
    }
}
