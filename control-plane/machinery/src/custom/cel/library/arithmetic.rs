//! Operators on numbers, durations and timestamps, and membership.

use std::cmp::Ordering;

use super::super::value::{Value, Why};
use super::time::{self, NANOS};
use super::{TEXT_MAX, too_long};

const INT_OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";
const DURATION_OVERFLOW: &str = "duration overflow";

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    let [left, right] = arguments else {
        return None;
    };
    Some(match function {
        "_+_" => plus(left, right),
        "_-_" => minus(left, right),
        "_*_" | "_/_" | "_%_" => scale(function, left, right),
        "@in" | "in" | "_in_" => is_in(left, right),
        _ => return None,
    })
}

/// `-x`
pub(in super::super) fn negate<'a>(value: &Value<'a>) -> Result<Value<'a>, Why> {
    match value {
        Value::Int(value) => int(value.checked_neg()),
        Value::Double(value) => Ok(Value::Double(-value)),
        _ => Err("no such overload".to_owned()),
    }
}

/// `<`, `<=`, `>` and `>=`
pub(in super::super) fn compare<'a>(
    function: &str,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Result<Value<'a>, Why> {
    let nan = |value: &Value| matches!(value, Value::Double(float) if float.is_nan());
    let Some(order) = left.compare(right) else {
        return Err(if nan(left) || nan(right) {
            "NaN values cannot be ordered".to_owned()
        } else {
            "no such overload".to_owned()
        });
    };
    Ok(Value::Bool(match function {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn plus<'a>(left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, Why> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_add(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_add(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        (Value::String(left), Value::String(right)) => {
            if left.len() + right.len() > TEXT_MAX {
                return Err(too_long());
            }
            let mut text = String::with_capacity(left.len() + right.len());
            text.push_str(left);
            text.push_str(right);
            Ok(Value::text(text))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            if left.len() + right.len() > TEXT_MAX {
                return Err(too_long());
            }
            Ok(Value::Bytes([&**left, &**right].concat().into()))
        }
        (Value::Duration(left), Value::Duration(right)) => duration(left.checked_add(*right)),
        (Value::Timestamp(at), Value::Duration(by))
        | (Value::Duration(by), Value::Timestamp(at)) => time::shifted(*at, i128::from(*by)),
        (Value::List(left), Value::List(right)) => left.clone().plus(right).map(Value::List),
        _ => no_overload("_+_", left),
    }
}

fn minus<'a>(left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, Why> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_sub(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_sub(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left - right)),
        (Value::Duration(left), Value::Duration(right)) => duration(left.checked_sub(*right)),
        (Value::Timestamp(at), Value::Duration(by)) => time::shifted(*at, -i128::from(*by)),
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            let seconds = i128::from(left.seconds) - i128::from(right.seconds);
            let nanos = i128::from(left.nanos) - i128::from(right.nanos);
            duration(i64::try_from(seconds * NANOS + nanos).ok())
        }
        _ => no_overload("_-_", left),
    }
}

fn scale<'a>(function: &str, left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, Why> {
    let by_zero = || {
        Err(match function {
            "_/_" => "division by zero".to_owned(),
            _ => "modulus by zero".to_owned(),
        })
    };
    match (function, left, right) {
        ("_*_", Value::Int(left), Value::Int(right)) => int(left.checked_mul(*right)),
        ("_*_", Value::Uint(left), Value::Uint(right)) => uint(left.checked_mul(*right)),
        ("_*_", Value::Double(left), Value::Double(right)) => Ok(Value::Double(left * right)),
        ("_/_", Value::Double(left), Value::Double(right)) => Ok(Value::Double(left / right)),
        (_, Value::Int(_), Value::Int(0)) | (_, Value::Uint(_), Value::Uint(0)) => by_zero(),
        ("_/_", Value::Int(left), Value::Int(right)) => int(left.checked_div(*right)),
        ("_/_", Value::Uint(left), Value::Uint(right)) => uint(left.checked_div(*right)),
        ("_%_", Value::Int(left), Value::Int(right)) => int(left.checked_rem(*right)),
        ("_%_", Value::Uint(left), Value::Uint(right)) => uint(left.checked_rem(*right)),
        _ => no_overload(function, left),
    }
}

fn is_in<'a>(item: &Value<'a>, within: &Value<'a>) -> Result<Value<'a>, Why> {
    match within {
        Value::List(list) => {
            let mut failed = None;
            for one in list.iter() {
                match one.and_then(|one| one.equals(item)) {
                    Ok(true) => return Ok(Value::Bool(true)),
                    Ok(false) => {}
                    Err(why) => failed = failed.or(Some(why)),
                }
            }
            failed.map_or(Ok(Value::Bool(false)), Err)
        }
        Value::Map(map) => Ok(Value::Bool(map.find(item)?.is_some())),
        other => no_overload("@in", other),
    }
}

/// Operators of values that know them complain without a name.
fn no_overload<'a>(function: &str, left: &Value) -> Result<Value<'a>, Why> {
    let knows = matches!(
        left,
        Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    ) || function == "_+_"
        && matches!(left, Value::String(_) | Value::Bytes(_) | Value::List(_));
    Err(if knows {
        "no such overload".to_owned()
    } else {
        format!("no such overload: {function}")
    })
}

fn int<'a>(value: Option<i64>) -> Result<Value<'a>, Why> {
    value.map(Value::Int).ok_or_else(|| INT_OVERFLOW.to_owned())
}

fn uint<'a>(value: Option<u64>) -> Result<Value<'a>, Why> {
    value
        .map(Value::Uint)
        .ok_or_else(|| UINT_OVERFLOW.to_owned())
}

fn duration<'a>(nanos: Option<i64>) -> Result<Value<'a>, Why> {
    nanos
        .map(Value::Duration)
        .ok_or_else(|| DURATION_OVERFLOW.to_owned())
}
