//! Removes from objects what differs between runs: random names are replaced by words that describe
//! them, and identical objects are counted.

use std::collections::{BTreeMap, BTreeSet};

use machinery::time::Timestamp;
use serde_json::{Map, Value};

const HASH: &str = "pod-template-hash";
/// The length of the random suffix of a name.
const RANDOM: usize = 5;
/// The label with the day on which the token of a secret was last used.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The type of secrets with a token, which has a random key.
const ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
/// A volume that every pod gets, with a random name.
const ACCESS: &str = "kube-api-access-";

/// Remembers the names seen so far, because messages mention objects that are gone.
#[derive(Default)]
pub(super) struct Normal {
    /// Random names and their replacements.
    names: BTreeMap<String, String>,
    /// What the random names of pods begin with that may be gone before they are seen.
    bases: BTreeSet<String>,
}

impl Normal {
    /// All objects of one moment as sorted texts.
    pub(super) fn moment(&mut self, objects: &[Value]) -> BTreeSet<String> {
        // Replica sets first: the names of their pods begin with theirs.
        for object in objects.iter().filter(|one| one["kind"] == "ReplicaSet") {
            self.learn_replica_set(object);
        }
        for object in objects {
            self.learn(object);
        }
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut moment = BTreeSet::new();
        for object in objects {
            match text(&object["kind"]) {
                // The nodes are always ours, so their Events are not compared.
                "Event" if object["source"]["component"] == "kubelet" => {}
                "Event" => drop(moment.insert(self.event(object))),
                _ => *counts.entry(self.object(object)).or_default() += 1,
            }
        }
        let texts = counts
            .into_iter()
            .map(|((name, body), count)| format!("--- {count} x {name}\n{body}\n"));
        moment.extend(texts);
        moment
    }

    fn learn_replica_set(&mut self, set: &Value) {
        let image = text(&set["spec"]["template"]["spec"]["containers"][0]["image"]);
        let hash = text(&set["metadata"]["labels"][HASH]);
        if hash.is_empty() {
            return;
        }
        let name = text(&set["metadata"]["name"]);
        let base = name.trim_end_matches(hash);
        let stands = format!("{base}<{image}>");
        self.names.insert(name.to_owned(), stands);
        self.names.insert(hash.to_owned(), format!("<{image}>"));
    }

    fn learn(&mut self, object: &Value) {
        let about = &object["involvedObject"];
        if ["Job", "DaemonSet"].contains(&text(&about["kind"])) {
            self.bases.insert(format!("{}-", text(&about["name"])));
        }
        let metadata = &object["metadata"];
        let name = text(&metadata["name"]);
        match (text(&object["kind"]), text(&metadata["generateName"])) {
            ("Event", _) | (_, "") => {}
            (_, base) => {
                let stands = format!("{}<random>", self.named(base));
                self.names.insert(name.to_owned(), stands);
            }
        }
        if object["kind"] == "Node" {
            self.names.insert(name.to_owned(), "<node>".into());
        }
    }

