//! A response as the lines of a golden file: an error in full, and an object by what differs from
//! one that is known.

use std::net::Ipv4Addr;

use machinery::object;
use machinery::protobuf;
use serde_json::Value;

use super::draw;
use crate::foreign::surface::normal::{is_refusal, normal, plain, refusal};
use crate::requests::http::Answer;

const JSON: &str = "application/json";
/// Addresses of services that nobody asked for are outside this range, and their ports above.
const CHOSEN_ADDRESSES: &str = "10.96.0.";
const SERVICE_ADDRESSES: &str = "10.96.";
const CHOSEN_PORT_LAST: i64 = 30_085;
/// The beginnings of generated names, and the length of what is generated.
const GENERATED: [&str; 2] = ["gen-", "kube-api-access-"];
const SUFFIX: usize = 5;
/// What is before the uid of a job among its labels.
const OWNER: &str = "controller-uid=";
/// What is before the version of an object in a conflict.
const VERSION: &str = "ResourceVersion in object meta: ";
/// Our warnings of what we keep without acting on it; Kubernetes acts.
const OWN_WARNING: &str = "299 - \"this server keeps ";
/// Times of the corpus are of another year than those that the apiserver writes.
const YEARS: [&str; 2] = ["2024-", "2030-"];
const SECONDS: usize = "2006-01-02T15:04:05".len();
/// The hash of a client's certificate.
const CERTIFICATE: &str = "X509SHA256=";
/// A response that Kubernetes breaks off.
const BROKEN: &str = "stream error: ";
/// What Go's decoder says of the fields of its structs.
const DECODER: &str = " into Go struct field ";
const PATCH: &str = "  patch FieldValueInvalid: Invalid value: ";
/// Stands for what is hidden.
const HIDDEN: &str = "...";

/// The object of a response, without what differs between runs.
pub(super) fn object_of(answer: &Answer) -> Option<Value> {
    let mut object = values(answer)?.into_iter().next()?;
    clean(&mut object);
    Some(object)
}

/// The lines of a response; its object is shown in full unless another is known.
pub(super) fn lines(answer: &Answer, known: Option<&Value>) -> Vec<String> {
    let mut lines = vec![answer.code.to_string()];
    for line in answer.head.lines() {
        let header = line.split_once(": ");
        match header.map(|(name, value)| (name.to_ascii_lowercase(), value)) {
            Some((name, value)) if name == "warning" && !value.starts_with(OWN_WARNING) => {
                lines.push(format!("Warning: {value}"));
            }
            Some((name, value)) if name == "content-type" && value != JSON => {
                lines[0].push_str(&format!(" {value}"));
            }
            _ => {}
        }
    }
    match values(answer) {
        Some(values) => values.into_iter().for_each(|mut value| {
            clean(&mut value);
            lines.extend(told(value, known));
        }),
        None => lines.extend(plain(&String::from_utf8_lossy(&answer.body))),
    }
    lines.iter().map(|line| readable(line)).collect()
}

/// A line without what is long, or random, or the text of a Go library.
fn readable(line: &str) -> String {
    let mut line = without_objects(line);
    for beginning in GENERATED {
        line = ungenerated(&line, beginning);
    }
    if line.starts_with(BROKEN) {
        return format!("{BROKEN}{HIDDEN}");
    }
    if line.trim_start().starts_with("clusterIP: 10.") || line.trim_start().starts_with("- 10.96.")
    {
        return HIDDEN.into();
    }
    for last in [DECODER, VERSION] {
        if let Some((before, _)) = line.split_once(last) {
            line = format!("{before}{last}{HIDDEN}");
        }
    }
    // A time in YAML.
    if let Some((key, value)) = line.split_once(": ")
        && is_now(value.trim_matches('"'))
    {
        line = format!("{key}: {HIDDEN}");
    }
    if let Some((_, why)) = line
        .strip_prefix(PATCH)
        .and_then(|rest| rest.rsplit_once("\": "))
    {
        line = format!("{PATCH}{HIDDEN}: {why}");
    }
    draw::short(&line)
}

/// The documents of a body in JSON or protobuf.
fn values(answer: &Answer) -> Option<Vec<Value>> {
    if answer.body.starts_with(&protobuf::MAGIC) {
        return protobuf::decode(&answer.body).ok().map(|value| vec![value]);
    }
    let values = serde_json::Deserializer::from_slice(&answer.body).into_iter();
    values.collect::<Result<Vec<Value>, _>>().ok()
}

fn clean(value: &mut Value) {
    unallocated("", value);
    normal(value);
}

