//! An event as the log and webhooks get it: field by field as Kubernetes writes `audit.k8s.io/v1`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use machinery::object;
use machinery::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::policy::{Level, Stage};
use crate::auth::User;

/// The annotation of an event whose objects were left out.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// What is known of a request so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event {
    pub(crate) level: Level,
    pub(crate) id: String,
    pub(crate) uri: String,
    pub(crate) verb: String,
    /// `None` if the requester is not authenticated.
    pub(crate) user: Option<User>,
    pub(crate) impersonated: Option<User>,
    /// The verb that allowed that; empty for the verb `impersonate`.
    pub(crate) constraint: &'static str,
    pub(crate) source_ips: Vec<IpAddr>,
    pub(crate) user_agent: String,
    /// `None` for a path that is no resource.
    pub(crate) object: Option<ObjectRef>,
    /// `None` until the code of the response is known.
    pub(crate) status: Option<ResponseStatus>,
    /// The body of the request, in JSON.
    pub(crate) request: Option<Bytes>,
    /// The body of the response, in JSON.
    pub(crate) response: Option<Bytes>,
    pub(crate) received: Timestamp,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The object that a request is about. Empty fields are left out.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) subresource: String,
}

/// What became of a request: the fields of a Status. Empty ones are left out.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ResponseStatus {
    /// Always empty; Kubernetes writes it all the same.
    metadata: Empty,
    #[serde(skip_serializing_if = "String::is_empty")]
    status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Value::is_null")]
    details: Value,
    pub(crate) code: u16,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Empty {}

/// A user as events show it.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
}

impl ResponseStatus {
    /// A response with this code whose body is no Status.
    pub(crate) fn of_code(code: u16) -> ResponseStatus {
        ResponseStatus {
            code,
            ..ResponseStatus::default()
        }
    }

    /// A response with this code whose body is a Status.
    pub(crate) fn of_object(code: u16, status: &Value) -> ResponseStatus {
        let text = |key: &str| object::text(status, &[key]).to_owned();
        ResponseStatus {
            metadata: Empty {},
            status: text("status"),
            message: text("message"),
            reason: text("reason"),
            details: status.get("details").cloned().unwrap_or_default(),
            code,
        }
    }
}

impl Event {
    /// A line of the log, in JSON.
    pub(crate) fn json_line(&self, stage: Stage, at: Timestamp) -> Vec<u8> {
        let mut line = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#.to_vec();
        self.write(&mut line, stage, at);
        line.push(b'\n');
        line
    }

    /// An item of a list of events, which says the kind for all of them.
    pub(crate) fn json_item(&self, stage: Stage, at: Timestamp) -> Vec<u8> {
        let mut item = vec![b'{'];
        self.write(&mut item, stage, at);
        item
    }

    /// The same event without objects, marked as such.
    pub(crate) fn without_objects(&self) -> Event {
        let mut annotations = self.annotations.clone();
        annotations.insert(TRUNCATED.into(), "true".into());
        Event {
            request: None,
            response: None,
            annotations,
            ..self.clone()
        }
    }

    /// A line of the log in the legacy format.
    pub(crate) fn legacy_line(&self, stage: Stage) -> Vec<u8> {
        let quoted = |groups: &[String]| {
            let quoted: Vec<String> = groups.iter().map(|group| format!("{group:?}")).collect();
            quoted.join(",")
        };
        let (user, groups) = match self.user.as_ref().filter(|user| !user.name.is_empty()) {
            Some(user) if user.groups.is_empty() => (&*user.name, "<none>".to_owned()),
            Some(user) => (&*user.name, quoted(&user.groups)),
            None => ("<none>", "<none>".to_owned()),
        };
        let (other, others) = match &self.impersonated {
            Some(user) => (&*user.name, quoted(&user.groups)),
            None => ("<self>", "<lookup>".to_owned()),
        };
        let namespace = self.object.as_ref().map(|object| &*object.namespace);
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let address = self.source_ips.first().map(IpAddr::to_string);
        let code = self.status.as_ref().map(|status| status.code.to_string());
        format!(
            "{} AUDIT: id={:?} stage={:?} ip={:?} method={:?} user={user:?} groups={groups:?} \
             as={other:?} asgroups={others:?} user-agent={:?} namespace={:?} uri={:?} \
             response=\"{}\"\n",
            nanos(self.received),
            self.id,
            stage.name(),
            address.as_deref().unwrap_or("<unknown>"),
            self.verb,
            self.user_agent,
            namespace.unwrap_or("<none>"),
            self.uri,
            code.as_deref().unwrap_or("<deferred>"),
        )
        .into_bytes()
    }

