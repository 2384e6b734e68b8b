//! Fields and items of values.

use std::rc::Rc;

use super::{Evaluated, Evaluator, Failure, error};
use crate::custom::cel::syntax::ast::Expr;
use crate::custom::cel::value::{List, Text, Value, Why, shown};

impl<'a> Evaluator<'a, '_> {
    pub(super) fn select(
        &mut self,
        expr: &'a Expr,
        operand: &'a Expr,
        field: &'a str,
        test: bool,
    ) -> Evaluated<'a> {
        if let Some(one) = self.program.checked.type_names.get(&expr.id) {
            return Ok(Value::Type(one.clone()));
        }
        if let Some(name) = self.program.checked.names.get(&expr.id) {
            return self.ident(expr, name);
        }
        let value = self.eval(operand);
        if test && matches!(value, Err(Failure::Error(_))) {
            self.cost = self.cost.saturating_sub(1);
        }
        let value = value?;
        self.begin_attribute(operand)?;
        let key = Value::String(Text::Borrowed(field));
        let (value, was_optional) = match value {
            Value::Optional(None) if test => return Ok(Value::Bool(false)),
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (Value::clone(&inner), true),
            plain => (plain, false),
        };
        if let Value::Composed = value {
            return self.composed(field, test);
        }
        if test {
            return match value {
                Value::Map(map) => Ok(Value::Bool(found(map.find(&key))?.is_some())),
                _ => Ok(Value::Bool(false)),
            };
        }
        let found = index(&value, &key);
        if !was_optional || !matches!(found, Ok(None)) {
            self.spend(1)?;
        }
        match found? {
            found if was_optional => Ok(Value::Optional(found.map(Rc::new))),
            Some(found) => Ok(found),
            None => error(missing(&value, &key)),
        }
    }

    pub(super) fn index(
        &mut self,
        operand: &'a Expr,
        key: &'a Expr,
        optional: bool,
    ) -> Evaluated<'a> {
        let value = self.eval(operand)?;
        self.begin_attribute(operand)?;
        let key_value = self.branch(key);
        if let Err(failure) = key_value {
            self.spend(1)?;
            return Err(failure);
        }
        let key_value = key_value?;
        let (value, was_optional) = match value {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (Value::clone(&inner), true),
            plain => (plain, false),
        };
        let found = index(&value, &key_value);
        if !matches!(found, Ok(None)) || !(optional || was_optional) {
            self.spend(1)?;
        }
        match found? {
            found if optional || was_optional => Ok(Value::Optional(found.map(Rc::new))),
            Some(found) => Ok(found),
            None => error(missing(&value, &key_value)),
        }
    }
}

pub(super) fn item<'a>(list: &List<'a>, at: usize) -> Evaluated<'a> {
    match list.get(at) {
        Some(item) => item.map_err(Failure::Error),
        None => error(format!("index out of bounds: {at}")),
    }
}

/// The part of a value that a key or index leads to.
pub(super) fn index<'a>(value: &Value<'a>, key: &Value<'a>) -> Result<Option<Value<'a>>, Failure> {
    match value {
        Value::Map(map) => found(map.item(key)),
        Value::List(list) => {
            let at = match key {
                Value::Int(at) => *at,
                Value::Uint(at) => i64::try_from(*at).unwrap_or(i64::MAX),
                Value::Double(at) if at.fract() == 0.0 => *at as i64,
                Value::Double(at) => {
                    return Err(Failure::Error(format!(
                        "unsupported index value {at} in list"
                    )));
                }
                other => {
                    let is = other.type_name();
                    return Err(Failure::Error(format!(
                        "unsupported index type '{is}' in list"
                    )));
                }
            };
            let at = usize::try_from(at).ok();
            let found = at.and_then(|at| list.get(at)).transpose();
            found.map_err(Failure::Error)
        }
        _ => Ok(None),
    }
}

fn missing(value: &Value, key: &Value) -> String {
    match value {
        Value::List(_) => format!("index out of bounds: {}", shown(key)),
        _ => format!("no such key: {}", shown(key)),
    }
}

pub(super) fn found<'a>(
    result: Result<Option<Value<'a>>, Why>,
) -> Result<Option<Value<'a>>, Failure> {
    result.map_err(Failure::Error)
}