/// Hides times of the run, and addresses and ports that the apiserver has chosen by chance.
fn unallocated(key: &str, value: &mut Value) {
    match value {
        Value::Object(map) => map
            .iter_mut()
            .for_each(|(key, value)| unallocated(key, value)),
        Value::String(text) if is_address_by_chance(text) => *text = HIDDEN.into(),
        Value::Array(cells) if key == "cells" => {
            for cell in cells {
                if passes(cell) {
                    *cell = "AGE".into();
                } else {
                    unallocated("cell", cell);
                }
            }
        }
        Value::String(text) if text.starts_with(CERTIFICATE) => *text = CERTIFICATE.into(),
        Value::String(text) if is_now(text) => *text = HIDDEN.into(),
        Value::String(text) if key == "cell" && text.contains(OWNER) => *text = OWNER.into(),
        Value::Number(port)
            if ["nodePort", "healthCheckNodePort"].contains(&key)
                && port.as_i64().is_some_and(|port| port > CHOSEN_PORT_LAST) =>
        {
            *value = HIDDEN.into();
        }
        Value::Array(list) => list.iter_mut().for_each(|value| unallocated(key, value)),
        _ => {}
    }
}

/// True for the address of a service that nobody asked for.
fn is_address_by_chance(text: &str) -> bool {
    text.starts_with(SERVICE_ADDRESSES)
        && !text.starts_with(CHOSEN_ADDRESSES)
        && text.parse::<Ipv4Addr>().is_ok()
}

/// True for a time that passes while the test runs.
fn passes(cell: &Value) -> bool {
    let text = cell.as_str().unwrap_or_default();
    if is_now(text) {
        return true;
    }
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    digits && text.ends_with(['s', 'm', 'h', 'd', 'y']) && !text.contains(['/', ' '])
}

fn is_now(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let time = text.len() > SECONDS && text.as_bytes()[10] == b'T' && digits >= 14;
    time && text.starts_with("20") && !YEARS.iter().any(|year| text.starts_with(year))
}

fn told(value: Value, known: Option<&Value>) -> Vec<String> {
    if is_refusal(&value) {
        let mut lines = refusal(&value);
        // Go walks its maps in random order, and some kinds check a field twice.
        let causes = lines
            .iter()
            .position(|line| line.starts_with("  ") && !line.starts_with("  {"));
        if let Some(begin) = causes {
            lines[begin..].sort();
            lines.dedup();
        }
        return lines;
    }
    let Some(known) = known else {
        return vec![value.to_string()];
    };
    if value["kind"] == known["kind"] && value["apiVersion"] == known["apiVersion"] {
        let mut lines = Vec::new();
        differences("", known, &value, &mut lines);
        return lines;
    }
    let mut value = value;
    fold(&mut value, known);
    vec![value.to_string()]
}

/// One line for each field that differs.
fn differences(path: &str, known: &Value, value: &Value, lines: &mut Vec<String>) {
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match (known, value) {
        (known, value) if known == value => {}
        (Value::Object(from), Value::Object(to)) => {
            for key in from.keys().filter(|key| !to.contains_key(*key)) {
                lines.push(format!("-{}", below(key)));
            }
            for (key, value) in to {
                match from.get(key) {
                    Some(known) => differences(&below(key), known, value, lines),
                    None => lines.push(format!("+{}={value}", below(key))),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (index, (known, value)) in from.iter().zip(to).enumerate() {
                differences(&format!("{path}[{index}]"), known, value, lines);
            }
        }
        _ => lines.push(format!("{path}={value}")),
    }
}

/// Replaces the known object, wherever it is in a list, a table or an event.
fn fold(value: &mut Value, known: &Value) {
    let untyped = |object: &Value| {
        let mut object = object.clone();
        let map = object::map_mut(&mut object);
        map.remove("kind");
        map.remove("apiVersion");
        object
    };
    match value {
        Value::Object(_) if value.get("metadata").is_some() && untyped(value) == untyped(known) => {
            *value = "BASE".into();
        }
        Value::Object(map) => {
            if map
                .get("metadata")
                .is_some_and(|metadata| *metadata == known["metadata"])
            {
                map.insert("metadata".into(), "BASE".into());
            }
            map.values_mut().for_each(|value| fold(value, known));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| fold(value, known)),
        _ => {}
    }
}

/// A line without the objects in it, which Go prints with the names of its own fields.
fn without_objects(line: &str) -> String {
    const BEGIN: &str = " value: ";
    let Some((before, rest)) = line.split_once(BEGIN) else {
        return line.to_owned();
    };
    if !(rest.starts_with('{') || rest.starts_with("[{")) {
        return line.to_owned();
    }
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let end = rest.find(|c: char| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let after = end.map_or("", |end| &rest[end + 1..]);
    format!("{before}{BEGIN}{{{HIDDEN}}}{after}")
}

/// A line without the suffixes of generated names.
fn ungenerated(line: &str, beginning: &str) -> String {
    let mut parts = line.split(beginning);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(beginning);
        let end = part.find(|c: char| !c.is_ascii_alphanumeric());
        match end.unwrap_or(part.len()) {
            SUFFIX => {
                text.push_str(HIDDEN);
                text.push_str(&part[SUFFIX..]);
            }
            _ => text.push_str(part),
        }
    }
    text
}
