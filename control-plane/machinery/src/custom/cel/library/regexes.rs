//! Regular expressions.

use super::super::value::{Value, Why};
use crate::values::pattern::{PATTERN_BYTES_MAX, Patterns};

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
    let pattern = match patterns.get(pattern) {
        Some(pattern) => pattern.clone(),
        None => match Patterns::within(PATTERN_BYTES_MAX).compile(pattern) {
            Ok(pattern) => pattern,
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
