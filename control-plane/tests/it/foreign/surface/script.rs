//! Scripts of requests and responses; parts of responses that differ between runs are removed.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::cluster::WITHIN;
use crate::requests::http::{Answer, Call};

const UNTIL: &str = "Until: ";
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(20);

/// A file: blocks of a request and its responses, separated by empty lines.
pub(super) struct Script {
    pub(super) blocks: Vec<Block>,
}

/// Comments, a request line, headers, a body, and the responses. Lines of a body that is not JSON
/// begin with `|`. The header `Until` is not sent: the request is repeated until a line of the response
/// contains its value.
#[derive(Default)]
pub(super) struct Block {
    comments: Vec<String>,
    request: Vec<String>,
    pub(super) kubernetes: Vec<String>,
    pub(super) ours: Vec<String>,
}

impl Script {
    pub(super) fn read(text: &str) -> Script {
        let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
        Script {
            blocks: blocks.map(Block::read).collect(),
        }
    }
}

impl Block {
    fn read(text: &str) -> Block {
        let mut block = Block::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.split_at_checked(2) {
                Some(("= ", answer)) => block.kubernetes.push(answer.to_owned()),
                Some(("~ ", answer)) => block.ours.push(answer.to_owned()),
                _ if line.starts_with('#') => block.comments.push(line.to_owned()),
                _ => block.request.push(line.to_owned()),
            }
        }
        block
    }

    /// The response that ours should be.
    pub(super) fn expected(&self) -> &[String] {
        if self.ours.is_empty() {
            &self.kubernetes
        } else {
            &self.ours
        }
    }

    /// Sends the request; returns the lines of the response.
    pub(super) fn send(&self, address: &str) -> Vec<String> {
        let mut until = self.request.iter();
        let Some(until) = until.find_map(|line| line.strip_prefix(UNTIL)) else {
            return self.send_once(address);
        };
        let begin = Instant::now();
        loop {
            let answer = self.send_once(address);
            if answer.iter().any(|line| line.contains(until)) {
                return answer;
            }
            assert!(
                begin.elapsed() < WITHIN,
                "{self}without {until}: {answer:#?}"
            );
            thread::sleep(PAUSE);
        }
    }

    fn send_once(&self, address: &str) -> Vec<String> {
        let (method, path) = self.request[0].split_once(' ').unwrap();
        let mut call = Call::new(address, method, path);
        let mut media_type = "application/json";
        let mut body = String::new();
        let lines = self.request[1..].iter();
        for line in lines.filter(|line| !line.starts_with(UNTIL)) {
            let header = line.split_once(": ");
            match header.filter(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '-')) {
                Some(("Content-Type", value)) => media_type = value,
                Some((name, value)) => call = call.header(name, value),
                None => {
                    let (text, end) = match line.strip_prefix('|') {
                        Some(text) => (text, "\n"),
                        None => (line.as_str(), ""),
                    };
                    body.push_str(text);
                    body.push_str(end);
                }
            }
        }
        if !body.is_empty() {
            call = call.body(media_type, body);
        }
        told(&call.send())
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, block) in self.blocks.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            block.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.comments.iter().chain(&self.request) {
            writeln!(f, "{line}")?;
        }
        for line in &self.kubernetes {
            writeln!(f, "= {line}")?;
        }
        for line in &self.ours {
            writeln!(f, "~ {line}")?;
        }
        Ok(())
    }
}

/// A response as lines: the code, warnings, and the body.
fn told(answer: &Answer) -> Vec<String> {
    let mut lines = vec![answer.code.to_string()];
    for line in answer.head.lines() {
        let header = line.split_once(": ");
        match header.map(|(name, value)| (name.to_ascii_lowercase(), value)) {
            Some((name, value)) if name == "warning" => lines.push(format!("Warning: {value}")),
            Some((name, value)) if name == "content-type" && value != "application/json" => {
                lines[0].push_str(&format!(" {value}"));
            }
            _ => {}
        }
    }
    let text = String::from_utf8_lossy(&answer.body);
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&text)
        .into_iter()
        .collect();
    match values {
        Ok(values) => lines.extend(values.into_iter().flat_map(shown)),
        Err(_) => lines.extend(plain(&text)),
    }
    lines
}

/// The lines of a response that is not JSON, without `managedFields`.
fn plain(text: &str) -> Vec<String> {
    let margin = |line: &str| line.len() - line.trim_start().len();
    let mut managed = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let of_managed = managed.is_some_and(|at| {
            margin(line) > at || margin(line) == at && line.trim_start().starts_with("- ")
        });
        if !of_managed {
            let begins = line.trim_start().starts_with("managedFields:");
            managed = begins.then(|| margin(line));
        }
        if managed.is_none() {
            lines.push(without_identity(line));
        }
    }
    lines
}

fn without_identity(line: &str) -> String {
    for key in ["resourceVersion", "uid", "creationTimestamp"] {
        if let Some((before, _)) = line.split_once(&format!("{key}: ")) {
            return format!("{before}{key}: ...");
        }
    }
    line.to_owned()
}

