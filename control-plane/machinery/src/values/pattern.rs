//! Patterns in Go's syntax. It is nearly that of the `regex` crate; what differs is rewritten.

use regex::Regex;

/// Go refuses to repeat a part more often, also by repetitions within each other: their product is the
/// size of what is compiled.
const REPEAT_MAX: u32 = 1000;

/// A pattern that texts match.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern; the error is for its author.
    pub(crate) fn compile(text: &str) -> Result<Pattern, String> {
        let regex = rewritten(text).and_then(|rewritten| {
            Regex::new(&rewritten).map_err(|error| {
                let error = error.to_string();
                let reason = error.lines().last().unwrap_or_default();
                match reason.trim_start_matches("error: ") {
                    "unclosed group" => "missing closing )".to_owned(),
                    reason => reason.to_owned(),
                }
            })
        });
        Ok(Pattern {
            text: text.to_owned(),
            regex: regex.map_err(|why| format!("error parsing regexp: {why}: `{text}`"))?,
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The parts of a text that match, from left to right.
    pub(crate) fn find_all<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> {
        self.regex.find_iter(text).map(|found| found.as_str())
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

    #[test]
    fn repetitions_within_each_other_multiply() {
        for good in [
            "a{1000}b{1000}",
            "(a{10}b){100}",
            "(a{1000})*",
            "[{]{2}",
            "a{,5}",
        ] {
            assert!(Pattern::compile(good).is_ok(), "{good}");
        }
        for (bad, count) in [
            ("a{1001}", "{1001}"),
            ("(a{11}){100}", "{100}"),
            ("((x|a{10}){10}y){11}", "{11}"),
            ("(?:(a{1000}){2})", "{2}"),
            ("((a{1000})){2,}", "{2,}"),
        ] {
            let why = Pattern::compile(bad).unwrap_err();
            let wanted = format!("error parsing regexp: invalid repeat count: `{count}`: `{bad}`");
            assert_eq!(why, wanted);
        }
    }
}
