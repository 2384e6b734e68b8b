//! Go's words for what is wrong with a YAML document: clients and people know them.

#[cfg(test)]
mod tests;

/// The part of Go's parser that finds an error. It decides which line the error names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finder {
    /// Names no line.
    Reader,
    /// Names the line.
    Scanner,
    /// Names the line before, which it counts from 0.
    Parser,
}

const CONTENT: &str = "did not find expected node content";
const KEY: &str = "did not find expected key";
const TOKEN: &str = "found character that cannot start any token";
/// Errors of the parser here, as they begin, then Go's words and who finds it there.
const WORDS: [(&str, &str, Finder); 22] = [
    (
        "mapping values are not allowed in this context",
        "",
        Finder::Scanner,
    ),
    (
        "did not find expected alphabetic or numeric character",
        "",
        Finder::Scanner,
    ),
    (
        "could not find expected directive name",
        "",
        Finder::Scanner,
    ),
    ("found unknown escape character", "", Finder::Scanner),
    (
        "did not find expected comment or line break",
        "",
        Finder::Scanner,
    ),
    ("did not find the expected '>'", "", Finder::Scanner),
    ("tabs disallowed", TOKEN, Finder::Scanner),
    (
        "unexpected character: `\\u",
        "control characters are not allowed",
        Finder::Reader,
    ),
    ("unexpected character", TOKEN, Finder::Scanner),
    (
        "unclosed quote",
        "found unexpected end of stream",
        Finder::Scanner,
    ),
    (KEY, "", Finder::Parser),
    ("did not find expected '-' indicator", "", Finder::Parser),
    ("did not find expected ',' or '}'", "", Finder::Parser),
    ("did not find expected ',' or ']'", "", Finder::Parser),
    (
        "unclosed bracket '['",
        "did not find expected ',' or ']'",
        Finder::Parser,
    ),
    (
        "unclosed bracket '{'",
        "did not find expected ',' or '}'",
        Finder::Parser,
    ),
    (
        "illegal placement of ':' indicator",
        "did not find expected ',' or ']'",
        Finder::Parser,
    ),
    ("misplaced bracket", CONTENT, Finder::Parser),
    (
        "unexpected EOF while parsing an implicit flow mapping",
        CONTENT,
        Finder::Parser,
    ),
    ("invalid trailing content", KEY, Finder::Parser),
    (
        "budget breached: ScalarBytes",
        "document contains excessive aliasing",
        Finder::Reader,
    ),
    // A mapping whose first key is missing.
    ("cannot deserialize null into string", KEY, Finder::Parser),
];

/// What Go says about a document that is refused here with this error.
pub(super) fn in_go(document: &str, error: &str) -> String {
    let (said, line) = match error.rsplit_once(" at line ") {
        Some((said, place)) => {
            let line = place.split(',').next().unwrap_or_default();
            (said, line.parse().unwrap_or(1))
        }
        None => (error, 1),
    };
    // Go leaves out what it was doing.
    let said = match said.split_once(", ") {
        Some((doing, what)) if doing.starts_with("while ") => what,
        _ => said,
    };
    let found = WORDS.iter().find(|(begin, ..)| said.starts_with(begin));
    let Some((begin, words, finder)) = found else {
        return said.to_owned();
    };
    let mut words = if words.is_empty() { *begin } else { *words };
    // Go names the end of what is left open, and the parser here its beginning.
    let breaks = document.matches('\n').count();
    let line = match *begin {
        "unclosed quote" => breaks + 1,
        _ if begin.starts_with("unclosed bracket") => {
            if document.trim_end().ends_with(['[', '{', ',']) {
                words = CONTENT;
            }
            // A last line without an end counts as one with it.
            breaks + 1 + usize::from(!document.ends_with('\n'))
        }
        _ => line,
    };
    let named = match finder {
        Finder::Reader => 0,
        Finder::Scanner if line == 1 => 0,
        Finder::Scanner => line,
        Finder::Parser => line.saturating_sub(1),
    };
    match named {
        0 => words.to_owned(),
        line => format!("line {line}: {words}"),
    }
}
