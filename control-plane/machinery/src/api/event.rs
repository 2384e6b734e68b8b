//! Events of the core API: messages of a control plane component about an object.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::Call;
use crate::object;
use crate::schema::{self, Kind};
use crate::values::name;
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
        name(object::text(&self.about, &["name"]), now, number)
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

/// The name of an Event about the object of this name, as [`Event::name`] makes it. Where that
/// would be no name, as it is too long, a number stands for the object.
pub fn name(about: &str, now: Timestamp, number: usize) -> String {
    let nanos = i128::from(now.seconds) * 1_000_000_000 + i128::from(now.nanos) + number as i128;
    let usual = format!("{about}.{nanos:x}");
    if name::dns1123_subdomain(&usual).is_empty() {
        return usual;
    }
    let mut hasher = DefaultHasher::new();
    about.hash(&mut hasher);
    format!("{:016x}.{nanos:x}", hasher.finish())
}

/// The namespace of Events about this object: `default` for cluster-scoped objects.
pub fn namespace(about: &Value) -> &str {
    match object::text(about, &["namespace"]) {
        "" => "default",
        namespace => namespace,
    }
}

#[test]
fn an_event_has_a_name_whatever_the_name_of_its_object_is() {
    let now = Timestamp {
        seconds: 1_700_000_000,
        nanos: 5000,
    };
    assert_eq!(name("p", now, 0), "p.17979cfe362a1388");
    let long = |end: &str| name(&format!("{}{end}", "p".repeat(240)), now, 0);
    assert_ne!(long("a"), long("b"));
    for name in [long("a"), name("system:node", now, 0)] {
        assert_eq!(name::dns1123_subdomain(&name), [""; 0], "{name}");
    }
}
