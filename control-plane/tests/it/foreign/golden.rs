//! Files with Kubernetes' answers, beside the tests: what was asked at the beginning of a line, and the
//! indented lines of the answer below it.
//!
//! A test asks our apiserver and compares. If the test's own variable is `go`, it asks Kubernetes'
//! instead; with `UPDATE=1` it then writes the file.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

pub(super) const INDENT: &str = "  ";

/// True if the variable of a test asks for Kubernetes' own apiserver.
pub(super) fn asks_go(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|asked| asked == "go")
}

/// True if files are to be written.
pub(super) fn updates() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// A file, named from this directory on.
pub(super) fn path(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/foreign");
    PathBuf::from(directory).join(name)
}

/// Compares answers with a file, or writes Kubernetes' into it.
pub(super) fn check(name: &str, variable: &str, answers: &str) {
    if asks_go(variable) && updates() {
        std::fs::write(path(name), answers).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(path(name)).unwrap();
    assert!(golden == answers, "{}", difference(&golden, answers));
}

/// What was asked, each with the lines of its answer. None if there is no file.
pub(super) fn blocks(name: &str) -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(path(name)).unwrap_or_default();
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix(INDENT), blocks.last_mut()) {
            (Some(answer), Some((_, answers))) => answers.push(answer.to_owned()),
            _ => blocks.push((line.to_owned(), Vec::new())),
        }
    }
    blocks
}

/// Appends what was asked and the lines of the answer.
pub(super) fn write_block(text: &mut String, asked: &str, answer: &[String]) {
    let _ = writeln!(text, "{asked}");
    for line in answer {
        let _ = writeln!(text, "{INDENT}{line}");
    }
}

/// A hash, in the place of texts that are Kubernetes' or not for people.
pub(super) fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

/// The lines that only one of the texts has, under the question that they answer; all of the lines
/// if only their order differs.
fn difference(golden: &str, answers: &str) -> String {
    let mut out = String::new();
    for (name, one, other) in [("missing", golden, answers), ("found", answers, golden)] {
        let known: HashSet<(&str, &str)> = with_questions(other).collect();
        for pair in with_questions(one).filter(|pair| !known.contains(pair)) {
            let (asked, line) = pair;
            let _ = writeln!(out, "{name} in {asked}: {line}");
        }
    }
    if out.is_empty() {
        let pairs = golden.lines().zip(answers.lines());
        for (line, is) in pairs.filter(|(line, is)| line != is) {
            let _ = writeln!(out, "{line}\n  is here\n{is}");
        }
    }
    out
}

/// Each line, and the question that it answers.
fn with_questions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut asked = "";
    text.lines().map(move |line| {
        if !line.starts_with(INDENT) {
            asked = line;
        }
        (asked, line)
    })
}

#[test]
fn a_difference_names_the_question() {
    let golden = "a\n  1\nb\n  2\n";
    let lines = |answers: &str| difference(golden, answers);
    assert_eq!(lines(golden), "");
    assert_eq!(
        lines("a\n  1\nb\n  3\n"),
        "missing in b:   2\nfound in b:   3\n"
    );
    assert_eq!(lines("b\n  2\na\n  1\n").matches("is here").count(), 4);
}
