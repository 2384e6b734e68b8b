//! What differs between two runs of one request, removed from its response.

use std::net::IpAddr;

use serde_json::Value;

pub(crate) fn is_refusal(value: &Value) -> bool {
    value["kind"] == "Status" && value["status"] == "Failure"
}

/// The lines of an error: reason and message, details, and its causes.
pub(crate) fn refusal(value: &Value) -> Vec<String> {
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

/// The lines of a response that is not JSON, without `managedFields`.
pub(crate) fn plain(text: &str) -> Vec<String> {
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
pub(crate) fn normal(value: &mut Value) {
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
        Value::Number(port) if ["nodePort", "healthCheckNodePort"].contains(&key) => {
            if port.as_u64().is_some_and(|port| port >= FIRST_NODE_PORT) {
                *value = "...".into();
            }
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

/// True for an allocated address. Scripts request addresses below `FIRST_DRAWN` in their range only:
/// Kubernetes draws none of those while there are others.
fn is_random(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(v4)) => {
            let [10, 96, third, fourth] = v4.octets() else {
                return false;
            };
            let offset = u16::from_be_bytes([third, fourth]);
            offset <= KUBERNETES_OWN || offset >= FIRST_DRAWN
        }
        Ok(IpAddr::V6(v6)) => {
            let segments = v6.segments();
            segments.starts_with(&[0xfd00, 0x10, 0x96]) && segments[7] >= FIRST_DRAWN
        }
        Err(_) => false,
    }
}

/// The offset in a range of the address of Kubernetes' own service.
const KUBERNETES_OWN: u16 = 1;
/// The offset in a range from which on addresses are drawn.
const FIRST_DRAWN: u16 = 0x100;
/// The node port from which on they are drawn.
const FIRST_NODE_PORT: u64 = 30_086;

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