/// An object on one line; for an error, its causes on further lines.
fn shown(mut value: Value) -> Vec<String> {
    normal(&mut value);
    if value["kind"] != "Status" || value["status"] != "Failure" {
        return vec![value.to_string()];
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut message = text(&value["message"]);
    let mut details = value.get("details").cloned().unwrap_or_default();
    let causes = details.as_object_mut().and_then(|all| all.remove("causes"));
    if causes.is_some() && message.contains(" is invalid: ") {
        // The causes repeat the rest.
        message.truncate(message.find(" is invalid: ").unwrap() + " is invalid".len());
    }
    let reason = text(&value["reason"]);
    let mut lines = vec![format!("{reason}: {}", message.replace('\n', "\\n"))];
    if details.is_object() {
        lines.push(format!("  {details}"));
    }
    for cause in causes.iter().filter_map(Value::as_array).flatten() {
        let (reason, field) = (text(&cause["reason"]), text(&cause["field"]));
        let message = text(&cause["message"]).replace('\n', "\\n");
        lines.push(format!("  {field} {reason}: {message}"));
    }
    sort_maps(&mut lines);
    lines
}

/// Sorts lines with resources: Go iterates over its maps in random order.
fn sort_maps(lines: &mut [String]) {
    let map = |line: &str| {
        let parts = ["resources.limits", "resources.requests"].into_iter();
        let mut ends = parts.filter_map(|part| Some(line.find(part)? + part.len()));
        ends.next().map(|end| line[..end].to_owned())
    };
    for run in lines.chunk_by_mut(|a, b| map(a).is_some() && map(a) == map(b)) {
        run.sort();
    }
}

/// Removes what differs between runs, and what we do not copy: descriptions of columns,
/// `managedFields`, the kind of each item of a list.
fn normal(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let list = map.get("kind").and_then(Value::as_str);
            if list.is_some_and(|kind| kind.ends_with("List")) {
                for item in map
                    .get_mut("items")
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .flatten()
                {
                    let item = item.as_object_mut().unwrap();
                    item.remove("kind");
                    item.remove("apiVersion");
                }
            }
            map.remove("managedFields");
            map.remove("description");
            map.retain(|key, value| !value.is_null() || key == "columnDefinitions");
            map.iter_mut().for_each(|(key, value)| field(key, value));
        }
        Value::Array(list) => list.iter_mut().for_each(normal),
        Value::String(text) => *text = words(text),
        _ => {}
    }
}

fn field(key: &str, value: &mut Value) {
    const HIDDEN: [&str; 7] = [
        "resourceVersion",
        "uid",
        "continue",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "serverAddress",
    ];
    let hidden = HIDDEN.contains(&key);
    match value {
        Value::String(text) if ["clusterIP", "clusterIPs"].contains(&key) && is_random(text) => {
            *text = "...".into();
        }
        Value::Array(addresses) if key == "clusterIPs" => {
            addresses.iter_mut().for_each(|one| field("clusterIP", one));
        }
        Value::String(text) if hidden && (key != "uid" || text.len() == UID_BYTES) => {
            *text = "...".into();
        }
        Value::Array(cells) if key == "cells" => {
            for cell in cells.iter_mut().filter(|cell| is_age(cell)) {
                *cell = "AGE".into();
            }
        }
        value => normal(value),
    }
}

const UID_BYTES: usize = 36;

/// True for an allocated address; the addresses that scripts request are in one small range.
fn is_random(address: &str) -> bool {
    address.starts_with("10.96.") && !address.starts_with("10.96.7.")
}

/// Replaces uids in a text.
fn without_uids(text: &str) -> String {
    let is_uid = |word: &str| {
        word.len() == UID_BYTES
            && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
            && word.matches('-').count() == 4
    };
    let words = text.split_inclusive(|c: char| !c.is_ascii_hexdigit() && c != '-');
    words
        .map(|word| {
            let end = |c: char| !c.is_ascii_hexdigit() && c != '-';
            let bare = word.trim_end_matches(end);
            if is_uid(bare) {
                word.replace(bare, "UID")
            } else {
                word.to_owned()
            }
        })
        .collect()
}

fn is_age(cell: &Value) -> bool {
    let text = cell.as_str().unwrap_or_default();
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    digits && text.ends_with(['s', 'm', 'h']) && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// A text without numbers and names of one run, without the whole object that Go prints for a
/// patch, and without the diff that it prints for a pod.
fn words(text: &str) -> String {
    let text = text.split("\n@@").next().unwrap_or_default();
    let mut text = without_uids(text);
    for (begin, end) in [
        ("Invalid value: \"{\\\"", "\": "),
        ("Invalid value: \"map[", "\": "),
        ("current: ", " "),
        ("UID in record (", ")"),
        ("UID in object meta: ", " "),
        ("ResourceVersion in record (", ")"),
    ] {
        let Some(at) = text.find(begin).map(|at| at + begin.len()) else {
            continue;
        };
        let to = text[at..].find(end).map_or(text.len(), |to| at + to);
        text.replace_range(at..to, "...");
    }
    text
}
