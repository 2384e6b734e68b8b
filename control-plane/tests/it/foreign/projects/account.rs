//! What happened to each object: short lines that are compared with a file, and the whole
//! responses, which a mismatch shows.

use std::fmt::Write;

use serde_json::Value;

/// Longer lines are cut and end with a digest.
const LINE_CHARS: usize = 160;
/// Lines of whole responses that a mismatch shows per section.
const SHOWN_LINES: usize = 400;

#[derive(Default)]
pub(super) struct Account {
    sections: Vec<Section>,
}

#[derive(Default)]
struct Section {
    title: String,
    lines: Vec<String>,
    whole: String,
}

impl Account {
    pub(super) fn begin(&mut self, title: String) {
        self.sections.push(Section {
            title,
            ..Section::default()
        });
    }

    fn section(&mut self) -> &mut Section {
        self.sections.last_mut().expect("a section has begun")
    }

    pub(super) fn line(&mut self, line: &str) {
        let line = line.replace('\n', "\\n");
        let section = self.section();
        section.whole.push_str(&format!("{line}\n"));
        let mut chars = line.char_indices();
        let line = match chars.nth(LINE_CHARS) {
            Some((cut, _)) => format!("{}... {}", &line[..cut], digest(&line)),
            None => line,
        };
        section.lines.push(line);
    }

    /// Only in the file of whole responses.
    pub(super) fn whole(&mut self, text: &str) {
        self.section().whole.push_str(text);
        self.section().whole.push('\n');
    }

    /// A digest of a value in the lines; the value itself is with the whole responses.
    pub(super) fn value(&mut self, label: &str, value: &Value) {
        self.line(&format!("{label}: {}", digest(&value.to_string())));
        self.whole(&format!("{value:#}"));
    }

    /// How a value differs from another.
    pub(super) fn changes(&mut self, label: &str, from: &Value, to: &Value) {
        let mut lines = Vec::new();
        compare("", from, to, &mut lines);
        let same = if lines.is_empty() { " same" } else { "" };
        self.line(&format!("{label}{same}"));
        for line in lines {
            self.line(&format!("  {line}"));
        }
    }

    /// The lines, as in the recorded file.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for Section { title, lines, .. } in &self.sections {
            let _ = writeln!(out, "=== {title}");
            lines.iter().for_each(|line| {
                let _ = writeln!(out, "{line}");
            });
        }
        out
    }

    /// The whole responses.
    pub(super) fn whole_text(&self) -> String {
        let sections = self.sections.iter();
        let texts = sections.map(|Section { title, whole, .. }| format!("=== {title}\n{whole}"));
        texts.collect()
    }

    /// The lines that are not in a recorded file (`+`), and those that are only there (`-`).
    pub(super) fn differences(&self, recorded: &str) -> String {
        let mut out = String::new();
        let mut rest: Vec<(&str, Vec<&str>)> = recorded_sections(recorded);
        for Section { title, lines, .. } in &self.sections {
            let at = rest.iter().position(|(other, _)| other == title);
            let wanted = at.map(|at| rest.remove(at).1).unwrap_or_default();
            if lines.iter().eq(&wanted) {
                continue;
            }
            let _ = writeln!(out, "=== {title}");
            let gone = |line: &&&str| !lines.iter().any(|is| is == **line);
            for line in wanted.iter().filter(gone) {
                let _ = writeln!(out, "- {line}");
            }
            for line in lines.iter().filter(|line| !wanted.contains(&line.as_str())) {
                let _ = writeln!(out, "+ {line}");
            }
        }
        for (title, _) in rest {
            let _ = writeln!(out, "=== {title}\n- the whole section");
        }
        out
    }

    /// The whole responses of the sections that a text names.
    pub(super) fn shown(&self, differences: &str) -> String {
        let named = |title: &str| {
            differences
                .lines()
                .any(|line| line == format!("=== {title}"))
        };
        let sections = self.sections.iter().filter(|one| named(&one.title));
        let lines = sections.flat_map(|one| one.whole.lines().take(SHOWN_LINES));
        lines.map(|line| format!("    {line}\n")).collect()
    }
}

fn recorded_sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let sections = text.split("=== ").filter(|section| !section.is_empty());
    sections
        .map(|section| {
            let mut lines = section.lines();
            (lines.next().unwrap_or_default(), lines.collect())
        })
        .collect()
}

/// FNV-1a: the digests are in a file, so they must stay the same with every release of Rust.
pub(super) fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{:08x}", hash >> 32 ^ hash & 0xffff_ffff)
}

/// One line for each field that was added (`+`), removed (`-`) or changed (`~`).
fn compare(path: &str, from: &Value, to: &Value, out: &mut Vec<String>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for (name, before) in from {
                match to.get(name) {
                    Some(after) => compare(&format!("{path}.{name}"), before, after, out),
                    None => out.push(format!("- {path}.{name}")),
                }
            }
            for (name, after) in to.iter().filter(|(name, _)| !from.contains_key(*name)) {
                out.push(format!("+ {path}.{name}: {after}"));
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (at, (before, after)) in from.iter().zip(to).enumerate() {
                compare(&format!("{path}[{at}]"), before, after, out);
            }
        }
        (from, to) if from != to => out.push(format!("~ {path}: {to}")),
        _ => {}
    }
}
