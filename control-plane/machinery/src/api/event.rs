//! Events of the core API: messages of a control plane component about an object.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::Call;
use crate::object;
use crate::schema::{self, Kind};
use crate::values::time::Timestamp;

/// The kind `Event`.
pub fn kind() -> &'static Arc<Kind> {
    schema::kind("", "v1", "Event").expect("the table has events")
}

/// The content of an Event.
#[derive(Debug)]
pub struct Event<'a> {
    /// `involvedObject`; the Event is in the same namespace.
    pub about: Value,
    pub warning: bool,
    pub reason: &'a str,
    pub message: &'a str,
    /// `source.component`.
    pub component: &'a str,
    /// `source.host`, a node's name; empty for components that run on no node.
    pub host: &'a str,
}

impl Event<'_> {
    /// The Event's name when it is created at `now`; `number` tells Events of one moment apart.
    pub fn name(&self, now: Timestamp, number: usize) -> String {
        let nanos =
            i128::from(now.seconds) * 1_000_000_000 + i128::from(now.nanos) + number as i128;
        format!("{}.{nanos:x}", object::text(&self.about, &["name"]))
    }

    /// The call that creates the Event, with a count of 1.
    pub fn create(self, name: &str, now: Timestamp) -> Call {
        let namespace = namespace(&self.about).to_owned();
        let mut source = json!({"component": self.component});
        if !self.host.is_empty() {
            source["host"] = self.host.into();
        }
        Call::Create {
            kind: Arc::clone(kind()),
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

/// The namespace of Events about this object: `default` for cluster-scoped objects.
pub fn namespace(about: &Value) -> &str {
    match object::text(about, &["namespace"]) {
        "" => "default",
        namespace => namespace,
    }
}
