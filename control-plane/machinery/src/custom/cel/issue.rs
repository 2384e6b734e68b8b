//! What is wrong with an expression, and where.

/// The most issues that are told.
const TOLD_MAX: usize = 100;
/// The longest line that is shown, in characters.
const SHOWN_MAX: usize = 16_384;

/// Something wrong at a place of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    /// Where it is, in characters; `None` for the expression as a whole.
    pub(super) at: Option<usize>,
    pub(super) message: String,
}

impl Issue {
    pub(super) fn at(at: usize, message: impl Into<String>) -> Issue {
        Issue {
            at: Some(at),
            message: message.into(),
        }
    }
}

/// The issues as one text: each with its line and column, and the line itself.
pub(super) fn tell(source: &str, issues: &[Issue]) -> String {
    let mut issues: Vec<&Issue> = issues.iter().collect();
    issues.sort_by_key(|issue| issue.at);
    let mut told: Vec<String> = issues
        .iter()
        .take(TOLD_MAX)
        .map(|issue| tell_one(source, issue))
        .collect();
    if issues.len() > TOLD_MAX {
        let more = issues.len() - TOLD_MAX;
        told.push(format!("{more} more errors were truncated"));
    }
    told.join("\n")
}

fn tell_one(source: &str, issue: &Issue) -> String {
    let Some(at) = issue.at else {
        return format!("ERROR: <input>:-1:0: {}", issue.message);
    };
    // There is no line to show.
    if source.is_empty() {
        return format!("ERROR: <input>:1:0: {}", issue.message);
    }
    let (mut line, mut column) = (1, 0);
    for c in source.chars().take(at) {
        if c == '\n' {
            (line, column) = (line + 1, 0);
        } else {
            column += 1;
        }
    }
    let mut text = format!("ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
    let shown = source.split('\n').nth(line - 1).unwrap_or_default();
    if shown.len() <= SHOWN_MAX {
        let shown = shown.replace('\t', " ");
        text.push_str("\n | ");
        text.push_str(&shown);
        text.push_str("\n | ");
        let mut chars = shown.chars();
        let is_wide = |c: char| c.len_utf8() > 1;
        for c in chars.by_ref().take(column) {
            text.push(if is_wide(c) { '\u{ff0e}' } else { '.' });
        }
        text.push(if chars.next().is_some_and(is_wide) {
            '\u{ff3e}'
        } else {
            '^'
        });
    }
    text
}
