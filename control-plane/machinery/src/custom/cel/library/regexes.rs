//! Regular expressions.

use std::collections::HashMap;

use super::super::value::{Value, Why};
use crate::values::pattern::Pattern;

/// The patterns that an expression has as constants.
pub(in super::super) type Patterns = HashMap<String, Pattern>;

/// Compiles a pattern; the error is for its author.
pub(in super::super) fn compile(text: &str) -> Result<Pattern, Why> {
    Pattern::compile(text)
}

pub(super) fn call<'a>(
    function: &str,
    arguments: &[Value<'a>],
    patterns: &Patterns,
) -> Option<Result<Value<'a>, Why>> {
    let (text, pattern, count) = match (function, arguments) {
        ("matches" | "find" | "findAll", [Value::String(text), Value::String(pattern)]) => {
            (text, pattern, -1)
        }
        (
            "findAll",
            [
                Value::String(text),
                Value::String(pattern),
                Value::Int(count),
            ],
        ) => (text, pattern, *count),
        _ => return None,
    };
    let compiled;
    let pattern = match patterns.get(&**pattern) {
        Some(pattern) => pattern,
        None => match compile(pattern) {
            Ok(pattern) => {
                compiled = pattern;
                &compiled
            }
            Err(why) if function == "matches" => return Some(Err(why)),
            Err(why) => return Some(Err(format!("Illegal regex: {why}"))),
        },
    };
    Some(Ok(match function {
        "matches" => Value::Bool(pattern.matches(text)),
        "find" => Value::text(pattern.find_all(text).next().unwrap_or_default()),
        _ => {
            let limit = usize::try_from(count).unwrap_or(usize::MAX);
            let found = pattern.find_all(text).take(limit);
            Value::list(found.map(Value::text).collect())
        }
    }))
}