    /// The name and the text of an object.
    fn object(&self, object: &Value) -> (String, String) {
        let mut object = object.clone();
        let kind = text(&object["kind"]).to_owned();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for random in ["uid", "managedFields"] {
                metadata.remove(random);
            }
        }
        if kind == "Secret" && object["type"] == ACCOUNT_TOKEN {
            object["data"]["token"] = "<token>".into();
            object["data"]["ca.crt"] = "<certificate>".into();
        }
        if ["Endpoints", "EndpointSlice"].contains(&kind.as_str())
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            // The number of changes combined in one write depends on timing, and whether it says when
            // the first of them came.
            metadata.remove("generation");
            metadata.remove("annotations");
        }
        if kind == "Node" {
            // The status of a node is not compared; heartbeats change it.
            object["status"] = Value::Null;
        }
        let object = self.value("", object);
        let name = format!("{kind}/{}", text(&object["metadata"]["name"]));
        (name, serde_json::to_string_pretty(&object).unwrap())
    }

    fn event(&self, event: &Value) -> String {
        let about = &event["involvedObject"];
        let mut by = text(&event["source"]["component"]);
        if by.is_empty() {
            by = text(&event["reportingComponent"]);
        }
        // Whether similar Events are combined depends on timing, and so do their steps.
        let message = text(&event["message"]);
        let message = message.trim_start_matches("(combined from similar events): ");
        let message = match text(&event["reason"]) {
            "ScalingReplicaSet" => message.split(" from ").next().unwrap_or_default(),
            _ => message,
        };
        let line = format!(
            "--- event {} {} of {} {} {} by {by}: {}\n",
            text(&event["type"]),
            text(&event["reason"]),
            text(&about["apiVersion"]),
            text(&about["kind"]),
            text(&about["name"]),
            message,
        );
        self.named(&line)
    }

    fn value(&self, key: &str, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.string(key, &text)),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.value(key, item));
                let mut items: Vec<Value> = items.collect();
                // The order of these lists has no meaning.
                if ["conditions", "endpoints"].contains(&key) {
                    items.sort_by_cached_key(Value::to_string);
                }
                Value::Array(items)
            }
            Value::Object(fields) => {
                // Go writes some unset times as null, which means unset.
                let fields = fields
                    .into_iter()
                    .filter(|(key, field)| key != "resourceVersion" && !field.is_null());
                let fields = fields.map(|(key, field)| {
                    let field = self.value(&key, field);
                    (key, field)
                });
                Value::Object(fields.collect::<Map<_, _>>())
            }
            other => other,
        }
    }

    fn string(&self, key: &str, text: &str) -> String {
        if Timestamp::parse(text).is_some() {
            return "<time>".into();
        }
        if text.parse::<std::net::IpAddr>().is_ok() || ["podCIDR", "podCIDRs"].contains(&key) {
            return "<address>".into();
        }
        if text.starts_with("-----BEGIN") || key == "certificate" {
            return "<certificate>".into();
        }
        // Of a request for a certificate, and of the use of a token.
        if key == "request" || key == LAST_USED {
            return format!("<{key}>");
        }
        // Of a certificate, in the name of a credential.
        if text.starts_with("X509SHA256=") {
            return "<credential>".into();
        }
        if key == "uid" || key == "containerID" {
            return format!("<{key}>");
        }
        if text
            .strip_prefix(ACCESS)
            .is_some_and(|end| end.len() == RANDOM)
        {
            return format!("{ACCESS}<random>");
        }
        self.named(text)
    }

    /// Replaces all random names in a text, the longest first, and the random suffixes of names
    /// that begin with one of them.
    fn named(&self, text: &str) -> String {
        let text = without_uids(text);
        let mut names: Vec<(&String, &String)> = self.names.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut text = text;
        for (name, stands) in names {
            text = text.replace(name, stands);
        }
        for base in &self.bases {
            text = without_random(&text, base);
        }
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find(">-") {
            let (before, after) = rest.split_at(at + 2);
            out += before;
            let end = after.find(|c: char| !c.is_ascii_alphanumeric());
            let end = end.unwrap_or(after.len());
            let is_random = end == RANDOM;
            if is_random {
                out += "<random>";
            }
            rest = &after[if is_random { end } else { 0 }..];
        }
        out + rest
    }
}

/// Replaces the random ends of the names that begin with a text.
fn without_random(text: &str, base: &str) -> String {
    let mut parts = text.split(base);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric());
        let end = end.unwrap_or(part.len());
        out += base;
        out += if end == RANDOM {
            "<random>"
        } else {
            &part[..end]
        };
        out += &part[end..];
    }
    out
}

/// Replaces what looks like a uid: hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn without_uids(text: &str) -> String {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_uid = |part: &str| {
        let groups: Vec<&str> = part.split('-').collect();
        let is_hex = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
        groups.iter().map(|group| group.len()).eq(GROUPS) && groups.iter().all(is_hex)
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (part, replaced) = match rest.get(..36) {
            Some(part) if is_uid(part) => (part, "<uid>"),
            _ => {
                let part = &rest[..next.len_utf8()];
                (part, part)
            }
        };
        out += replaced;
        rest = &rest[part.len()..];
    }
    out
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
