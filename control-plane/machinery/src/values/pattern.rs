//! Patterns in Go's syntax. It is nearly that of the `regex` crate; what differs is rewritten.

use std::collections::HashMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

/// Go refuses to repeat a part more often, also by repetitions within each other: their product is the
/// size of what is compiled.
const REPEAT_MAX: u32 = 1000;

/// Upper bound of a compiled pattern, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 10 << 20;
/// The bytes that a pattern is tried to be compiled into at first.
const PATTERN_BYTES_MIN: usize = 4 << 10;
/// About the bytes that a character of a pattern takes at least.
const CHARACTER_BYTES: usize = 16;

/// A pattern that texts match. Clones share what was compiled.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    text: String,
    regex: Regex,
    /// Upper bound of what was compiled.
    bytes: usize,
}

/// The patterns of one author. Each is compiled once, and what all of them take is bounded.
#[derive(Debug)]
pub(crate) struct Patterns {
    known: HashMap<String, Pattern>,
    /// The bytes that others may still take.
    left: usize,
}

/// Why a pattern is not compiled.
enum Wrong {
    Syntax(String),
    TooLarge,
}

impl Patterns {
    /// No patterns yet, and room for patterns that take this many bytes together.
    pub(crate) fn within(bytes: usize) -> Patterns {
        Patterns {
            known: HashMap::new(),
            left: bytes,
        }
    }

    /// Compiles a pattern, unless it is known; the error is for its author. One that is too large
    /// takes what it could not do with.
    pub(crate) fn compile(&mut self, text: &str) -> Result<Pattern, String> {
        if let Some(known) = self.get(text) {
            return Ok(known.clone());
        }
        let most = self.left.min(PATTERN_BYTES_MAX);
        let why = match Pattern::compile(text, most) {
            Ok(pattern) => {
                self.left -= pattern.0.bytes;
                self.known.insert(text.to_owned(), pattern.clone());
                return Ok(pattern);
            }
            Err(Wrong::Syntax(why)) => why,
            Err(Wrong::TooLarge) => {
                self.left -= most;
                "expression too large".to_owned()
            }
        };
        Err(format!("error parsing regexp: {why}: `{text}`"))
    }

    /// The compiled pattern with this text.
    pub(crate) fn get(&self, text: &str) -> Option<&Pattern> {
        self.known.get(text)
    }

    /// The bytes that more patterns may take.
    pub(crate) fn left(&self) -> usize {
        self.left
    }
}

impl Pattern {
    /// Compiles a pattern into as few bytes as needed, up to `most`. `regex` has a limit for that,
    /// but does not tell the size: it is found out by doubling the limit.
    fn compile(text: &str, most: usize) -> Result<Pattern, Wrong> {
        let rewritten = rewritten(text).map_err(Wrong::Syntax)?;
        let mut bytes = PATTERN_BYTES_MIN.max(text.len().saturating_mul(CHARACTER_BYTES));
        loop {
            bytes = bytes.min(most);
            match RegexBuilder::new(&rewritten).size_limit(bytes).build() {
                Ok(regex) => {
                    let text = text.to_owned();
                    return Ok(Pattern(Arc::new(Compiled { text, regex, bytes })));
                }
                Err(regex::Error::CompiledTooBig(_)) if bytes < most => bytes *= 2,
                Err(regex::Error::CompiledTooBig(_)) => return Err(Wrong::TooLarge),
                Err(error) => return Err(Wrong::Syntax(in_go(&error.to_string()))),
            }
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.regex.is_match(text)
    }

    /// The parts of a text that match, from left to right.
    pub(crate) fn find_all<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.regex.find_iter(text).map(|found| found.as_str())
    }
}

/// What Go says of a pattern that `regex` refuses with this error.
fn in_go(error: &str) -> String {
    let reason = error.lines().last().unwrap_or_default();
    match reason.trim_start_matches("error: ") {
        "unclosed group" => "missing closing )".to_owned(),
        reason => reason.to_owned(),
    }
}

/// The pattern in the syntax of `regex`: Go's classes such as `\d` are ASCII, `{` that begins no
/// repetition stands for itself, and so do `[`, `&`, `~` and `-` in a class, which has no operators.
fn rewritten(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut in_class = false;
    let mut repeats = Repeats::default();
    while let Some(next) = rest.chars().next() {
        let after = &rest[next.len_utf8()..];
        if !in_class && next != '{' {
            repeats.see(next);
        }
        rest = match next {
            '\\' => rewrite_escape(after, in_class, &mut out)?,
            '[' if !in_class => {
                in_class = true;
                open_class(after, &mut out)
            }
            '[' => match named_class(rest) {
                Some(class) => {
                    out.push_str(class);
                    &rest[class.len()..]
                }
                None => {
                    out.push_str("\\[");
                    after
                }
            },
            ']' => {
                in_class = false;
                out.push(']');
                after
            }
            '&' | '~' if in_class => {
                out.extend(['\\', next]);
                after
            }
            '-' if in_class && after.starts_with('-') => {
                out.push_str("\\-");
                after
            }
            '{' if !in_class => match repetition(after)? {
                Some((count, inside)) if repeats.repeat(count) => {
                    out.extend(["{", inside, "}"]);
                    &after[inside.len() + 1..]
                }
                Some((_, inside)) => return Err(too_often(inside)),
                None => {
                    repeats.see('{');
                    out.push_str("\\{");
                    after
                }
            },
            next => {
                out.push(next);
                after
            }
        };
    }
    Ok(out)
}

