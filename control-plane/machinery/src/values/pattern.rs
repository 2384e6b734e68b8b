//! Patterns in Go's syntax. It is nearly that of the `regex` crate; what differs is rewritten.

use regex::Regex;

/// Go refuses to repeat a part more often.
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
    while let Some(next) = rest.chars().next() {
        let after = &rest[next.len_utf8()..];
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
            '{' if !in_class => {
                let counts = repetition(after)?;
                out.push_str(if counts { "{" } else { "\\{" });
                after
            }
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

/// Whether `{` before this text begins a repetition.
fn repetition(after: &str) -> Result<bool, String> {
    let Some((inside, _)) = after.split_once('}') else {
        return Ok(false);
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_count = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if least.is_empty() || !is_count(least) || !is_count(most) {
        return Ok(false);
    }
    let is_allowed =
        |text: &str| text.is_empty() || text.parse::<u32>().is_ok_and(|count| count <= REPEAT_MAX);
    if is_allowed(least) && is_allowed(most) {
        Ok(true)
    } else {
        Err(format!("invalid repeat count: `{{{inside}}}`"))
    }
}
