//! Quantities of resources.

use super::super::value::{Value, Why};
use crate::values::quantity::{Format, Quantity};

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    let of_int = |value: &i64| Quantity::from_integer(*value, Format::DecimalExponent);
    Some(match (function, arguments) {
        ("quantity", [Value::String(text)]) => match Quantity::parse(text) {
            Ok(quantity) => Ok(Value::Quantity(quantity)),
            Err(why) => Err(why.to_string()),
        },
        ("isQuantity", [Value::String(text)]) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        ("sign", [Value::Quantity(one)]) => Ok(Value::Int(one.cmp(&Quantity::ZERO) as i64)),
        ("isInteger", [Value::Quantity(one)]) => Ok(Value::Bool(one.as_integer().is_some())),
        ("asInteger", [Value::Quantity(one)]) => match one.as_integer() {
            Some(whole) => Ok(Value::Int(whole)),
            None => Err("cannot convert value to integer".to_owned()),
        },
        ("asApproximateFloat", [Value::Quantity(one)]) => Ok(Value::Double(one.as_f64())),
        ("isGreaterThan", [Value::Quantity(one), Value::Quantity(other)]) => {
            Ok(Value::Bool(one > other))
        }
        ("isLessThan", [Value::Quantity(one), Value::Quantity(other)]) => {
            Ok(Value::Bool(one < other))
        }
        ("compareTo", [Value::Quantity(one), Value::Quantity(other)]) => {
            Ok(Value::Int(one.cmp(other) as i64))
        }
        ("add", [Value::Quantity(one), Value::Quantity(other)]) => {
            Ok(Value::Quantity(one.plus(*other)))
        }
        ("add", [Value::Quantity(one), Value::Int(other)]) => {
            Ok(Value::Quantity(one.plus(of_int(other))))
        }
        ("sub", [Value::Quantity(one), Value::Quantity(other)]) => {
            Ok(Value::Quantity(one.minus(*other)))
        }
        ("sub", [Value::Quantity(one), Value::Int(other)]) => {
            Ok(Value::Quantity(one.minus(of_int(other))))
        }
        _ => return None,
    })
}
