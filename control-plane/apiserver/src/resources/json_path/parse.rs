//! Reads paths.

use serde_json::Value;

use super::{Filter, Slice, Step, To};

/// How deep paths may be inside filters and unions of other paths.
const DEPTH_MAX: usize = 4;
const OPERATORS: [char; 4] = ['!', '<', '=', '>'];

/// The steps and the text behind what was read.
type Read<'a> = Result<&'a str, String>;

/// The steps of a path.
pub(super) fn path(text: &str) -> Result<Vec<Step>, String> {
    inner(text, 0)
}

fn inner(text: &str, depth: usize) -> Result<Vec<Step>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("{text:?} is too deep in other paths"));
    }
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = if let Some(inside) = rest.strip_prefix("[?(") {
            filter(inside, depth, &mut steps)?
        } else if let Some(after) = rest.strip_prefix("..") {
            descend(after, &mut steps)?
        } else {
            let after = &rest[letter.len_utf8()..];
            match letter {
                // Kubernetes writes braces around the path; what is behind them is another one.
                '}' => break,
                ' ' | '@' | '$' => after,
                '[' => array(after, depth, &mut steps)?,
                '"' | '\'' => quoted(after, letter, &mut steps)?,
                '.' => field(after, &mut steps),
                '+' | '-' | '0'..='9' => number(rest, &mut steps)?,
                letter if begins_word(letter) => word(rest, &mut steps),
                _ => return Err(format!("cannot read {rest:?} in a path")),
            }
        };
    }
    Ok(steps)
}

/// What follows two dots.
fn descend<'a>(text: &'a str, steps: &mut Vec<Step>) -> Read<'a> {
    if steps.last() == Some(&Step::Descend) {
        return Err("a path goes down twice at one place".to_owned());
    }
    steps.push(Step::Descend);
    Ok(match text.chars().next() {
        Some(letter) if begins_word(letter) => field(text, steps),
        _ => text,
    })
}

/// A key; a backslash takes the meaning of the character behind it.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if ends_word(letter) {
            end = at;
            break;
        }
    }
    let (key, rest) = text.split_at(end);
    steps.push(match key {
        "*" => Step::Wildcard,
        key => Step::Field(key.replace('\\', "")),
    });
    rest
}

/// What is in brackets: places, a quoted key, or several of these.
fn array<'a>(text: &'a str, depth: usize, steps: &mut Vec<Step>) -> Read<'a> {
    let (inside, rest) = match text.split_once(']') {
        Some((inside, rest)) if !inside.contains('\n') => (inside, rest),
        _ => return Err(format!("{text:?} has no closing bracket")),
    };
    let key = inside.strip_prefix('\'');
    let key = key.and_then(|key| key.strip_suffix('\''));
    let key = key.filter(|key| !key.contains('\''));
    if inside.contains(',') {
        let each = inside.split(',');
        let each = each.map(|one| inner(&format!("[{}]", one.trim_matches(' ')), depth + 1));
        steps.push(Step::Union(each.collect::<Result<_, _>>()?));
    } else if let Some(key) = key {
        // As in Kubernetes, dots in a quoted key need a backslash.
        steps.extend(inner(&format!(".{key}"), depth + 1)?);
    } else {
        steps.push(Step::Slice(slice(inside)?));
    }
    Ok(rest)
}

fn slice(text: &str) -> Result<Slice, String> {
    let wrong = || format!("{text:?} is no place in a list");
    let number = |part: &str| match part {
        "" => Ok(None),
        part if part.starts_with('+') => Err(wrong()),
        part => part.parse::<i64>().map(Some).map_err(|_| wrong()),
    };
    let places = if text == "*" { ":" } else { text };
    let mut parts = places.split(':');
    let from = number(parts.next().unwrap_or_default())?;
    let to = match parts.next() {
        None => To::First,
        Some(part) => number(part)?.map_or(To::End, To::Before),
    };
    let step = number(parts.next().unwrap_or_default())?;
    match parts.next() {
        Some(_) => Err(wrong()),
        None => Ok(Slice {
            from: from.unwrap_or(0),
            to,
            step: step.unwrap_or(1),
        }),
    }
}

/// What follows `[?(`.
fn filter<'a>(text: &'a str, depth: usize, steps: &mut Vec<Step>) -> Read<'a> {
    let wrong = || format!("{text:?} is no whole filter");
    let (inside, rest) = text.split_at(end_of_filter(text).ok_or_else(wrong)?);
    let rest = rest.strip_prefix(")]").ok_or_else(wrong)?;
    let compared = inside.find(OPERATORS).filter(|at| *at > 0);
    let (left, more) = inside.split_at(compared.unwrap_or(inside.len()));
    let right = more.trim_start_matches(OPERATORS);
    let operator = &more[..more.len() - right.len()];
    let compared = match (operator, right) {
        ("", _) => None,
        (_, "") => return Err(wrong()),
        (operator, right) => Some((operator.to_owned(), inner(right, depth + 1)?)),
    };
    let left = inner(left, depth + 1)?;
    steps.push(Step::Filter(Filter { left, compared }));
    Ok(rest)
}

/// Where the parenthesis of a filter closes: it may also be in the one quoted text.
fn end_of_filter(text: &str) -> Option<usize> {
    let (mut opened, mut is_closed, mut before) = (None, false, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '\n' => return None,
            '"' | '\'' => match opened {
                None => opened = Some(letter),
                Some(quote) => is_closed |= quote == letter && before != '\\',
            },
            ')' if opened.is_some() == is_closed => return Some(at),
            _ => {}
        }
        before = letter;
    }
    None
}

/// What follows a quotation mark.
fn quoted<'a>(text: &'a str, quote: char, steps: &mut Vec<Step>) -> Read<'a> {
    let wrong = || format!("{text:?} is no quoted text");
    let mut unescaped = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\n' => return Err(wrong()),
            letter if letter == quote => {
                steps.push(Step::Text(unescaped.into()));
                return Ok(&text[at + quote.len_utf8()..]);
            }
            '\\' => unescaped.push(match letters.next() {
                Some((_, 'n')) => '\n',
                Some((_, 'r')) => '\r',
                Some((_, 't')) => '\t',
                Some((_, '\\')) => '\\',
                Some((_, letter)) if letter == quote => letter,
                _ => return Err(wrong()),
            }),
            letter => unescaped.push(letter),
        }
    }
    Err(wrong())
}

fn number<'a>(text: &'a str, steps: &mut Vec<Step>) -> Read<'a> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = digits.trim_start_matches(|letter: char| letter == '.' || letter.is_ascii_digit());
    let number = &text[..text.len() - rest.len()];
    let integer = number.parse::<i64>().map(Value::from);
    let found = integer.or_else(|_| number.parse::<f64>().map(Value::from));
    let found = found.map_err(|_| format!("{number:?} is no number"))?;
    steps.push(Step::Scalar(found));
    Ok(rest)
}

fn word<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let (word, rest) = text.split_at(text.find(ends_word).unwrap_or(text.len()));
    steps.push(match word {
        "true" | "false" => Step::Scalar((word == "true").into()),
        _ => Step::Word,
    });
    rest
}

fn begins_word(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

fn ends_word(letter: char) -> bool {
    " \t\r\n.,[]$@{}".contains(letter)
}
