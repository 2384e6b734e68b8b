//! Splits an expression into tokens.

use crate::custom::cel::issue::Issue;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Where it begins, in characters.
    pub(crate) at: usize,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Punctuation, an operator, or one of the words `in`, `true`, `false` and `null`.
    Mark,
    Ident,
    /// An identifier between backquotes.
    Quoted,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    End,
}

const MARKS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

/// The tokens of an expression, the last of them its end.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, Issue> {
    let chars: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        if matches!(rest[0], ' ' | '\t' | '\r' | '\n' | '\u{c}') {
            at += 1;
        } else if rest.starts_with(&['/', '/']) {
            at += rest.iter().take_while(|c| **c != '\n').count();
        } else {
            let (kind, length) = token(rest).ok_or_else(|| unknown(rest, at))?;
            let text: String = rest[..length].iter().collect();
            tokens.push(Token { kind, at, text });
            at += length;
        }
    }
    tokens.push(Token {
        kind: TokenKind::End,
        at,
        text: "<EOF>".to_owned(),
    });
    Ok(tokens)
}

fn unknown(rest: &[char], at: usize) -> Issue {
    let shown: String = match rest[0] {
        '"' | '\'' => rest.iter().collect(),
        other => other.to_string(),
    };
    let shown = shown.replace('\n', "\\n").replace('\t', "\\t");
    let message = format!("Syntax error: token recognition error at: '{shown}'");
    Issue::at(at, message)
}

/// The kind and the length of the token that a text begins with.
fn token(rest: &[char]) -> Option<(TokenKind, usize)> {
    if let Some(found) = quoted(rest) {
        return Some(found);
    }
    let first = rest[0];
    let after_dot = rest.get(1).is_some_and(char::is_ascii_digit);
    if first.is_ascii_digit() || first == '.' && after_dot {
        return Some(number(rest));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = count(rest, |c| c.is_ascii_alphanumeric() || c == '_');
        let text: String = rest[..length].iter().collect();
        let is_word = ["in", "true", "false", "null"].contains(&text.as_str());
        let kind = if is_word {
            TokenKind::Mark
        } else {
            TokenKind::Ident
        };
        return Some((kind, length));
    }
    if first == '`' {
        let inner = count(&rest[1..], |c| {
            c.is_ascii_alphanumeric() || "_.-/ ".contains(c)
        });
        let is_closed = rest.get(inner + 1) == Some(&'`');
        return (inner > 0 && is_closed).then_some((TokenKind::Quoted, inner + 2));
    }
    let mark = MARKS.iter().find(|mark| {
        let mark: Vec<char> = mark.chars().collect();
        rest.starts_with(&mark)
    })?;
    Some((TokenKind::Mark, mark.len()))
}

fn number(rest: &[char]) -> (TokenKind, usize) {
    let digit = |c: char| c.is_ascii_digit();
    let is_unsigned = |at: usize| matches!(rest.get(at), Some('u' | 'U'));
    if rest.starts_with(&['0', 'x']) {
        let length = 2 + count(&rest[2..], |c| c.is_ascii_hexdigit());
        if length > 2 {
            return if is_unsigned(length) {
                (TokenKind::Uint, length + 1)
            } else {
                (TokenKind::Int, length)
            };
        }
    }
    let whole = count(rest, digit);
    let mut length = whole;
    let mut is_float = false;
    if rest.get(length) == Some(&'.') {
        let fraction = count(&rest[length + 1..], digit);
        if fraction > 0 {
            is_float = true;
            length += 1 + fraction;
        }
    }
    if matches!(rest.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(rest.get(length + 1), Some('+' | '-')));
        let exponent = count(rest.get(length + 1 + sign..).unwrap_or_default(), digit);
        if exponent > 0 {
            is_float = true;
            length += 1 + sign + exponent;
        }
    }
    if is_float {
        (TokenKind::Float, length)
    } else if is_unsigned(length) {
        (TokenKind::Uint, length + 1)
    } else {
        (TokenKind::Int, length)
    }
}