/// Writes the beginning of a class: a `]` that comes first stands for itself.
fn open_class<'a>(after: &'a str, out: &mut String) -> &'a str {
    out.push('[');
    let mut rest = after;
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    match rest.strip_prefix(']') {
        Some(rest) => {
            out.push_str("\\]");
            rest
        }
        None => rest,
    }
}

/// A class such as `[:alpha:]` at the beginning of the text.
fn named_class(text: &str) -> Option<&str> {
    let name = text.strip_prefix("[:")?;
    let end = name.find(":]")?;
    let name = &name[..end];
    let is_name = name
        .trim_start_matches('^')
        .chars()
        .all(|c| c.is_ascii_alphabetic());
    is_name.then(|| &text[..end + "[::]".len()])
}

/// Writes what follows a backslash and returns what is left.
fn rewrite_escape<'a>(after: &'a str, in_class: bool, out: &mut String) -> Result<&'a str, String> {
    let Some(escaped) = after.chars().next() else {
        return Err("trailing backslash at end of expression".into());
    };
    let rest = &after[escaped.len_utf8()..];
    let class = match escaped {
        'd' | 'D' => Some("0-9"),
        's' | 'S' => Some("\\t\\n\\x0C\\r "),
        'w' | 'W' => Some("0-9A-Za-z_"),
        _ => None,
    };
    match (escaped, class) {
        (_, Some(class)) if escaped.is_uppercase() => out.push_str(&format!("[^{class}]")),
        (_, Some(class)) if in_class => out.push_str(class),
        (_, Some(class)) => out.push_str(&format!("[{class}]")),
        ('b' | 'B', _) if !in_class => out.push_str(&format!("(?-u:\\{escaped})")),
        ('Q', _) if !in_class => {
            let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(quoted));
            return Ok(rest);
        }
        // Elsewhere these are assertions and characters that Go does not know.
        ('<' | '>', _) => out.push(escaped),
        ('u' | 'U' | 'b' | 'B', _) => {
            return Err(format!("invalid escape sequence: `\\{escaped}`"));
        }
        _ => out.extend(['\\', escaped]),
    }
    Ok(rest)
}

/// How often parts are repeated, by repetitions within each other.
struct Repeats {
    /// The last part.
    last: u32,
    /// The parts of each open group that are repeated most, the innermost group last.
    groups: Vec<u32>,
}

impl Default for Repeats {
    fn default() -> Repeats {
        Repeats {
            last: 1,
            groups: vec![1],
        }
    }
}

impl Repeats {
    fn see(&mut self, next: char) {
        match next {
            '(' => self.groups.push(1),
            ')' => {
                self.last = self.groups.pop().unwrap_or(1);
                self.note();
            }
            // They belong to the part before them.
            '*' | '+' | '?' => {}
            _ => self.last = 1,
        }
    }

    /// Repeats the last part; false if that is too often.
    fn repeat(&mut self, count: u32) -> bool {
        self.last = self.last.saturating_mul(count.max(1));
        self.note();
        self.last <= REPEAT_MAX
    }

    fn note(&mut self) {
        match self.groups.last_mut() {
            Some(most) => *most = self.last.max(*most),
            None => self.groups.push(self.last),
        }
    }
}

/// The most that a repetition repeats, and its text, if `{` before this text begins one.
fn repetition(after: &str) -> Result<Option<(u32, &str)>, String> {
    let Some((inside, _)) = after.split_once('}') else {
        return Ok(None);
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_count = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if least.is_empty() || !is_count(least) || !is_count(most) {
        return Ok(None);
    }
    let count = |text: &str| {
        let count = text.parse().ok();
        count.filter(|count| *count <= REPEAT_MAX)
    };
    let found = match most {
        "" => count(least),
        most => count(least).and(count(most)),
    };
    match found {
        Some(found) => Ok(Some((found, inside))),
        None => Err(too_often(inside)),
    }
}

fn too_often(inside: &str) -> String {
    format!("invalid repeat count: `{{{inside}}}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(text: &str) -> Result<Pattern, String> {
        Patterns::within(PATTERN_BYTES_MAX).compile(text)
    }

    #[test]
    fn repetitions_within_each_other_multiply() {
        for good in [
            "a{1000}b{1000}",
            "(a{10}b){100}",
            "(a{1000})*",
            "[{]{2}",
            "a{,5}",
        ] {
            assert!(compile(good).is_ok(), "{good}");
        }
        for (bad, count) in [
            ("a{1001}", "{1001}"),
            ("(a{11}){100}", "{100}"),
            ("((x|a{10}){10}y){11}", "{11}"),
            ("(?:(a{1000}){2})", "{2}"),
            ("((a{1000})){2,}", "{2,}"),
        ] {
            let why = compile(bad).unwrap_err();
            let wanted = format!("error parsing regexp: invalid repeat count: `{count}`: `{bad}`");
            assert_eq!(why, wanted);
        }
    }

    #[test]
    fn patterns_take_no_more_together_than_a_bound() {
        let mut patterns = Patterns::within(1 << 20);
        let many = |at: usize| format!("{at}[a-z]{{500}}");
        let compiled = (0..1000).map_while(|at| patterns.compile(&many(at)).ok());
        let compiled: Vec<Pattern> = compiled.collect();
        assert!((10..1000).contains(&compiled.len()), "{}", compiled.len());
        let bytes: usize = compiled.iter().map(|pattern| pattern.0.bytes).sum();
        assert!(bytes <= 1 << 20, "{bytes}");
        let why = patterns.compile("\\pL{1000}").unwrap_err();
        let wanted = "error parsing regexp: expression too large: `\\pL{1000}`";
        assert_eq!(why, wanted);
        // One that is known takes nothing.
        assert!(patterns.compile(&many(0)).is_ok());
        assert_eq!(patterns.left(), 0);
    }
}