    /// Writes all fields after the kind, and the closing brace.
    fn write(&self, out: &mut Vec<u8>, stage: Stage, at: Timestamp) {
        let start = out.len();
        let mut fields = Fields(out);
        fields.value("level", self.level.name());
        fields.value("auditID", &self.id);
        fields.value("stage", stage.name());
        fields.value("requestURI", &self.uri);
        fields.value("verb", &self.verb);
        let nobody = User::default();
        fields.value("user", &shown(self.user.as_ref().unwrap_or(&nobody)));
        if let Some(user) = &self.impersonated {
            fields.value("impersonatedUser", &shown(user));
        }
        if !self.constraint.is_empty() {
            let metadata = serde_json::json!({ "impersonationConstraint": self.constraint });
            fields.value("authenticationMetadata", &metadata);
        }
        if !self.source_ips.is_empty() {
            fields.value("sourceIPs", &self.source_ips);
        }
        if !self.user_agent.is_empty() {
            fields.value("userAgent", &self.user_agent);
        }
        if let Some(object) = &self.object {
            fields.value("objectRef", object);
        }
        if let Some(status) = &self.status {
            fields.value("responseStatus", status);
        }
        if let Some(object) = &self.request {
            fields.raw("requestObject", object);
        }
        if let Some(object) = &self.response {
            fields.raw("responseObject", object);
        }
        fields.value("requestReceivedTimestamp", &self.received.to_micros());
        fields.value("stageTimestamp", &at.to_micros());
        if !self.annotations.is_empty() {
            fields.value("annotations", &self.annotations);
        }
        // The last field has a comma after it.
        out.pop();
        out.push(b'}');
        escape_html(out, start);
    }
}

/// Writes the fields of an object, each with a comma after it.
struct Fields<'a>(&'a mut Vec<u8>);

impl Fields<'_> {
    fn value<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        self.key(key);
        // Writing into memory fails only for maps with keys that are no strings; there are none.
        let _ = serde_json::to_writer(&mut *self.0, value);
        self.0.push(b',');
    }

    fn raw(&mut self, key: &str, json: &[u8]) {
        self.key(key);
        self.0.extend_from_slice(json);
        self.0.push(b',');
    }

    fn key(&mut self, key: &str) {
        self.0.push(b'"');
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }
}

/// JSON with the letters escaped that Go escapes in it: `<`, `>`, `&` and two kinds of line ends.
pub(crate) fn as_go<T: Serialize>(value: &T) -> String {
    // It fails only for maps with keys that are no strings; there are none.
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    escape_html(&mut text, 0);
    String::from_utf8_lossy(&text).into_owned()
}

/// Escapes these letters from a place on. In JSON they are only in strings.
fn escape_html(out: &mut Vec<u8>, from: usize) {
    let special = |at: usize, all: &[u8]| match all[at] {
        b'<' => Some(("\\u003c", 1)),
        b'>' => Some(("\\u003e", 1)),
        b'&' => Some(("\\u0026", 1)),
        0xe2 if all[at..].starts_with(b"\xe2\x80\xa8") => Some(("\\u2028", 3)),
        0xe2 if all[at..].starts_with(b"\xe2\x80\xa9") => Some(("\\u2029", 3)),
        _ => None,
    };
    let Some(first) = (from..out.len()).find(|at| special(*at, out).is_some()) else {
        return;
    };
    let rest = out.split_off(first);
    let mut at = 0;
    while at < rest.len() {
        match special(at, &rest) {
            Some((text, bytes)) => {
                out.extend_from_slice(text.as_bytes());
                at += bytes;
            }
            None => {
                out.push(rest[at]);
                at += 1;
            }
        }
    }
}

fn shown(user: &User) -> Shown<'_> {
    Shown {
        username: &user.name,
        uid: &user.uid,
        groups: &user.groups,
        extra: &user.extra,
    }
}

/// A time with as many decimal places as it needs.
fn nanos(time: Timestamp) -> String {
    let seconds = time.to_seconds();
    if time.nanos == 0 {
        return seconds;
    }
    let fraction = format!("{:09}", time.nanos);
    let whole = seconds.trim_end_matches('Z');
    format!("{whole}.{}Z", fraction.trim_end_matches('0'))
}
