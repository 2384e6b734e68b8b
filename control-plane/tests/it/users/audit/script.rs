//! A script of requests and of the events about them.

use serde_json::Value;

use crate::requests::http::Call;

/// Keys whose values differ between runs.
const TIMES: [&str; 4] = [
    "creationTimestamp",
    "requestReceivedTimestamp",
    "stageTimestamp",
    "time",
];

/// A request line, headers, a body (`> `), Kubernetes' events (`= `) and ours if they differ
/// (`~ `).
#[derive(Default)]
pub(super) struct Block {
    pub(super) id: String,
    request: String,
    headers: Vec<(String, String)>,
    body: String,
    kubernetes: Vec<Value>,
    ours: Vec<Value>,
}

impl Block {
    /// Reads blocks with empty lines between them, the first of which is a comment.
    pub(super) fn read_all(text: &str) -> Vec<Block> {
        text.split("\n\n").skip(1).map(Block::read).collect()
    }

    fn read(text: &str) -> Block {
        let mut block = Block::default();
        let lines = text.lines();
        for line in lines.filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let event = |text: &str| serde_json::from_str(text).unwrap();
            match line.split_at(2) {
                ("> ", line) => block.body.push_str(line),
                ("= ", text) => block.kubernetes.push(event(text)),
                ("~ ", text) => block.ours.push(event(text)),
                _ if block.request.is_empty() => block.request = line.to_owned(),
                _ => {
                    let (name, value) = line.split_once(": ").unwrap();
                    if name == "Audit-Id" {
                        block.id = value.to_owned();
                    }
                    block.headers.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        block
    }

    pub(super) fn call(&self, address: &str) -> Call {
        let (method, path) = self.request.split_once(' ').unwrap();
        let mut call = Call::new(address, method, path);
        for (name, value) in &self.headers {
            if name != "Content-Type" {
                call = call.header(name, value);
            }
        }
        let media_type = self.headers.iter().find(|(name, _)| name == "Content-Type");
        match media_type {
            Some((_, media_type)) => call.body(media_type, self.body.clone()),
            None => call,
        }
    }

    /// The events that ours should be.
    pub(super) fn expected(&self) -> &[Value] {
        if self.ours.is_empty() {
            &self.kubernetes
        } else {
            &self.ours
        }
    }
}

/// An event without what differs between runs: times, revisions, uids, and random names.
pub(super) fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !TIMES.contains(&key.as_str()));
            let kept = kept.map(|(key, value)| match (key.as_str(), value.as_str()) {
                ("resourceVersion", Some(_)) => (key.clone(), "N".into()),
                _ => (key.clone(), normal(value)),
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::String(text) => without_uids(text).into(),
        other => other.clone(),
    }
}

fn without_uids(text: &str) -> String {
    const LENGTH: usize = 36;
    let is_uid = |part: &str| {
        let dashes = [8, 13, 18, 23];
        let mut letters = part.bytes().enumerate();
        letters.all(|(at, letter)| {
            if dashes.contains(&at) {
                letter == b'-'
            } else {
                letter.is_ascii_hexdigit()
            }
        })
    };
    let (mut out, mut rest) = (String::new(), text);
    while let Some(letter) = rest.chars().next() {
        match rest.get(..LENGTH).filter(|part| is_uid(part)) {
            Some(part) => {
                out.push_str("UID");
                rest = &rest[part.len()..];
            }
            None => {
                out.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    out
}
