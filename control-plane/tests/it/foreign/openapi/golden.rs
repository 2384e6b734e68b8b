//! A file of hashes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::foreign::golden;

use super::Answers;

pub(super) struct Golden {
    pub(super) name: &'static str,
    /// The hashes of Kubernetes' answer and of ours where it differs, by what was asked.
    rows: BTreeMap<String, (String, Option<String>)>,
}

impl Golden {
    pub(super) fn read(name: &'static str) -> Golden {
        // The first time there is none.
        let text = std::fs::read_to_string(path(name)).unwrap_or_default();
        let row = |line: &str| {
            let (hashes, asked) = line.split_once(' ').unwrap();
            let (theirs, ours) = match hashes.split_once('~') {
                Some((theirs, ours)) => (theirs, Some(ours.to_owned())),
                None => (hashes, None),
            };
            (asked.to_owned(), (theirs.to_owned(), ours))
        };
        Golden {
            name,
            rows: text.lines().map(row).collect(),
        }
    }

    /// What was asked when the file was written.
    pub(super) fn asked(&self) -> Vec<String> {
        self.rows.keys().cloned().collect()
    }

    /// Takes over these answers; returns where they differ from what was expected.
    pub(super) fn compare(&mut self, answers: &Answers, of_go: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut rows = BTreeMap::new();
        let asked: Vec<&String> = self.rows.keys().chain(answers.keys()).collect();
        for asked in asked {
            let hash = answers
                .get(asked)
                .map_or("none".to_owned(), |text| hash(text));
            let known = self.rows.get(asked);
            let theirs = known.map_or("none", |(theirs, _)| theirs.as_str());
            let expected = match known {
                Some((_, Some(ours))) if !of_go => ours.as_str(),
                _ => theirs,
            };
            if expected != hash {
                wrong.push(format!("{asked}: {expected} is expected, not {hash}"));
            }
            let row = if of_go {
                (hash, None)
            } else {
                (theirs.to_owned(), (theirs != hash).then_some(hash))
            };
            rows.insert(asked.clone(), row);
        }
        rows.retain(|_, (theirs, ours)| theirs != "none" || ours.is_some());
        self.rows = rows;
        wrong
    }

    pub(super) fn write(&self) {
        let line = |(asked, (theirs, ours)): (&String, &(String, Option<String>))| {
            let ours = ours.as_ref().map(|ours| format!("~{ours}"));
            format!("{theirs}{} {asked}\n", ours.unwrap_or_default())
        };
        let text: String = self.rows.iter().map(line).collect();
        std::fs::write(path(self.name), text).unwrap();
    }
}

fn path(name: &str) -> PathBuf {
    golden::path(&format!("openapi/{name}.txt"))
}

/// FNV-1a of 64 bits.
pub(super) fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
