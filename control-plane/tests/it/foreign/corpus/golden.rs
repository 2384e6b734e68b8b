//! The files: Kubernetes' responses to the requests of a kind, and ours where they differ.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::foreign::golden::{blocks, path, write_block};

/// The lines of responses, by the names of requests, in their order.
#[derive(Default)]
pub(super) struct Golden {
    pub(super) answers: Vec<(String, Vec<String>)>,
}

/// Where ours differ: a reason for each, by the kind and the request.
#[derive(Default)]
pub(super) struct Differences {
    pub(super) all: BTreeMap<(String, String), Difference>,
}

pub(super) struct Difference {
    pub(super) reason: String,
    pub(super) ours: Vec<String>,
}

/// The reason of a difference that nobody has looked at.
pub(super) const OPEN: &str = "not mended yet";
const REASON: &str = "## ";
const BETWEEN: &str = ": ";

const DIFFERENCES: &str = "corpus/differences.txt";

fn name_of(kind: &str) -> String {
    format!("corpus/golden/{kind}.txt")
}

impl Golden {
    pub(super) fn read(kind: &str) -> Golden {
        Golden {
            answers: blocks(&name_of(kind)),
        }
    }

    pub(super) fn write(&self, kind: &str) {
        let mut text = String::new();
        for (name, answer) in &self.answers {
            write_block(&mut text, name, answer);
        }
        std::fs::write(path(&name_of(kind)), text).unwrap();
    }
}

impl Differences {
    pub(super) fn read() -> Differences {
        let mut differences = Differences::default();
        let mut reason = OPEN.to_owned();
        for (name, ours) in blocks(DIFFERENCES) {
            if let Some(text) = name.strip_prefix(REASON) {
                reason = text.to_owned();
            } else if let Some((kind, request)) = name.split_once(BETWEEN) {
                let difference = Difference {
                    reason: reason.clone(),
                    ours,
                };
                let key = (kind.to_owned(), request.to_owned());
                differences.all.insert(key, difference);
            }
        }
        differences
    }

    pub(super) fn write(&self) {
        let mut by_reason: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (key, difference) in &self.all {
            let of_reason = by_reason.entry(&difference.reason).or_default();
            of_reason.push((key, &difference.ours));
        }
        let mut text = String::new();
        for (reason, differences) in by_reason {
            writeln!(text, "{REASON}{reason}\n").unwrap();
            for ((kind, request), ours) in differences {
                write_block(&mut text, &format!("{kind}{BETWEEN}{request}"), ours);
            }
            text.push('\n');
        }
        std::fs::write(path(DIFFERENCES), text).unwrap();
    }
}
