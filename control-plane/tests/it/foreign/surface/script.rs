//! Scripts of requests and responses; parts of responses that differ between runs are removed.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::normal::{is_refusal, normal, plain, refusal};
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
/// contains its value. The method `STORE` puts a value into the store instead.
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

    /// A key and the value that is put into the store there, past the apiserver.
    pub(super) fn stored(&self) -> Option<(&str, &str)> {
        let key = self.request[0].strip_prefix("STORE ")?;
        Some((key, &self.request[1]))
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

/// An object on one line; for an error, its causes on further lines.
fn shown(mut value: Value) -> Vec<String> {
    normal(&mut value);
    if is_refusal(&value) {
        refusal(&value)
    } else {
        vec![value.to_string()]
    }
}
