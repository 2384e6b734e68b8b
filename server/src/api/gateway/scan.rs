//! Finds where JSON values begin and end in a body that arrives in pieces, by the rules of Go's
//! `encoding/json`. Error texts are Go's, because clients see them.

use std::borrow::Cow;

/// Deepest nesting of arrays and objects.
const DEPTH_MAX: usize = 10_000;

/// Go's error for a body that ends inside a value.
pub(crate) const UNEXPECTED_END: &str = "unexpected EOF";

/// State of the scanner, named by what it has just read or what it expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    /// A value, or the end of the array.
    ValueOrEnd,
    Key,
    /// A key, or the end of the object.
    KeyOrEnd,
    /// A value or a key is complete.
    Complete,
    Text,
    Escape,
    /// Number of hex digits of `\u` still expected.
    Hex(u8),
    /// Inside `true`, `false` or `null`: the word, and the index of the next letter.
    Word(&'static str, usize),
    Minus,
    Zero,
    Digits,
    Dot,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// What encloses the current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Key,
    Member,
    Array,
}

enum Step {
    More,
    /// The value ends with this byte.
    Last,
    /// The value ended before this byte.
    Before,
}

/// Scans one value after the other.
#[derive(Debug)]
pub(crate) struct Scanner {
    state: State,
    stack: Vec<Inside>,
    started: bool,
}

impl Scanner {
    pub(crate) fn new() -> Scanner {
        Scanner {
            state: State::Value,
            stack: Vec::new(),
            started: false,
        }
    }

    /// Continues a value with its next piece `data`. `Some(n)`: the value ends after `n` bytes of
    /// `data`, and the scanner then expects the next value.
    pub(crate) fn feed(&mut self, data: &[u8]) -> Result<Option<usize>, String> {
        for (place, &byte) in data.iter().enumerate() {
            self.started |= !is_space(byte);
            let end = match self.step(byte)? {
                Step::More => continue,
                Step::Last => place + 1,
                Step::Before => place,
            };
            *self = Scanner::new();
            return Ok(Some(end));
        }
        Ok(None)
    }

    /// The body has ended. Returns true if that completes a value; fails if it cuts a value off.
    pub(crate) fn end(&mut self) -> Result<bool, String> {
        let number = matches!(
            self.state,
            State::Zero | State::Digits | State::Fraction | State::ExponentDigits
        );
        let complete = self.stack.is_empty() && (number || self.state == State::Complete);
        if complete || !self.started {
            Ok(complete)
        } else {
            Err(UNEXPECTED_END.to_owned())
        }
    }

