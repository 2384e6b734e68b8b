//! The functions that expressions call.

mod arithmetic;
pub(super) mod authorization;
mod convert;
pub(super) mod format;
mod lists;
pub(super) mod network;
mod quantity;
mod regexes;
pub(super) mod semver;
mod strings;
mod template;
pub(super) mod time;
pub(super) mod url;

pub(super) use arithmetic::{compare, negate};
pub(super) use convert::by_name as convert;
pub(super) use lists::insert;
pub(super) use regexes::Met;
pub(super) use template::check as check_template;

use super::value::{Value, Why};
use crate::values::pattern::Patterns;

/// The longest string that a function makes, in bytes.
const TEXT_MAX: usize = 1 << 25;

/// A function of a library; `None` if it has no such function for these arguments.
type Call = for<'a> fn(&str, &[Value<'a>]) -> Option<Result<Value<'a>, Why>>;

/// Calls a function; `patterns` are those that the expression has as literals. The evaluator itself
/// has the operators that do not look at all arguments.
pub(super) fn call<'a>(
    function: &str,
    arguments: &[Value<'a>],
    patterns: &Patterns,
    met: &mut Met,
) -> Result<Value<'a>, Why> {
    if let Some(result) = regexes::call(function, arguments, patterns, met) {
        return result;
    }
    let libraries: [Call; 12] = [
        arithmetic::call,
        convert::call,
        strings::call,
        lists::call,
        time::call,
        optional,
        quantity::call,
        network::call,
        semver::call,
        url::call,
        format::call,
        authorization::call,
    ];
    let mut found = libraries.iter().map(|call| call(function, arguments));
    found.find_map(|one| one).unwrap_or_else(|| {
        Err(match function {
            "size" => "no such overload: size".to_owned(),
            _ => "no such overload".to_owned(),
        })
    })
}

/// Values that may be absent.
fn optional<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    Some(match (function, arguments) {
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => Ok(if is_zero(value) {
            Value::Optional(None)
        } else {
            Value::some(value.clone())
        }),
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("value", [Value::Optional(inner)]) => match inner {
            Some(inner) => Ok(Value::clone(inner)),
            None => Err("optional.none() dereference".to_owned()),
        },
        ("or", [Value::Optional(inner), other]) => Ok(match inner {
            Some(_) => arguments[0].clone(),
            None => other.clone(),
        }),
        ("orValue", [Value::Optional(inner), other]) => Ok(match inner {
            Some(inner) => Value::clone(inner),
            None => other.clone(),
        }),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => list.items().map(|items| {
            let values = items.into_iter().filter_map(|item| match item {
                Value::Optional(inner) => inner.map(|inner| Value::clone(&inner)),
                other => Some(other),
            });
            Value::list(values.collect())
        }),
        _ => return None,
    })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) | Value::Duration(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.len() == 0,
        Value::Optional(inner) => inner.is_none(),
        _ => false,
    }
}

/// Why a function does not make a string.
fn too_long() -> Why {
    format!("string is longer than {TEXT_MAX} bytes")
}