/// A string or bytes, with its prefix and its quotes.
fn quoted(rest: &[char]) -> Option<(TokenKind, usize)> {
    let mut at = 0;
    let is_bytes = matches!(rest.first(), Some('b' | 'B'));
    at += usize::from(is_bytes);
    let is_raw = matches!(rest.get(at), Some('r' | 'R'));
    at += usize::from(is_raw);
    let quote = *rest.get(at).filter(|c| matches!(c, '"' | '\''))?;
    let triple = [quote; 3];
    let is_triple = rest[at..].starts_with(&triple);
    at += if is_triple { 3 } else { 1 };
    let kind = if is_bytes {
        TokenKind::Bytes
    } else {
        TokenKind::String
    };
    loop {
        let c = *rest.get(at)?;
        if is_triple && rest[at..].starts_with(&triple) {
            return Some((kind, at + 3));
        } else if !is_triple && c == quote {
            return Some((kind, at + 1));
        } else if !is_triple && matches!(c, '\n' | '\r') {
            return None;
        } else if c == '\\' && !is_raw {
            at += escape_length(&rest[at..])?;
        } else {
            at += 1;
        }
    }
}

/// The length of an escape sequence, in characters.
fn escape_length(rest: &[char]) -> Option<usize> {
    let all = |range: std::ops::Range<usize>, test: fn(&char) -> bool| {
        let digits = rest.get(range.clone())?;
        digits.iter().all(test).then_some(range.end)
    };
    match rest.get(1)? {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(2),
        'x' | 'X' => all(2..4, char::is_ascii_hexdigit),
        'u' => all(2..6, char::is_ascii_hexdigit),
        'U' => all(2..10, char::is_ascii_hexdigit),
        '0'..='3' => all(2..4, |c| ('0'..='7').contains(c)),
        _ => None,
    }
}

fn count(rest: &[char], test: impl Fn(char) -> bool) -> usize {
    rest.iter().take_while(|c| test(**c)).count()
}

/// The text of a string token without prefix, quotes and escapes, as bytes: those of a string are
/// UTF-8.
pub(crate) fn unquote(token: &Token) -> Result<Vec<u8>, String> {
    let is_bytes = token.kind == TokenKind::Bytes;
    let mut text = token.text.as_str();
    if is_bytes {
        text = &text[1..];
    }
    let is_raw = text.starts_with(['r', 'R']);
    if is_raw {
        text = &text[1..];
    }
    let quotes = if text.len() >= 6 && (text.starts_with("\"\"\"") || text.starts_with("'''")) {
        3
    } else {
        1
    };
    let text = text[quotes..text.len() - quotes].replace("\r\n", "\n");
    let text = text.replace('\r', "\n");
    if is_raw {
        return Ok(text.into_bytes());
    }
    let chars: Vec<char> = text.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if c != '\\' {
            out.extend(c.encode_utf8(&mut [0; 4]).bytes());
            at += 1;
            continue;
        }
        let length = escape_length(&chars[at..]).ok_or("unable to unescape string")?;
        let digits: String = chars[at + 2..at + length].iter().collect();
        let code = match chars[at + 1] {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            'x' | 'X' | 'u' | 'U' => {
                u32::from_str_radix(&digits, 16).map_err(|_| "unable to unescape string")?
            }
            octal @ '0'..='3' => {
                let digits = format!("{octal}{digits}");
                u32::from_str_radix(&digits, 8).map_err(|_| "unable to unescape string")?
            }
            other => other as u32,
        };
        let is_unicode = matches!(chars[at + 1], 'u' | 'U');
        if is_bytes && is_unicode {
            return Err("unable to unescape string".to_owned());
        } else if is_bytes {
            out.push(u8::try_from(code).map_err(|_| "unable to unescape string")?);
        } else {
            let c = char::from_u32(code).ok_or("invalid unicode code point")?;
            out.extend(c.encode_utf8(&mut [0; 4]).bytes());
        }
        at += length;
    }
    Ok(out)
}