    fn step(&mut self, byte: u8) -> Result<Step, String> {
        let next = match (self.state, byte) {
            (State::Complete, _) => return self.complete(byte),
            (State::Value | State::ValueOrEnd | State::Key | State::KeyOrEnd, _)
                if is_space(byte) =>
            {
                return Ok(Step::More);
            }
            (State::ValueOrEnd, b']') | (State::KeyOrEnd, b'}') => return Ok(self.close()),
            (State::Value | State::ValueOrEnd, _) => return self.begin(byte),
            (State::Key | State::KeyOrEnd, b'"') => State::Text,
            (State::Key | State::KeyOrEnd, _) => {
                return Err(invalid(byte, "looking for beginning of object key string"));
            }
            (State::Text, b'"') => State::Complete,
            (State::Text, b'\\') => State::Escape,
            (State::Text, 0x20..) => State::Text,
            (State::Text, _) => return Err(invalid(byte, "in string literal")),
            (State::Escape, b'u') => State::Hex(4),
            (State::Escape, b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => State::Text,
            (State::Escape, _) => return Err(invalid(byte, "in string escape code")),
            (State::Hex(left), _) if byte.is_ascii_hexdigit() => match left {
                1 => State::Text,
                _ => State::Hex(left - 1),
            },
            (State::Hex(_), _) => {
                return Err(invalid(byte, "in \\u hexadecimal character escape"));
            }
            (State::Word(word, place), _) => return self.word(word, place, byte),
            _ => return self.number(byte),
        };
        self.state = next;
        Ok(Step::More)
    }

    fn begin(&mut self, byte: u8) -> Result<Step, String> {
        self.state = match byte {
            b'{' => {
                self.push(Inside::Key, byte)?;
                State::KeyOrEnd
            }
            b'[' => {
                self.push(Inside::Array, byte)?;
                State::ValueOrEnd
            }
            b'"' => State::Text,
            b'-' => State::Minus,
            b'0' => State::Zero,
            b'1'..=b'9' => State::Digits,
            b't' => State::Word("true", 1),
            b'f' => State::Word("false", 1),
            b'n' => State::Word("null", 1),
            _ => return Err(invalid(byte, "looking for beginning of value")),
        };
        Ok(Step::More)
    }

    fn word(&mut self, word: &'static str, place: usize, byte: u8) -> Result<Step, String> {
        let expected = word.as_bytes()[place];
        if byte != expected {
            let expected = char::from(expected);
            let context = format!("in literal {word} (expecting '{expected}')");
            return Err(invalid(byte, &context));
        }
        self.state = if place + 1 == word.len() {
            State::Complete
        } else {
            State::Word(word, place + 1)
        };
        Ok(Step::More)
    }

    fn number(&mut self, byte: u8) -> Result<Step, String> {
        self.state = match (self.state, byte) {
            (State::Minus, b'0') => State::Zero,
            (State::Minus, b'1'..=b'9') | (State::Digits, b'0'..=b'9') => State::Digits,
            (State::Minus, _) => return Err(invalid(byte, "in numeric literal")),
            (State::Zero | State::Digits, b'.') => State::Dot,
            (State::Dot | State::Fraction, b'0'..=b'9') => State::Fraction,
            (State::Dot, _) => {
                return Err(invalid(byte, "after decimal point in numeric literal"));
            }
            (State::Zero | State::Digits | State::Fraction, b'e' | b'E') => State::Exponent,
            (State::Exponent, b'+' | b'-') => State::ExponentSign,
            (State::Exponent | State::ExponentSign | State::ExponentDigits, b'0'..=b'9') => {
                State::ExponentDigits
            }
            (State::Exponent | State::ExponentSign, _) => {
                return Err(invalid(byte, "in exponent of numeric literal"));
            }
            _ => return self.complete(byte),
        };
        Ok(Step::More)
    }

    /// Handles the byte after a complete value or key.
    fn complete(&mut self, byte: u8) -> Result<Step, String> {
        self.state = State::Complete;
        let Some(inside) = self.stack.last_mut() else {
            return Ok(Step::Before);
        };
        if is_space(byte) {
            return Ok(Step::More);
        }
        self.state = match (*inside, byte) {
            (Inside::Key, b':') => {
                *inside = Inside::Member;
                State::Value
            }
            (Inside::Member, b',') => {
                *inside = Inside::Key;
                State::Key
            }
            (Inside::Array, b',') => State::Value,
            (Inside::Member, b'}') | (Inside::Array, b']') => return Ok(self.close()),
            (Inside::Key, _) => return Err(invalid(byte, "after object key")),
            (Inside::Member, _) => return Err(invalid(byte, "after object key:value pair")),
            (Inside::Array, _) => return Err(invalid(byte, "after array element")),
        };
        Ok(Step::More)
    }

    fn push(&mut self, inside: Inside, byte: u8) -> Result<(), String> {
        if self.stack.len() >= DEPTH_MAX {
            return Err(invalid(byte, "exceeded max depth"));
        }
        self.stack.push(inside);
        Ok(())
    }

    fn close(&mut self) -> Step {
        self.stack.pop();
        self.state = State::Complete;
        if self.stack.is_empty() {
            Step::Last
        } else {
            Step::More
        }
    }
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn invalid(byte: u8, context: &str) -> String {
    let quoted: Cow<'static, str> = match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        _ => {
            let mut text = String::new();
            quote_char(&mut text, char::from(byte));
            format!("'{text}'").into()
        }
    };
    format!("invalid character {quoted} {context}")
}

