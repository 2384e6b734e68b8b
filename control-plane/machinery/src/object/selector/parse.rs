//! Parses the query forms of selectors; errors are in the words of Go's parsers.

use super::{Error, FieldRequirement, Operator, Requirement};
use crate::values::name;

/// Parses `a=b,c in (d,e),!f`.
pub(super) fn labels(text: &str) -> Result<Vec<Requirement>, Error> {
    let mut parser = Parser { rest: text };
    let mut all = Vec::new();
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Sign("!") => {
                let one = parser.requirement();
                all.push(one.map_err(|why| found_in(&why))?);
                match parser.next() {
                    Token::End => return Ok(all),
                    Token::Sign(",") => match parser.peek() {
                        Token::Word(_) | Token::Sign("!") => {}
                        other => return Err(found(other, "expected: identifier after ','")),
                    },
                    other => return Err(found(other, "expected: ',' or 'end of string'")),
                }
            }
            Token::End => return Ok(all),
            other => {
                return Err(found(other, "expected: !, identifier, or 'end of string'"));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Sign(&'static str),
    End,
}

impl Token<'_> {
    fn text(&self) -> &str {
        match self {
            Token::Word(text) => text,
            Token::Sign(sign) => sign,
            Token::End => "",
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if self.rest.is_empty() {
            return Token::End;
        }
        for sign in ["==", "!=", "=", "!", "(", ")", ",", ">", "<"] {
            if let Some(rest) = self.rest.strip_prefix(sign) {
                self.rest = rest;
                return Token::Sign(sign);
            }
        }
        let stop = |c: char| " \t\r\n=!(),><".contains(c);
        let end = self.rest.find(stop).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Token::Word(word)
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let absent = self.peek() == Token::Sign("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(found(other, "expected: identifier")),
        };
        let wrong = name::qualified_name(key);
        if !wrong.is_empty() {
            return Err(super::invalid("<nil>", key, &wrong.join("; ")));
        }
        if absent {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = match self.next() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Sign("=") => Operator::Equals,
            Token::Sign("==") => Operator::DoubleEquals,
            Token::Sign("!=") => Operator::NotEquals,
            Token::Sign(">") => Operator::GreaterThan,
            Token::Sign("<") => Operator::LessThan,
            other => {
                return Err(found(other, "expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        Requirement::new(key, operator, values)
    }

    /// A value; an empty one if nothing follows the operator.
    fn value(&mut self) -> Result<String, Error> {
        match self.peek() {
            Token::End | Token::Sign(",") => Ok(String::new()),
            _ => match self.next() {
                Token::Word(value) => Ok(value.to_owned()),
                other => Err(found(other, "expected: identifier")),
            },
        }
    }

    /// `(a,b)`; a missing item is an empty value.
    fn values(&mut self) -> Result<Vec<String>, Error> {
        match self.next() {
            Token::Sign("(") => {}
            // Go's message lacks the comma here.
            other => return Err(Error(format!("found '{}' expected: '('", other.text()))),
        }
        let mut values = Vec::new();
        let mut open = true;
        loop {
            match self.next() {
                Token::Word(value) if open => {
                    values.push(value.to_owned());
                    open = false;
                }
                Token::Sign(",") => {
                    if open {
                        values.push(String::new());
                    }
                    open = true;
                }
                Token::Sign(")") => {
                    if open {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                other if open && values.is_empty() => {
                    return Err(found(other, "expected: ',', ')' or identifier"));
                }
                other if open => return Err(found(other, "expected: ',', or identifier")),
                other => return Err(found(other, "expected: ',' or ')'")),
            }
        }
    }
}

fn found(token: Token<'_>, expected: &str) -> Error {
    Error(format!("found '{}', {expected}", token.text()))
}

fn found_in(why: &Error) -> Error {
    Error(format!("unable to parse requirement: {why}"))
}

/// Parses `a=b,c!=d`; a backslash escapes `,`, `=` and itself.
pub(super) fn fields(text: &str) -> Result<Vec<FieldRequirement>, Error> {
    let mut all = Vec::new();
    let mut parts = split(text);
    // Sorted as in Go, so the order of two values of one field does not depend on the request.
    parts.sort_unstable();
    for part in parts {
        if part.is_empty() {
            continue;
        }
        let signs = ["!=", "==", "="];
        let first = part.char_indices().find_map(|(at, _)| {
            let sign = signs.iter().find(|sign| part[at..].starts_with(**sign));
            sign.map(|sign| (at, *sign))
        });
        let Some((at, sign)) = first else {
            let text = format!("invalid selector: '{text}'; can't understand '{part}'");
            return Err(Error(text));
        };
        all.push(FieldRequirement {
            field: part[..at].to_owned(),
            negated: sign == "!=",
            value: unescape(&part[at + sign.len()..])?,
        });
    }
    Ok(all)
}

/// Escapes a value for a selector.
pub(super) fn escape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(text: &str) -> Result<String, Error> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => value.push(c),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    let what = "invalid field selector: invalid escape sequence";
                    return Err(Error(format!("{what}: \\{other}")));
                }
            },
            ',' | '=' => {
                let what = "invalid field selector: unescaped character in value";
                return Err(Error(format!("{what}: {}", u32::from(c))));
            }
            c => value.push(c),
        }
    }
    Ok(value)
}