/// One character, below U+0800, as `strconv.Quote` writes it.
pub(super) fn quote_char(out: &mut String, c: char) {
    use std::fmt::Write as _;
    match c {
        '"' | '\\' => out.extend(['\\', c]),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        '\0'..='\x1f' | '\x7f' => {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        }
        '\u{80}'..='\u{a0}' | '\u{ad}' => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        _ => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a body, cut at every possible place, and the error that ends it.
    fn values(body: &str) -> (Vec<String>, Option<String>) {
        let mut last = None;
        for cut in 1..=body.len().max(1) {
            let (mut scanner, mut found, mut value) = (Scanner::new(), Vec::new(), Vec::new());
            let mut error = None;
            'body: for piece in body.as_bytes().chunks(cut) {
                let mut rest = piece;
                loop {
                    match scanner.feed(rest) {
                        Ok(Some(end)) => {
                            value.extend_from_slice(&rest[..end]);
                            found.push(String::from_utf8(std::mem::take(&mut value)).unwrap());
                            rest = &rest[end..];
                        }
                        Ok(None) => break value.extend_from_slice(rest),
                        Err(text) => {
                            error = Some(text);
                            break 'body;
                        }
                    }
                }
            }
            if error.is_none() {
                match scanner.end() {
                    Ok(true) => found.push(String::from_utf8(value).unwrap()),
                    Ok(false) => {}
                    Err(text) => error = Some(text),
                }
            }
            let now = Some((found, error));
            assert!(last.is_none() || last == now, "cut at {cut}: {now:?}");
            last = now;
        }
        last.unwrap()
    }

    #[test]
    fn values_are_told_apart() {
        let (found, error) = values("{\"a\":[1,{}]} [\"x\\\"]\"]12 -0.5e+3true\"a\"\"b\"null");
        assert_eq!(error, None);
        let want = [
            "{\"a\":[1,{}]}",
            " [\"x\\\"]\"]",
            "12",
            " -0.5e+3",
            "true",
            "\"a\"",
            "\"b\"",
            "null",
        ];
        assert_eq!(found, want);
        assert_eq!(values("").0, Vec::<String>::new());
        assert_eq!(values(" \n\t").1, None);
    }

    #[test]
    fn what_is_no_json_is_named_in_gos_words() {
        let cases = [
            ("{", "unexpected EOF"),
            ("{\"a\"", "unexpected EOF"),
            ("\"abc", "unexpected EOF"),
            ("tru", "unexpected EOF"),
            ("-", "unexpected EOF"),
            ("1.", "unexpected EOF"),
            ("}", "invalid character '}' looking for beginning of value"),
            (
                "{,",
                "invalid character ',' looking for beginning of object key string",
            ),
            ("{\"a\" 1", "invalid character '1' after object key"),
            (
                "{\"a\":1 2",
                "invalid character '2' after object key:value pair",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("[1 2", "invalid character '2' after array element"),
            ("[,", "invalid character ',' looking for beginning of value"),
            ("\"\n", "invalid character '\\n' in string literal"),
            ("\"\\x", "invalid character 'x' in string escape code"),
            (
                "\"\\u12g",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            ("-a", "invalid character 'a' in numeric literal"),
            (
                "1.a",
                "invalid character 'a' after decimal point in numeric literal",
            ),
            (
                "1e+a",
                "invalid character 'a' in exponent of numeric literal",
            ),
            (
                "trux",
                "invalid character 'x' in literal true (expecting 'e')",
            ),
            (
                "fa1",
                "invalid character '1' in literal false (expecting 'l')",
            ),
            (
                "'",
                "invalid character '\\'' looking for beginning of value",
            ),
            (
                "\u{7f}",
                "invalid character '\\x7f' looking for beginning of value",
            ),
        ];
        for (body, want) in cases {
            assert_eq!(values(body).1.as_deref(), Some(want), "{body}");
        }
    }

    #[test]
    fn depth_has_an_end() {
        let deep = |depth: usize| Scanner::new().feed("[".repeat(depth).as_bytes());
        assert_eq!(deep(DEPTH_MAX), Ok(None));
        let text = "invalid character '[' exceeded max depth";
        assert_eq!(deep(DEPTH_MAX + 1), Err(text.to_owned()));
    }
}
