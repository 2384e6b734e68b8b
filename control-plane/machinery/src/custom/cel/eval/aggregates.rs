//! Lists, maps and messages that an expression makes.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Evaluated, Evaluator, Failure, error};
use crate::custom::cel::cost::range;
use crate::custom::cel::syntax::ast::{Entry, Expr, MessageField};
use crate::custom::cel::value::{List, Made, Map, Message, Value, shown};

impl<'a> Evaluator<'a, '_> {
    pub(super) fn list(&mut self, expr: &Expr, items: &'a [(bool, Expr)]) -> Evaluated<'a> {
        let mut values = Vec::with_capacity(items.len());
        for (optional, item) in items {
            let value = match self.eval(item) {
                Err(failure) => {
                    self.spend(range::LIST_COST)?;
                    return Err(failure);
                }
                Ok(value) => value,
            };
            match (optional, value) {
                (true, Value::Optional(None)) => {}
                (true, Value::Optional(Some(inner))) => values.push(Value::clone(&inner)),
                (true, other) => {
                    let other = shown(&other);
                    return error(format!(
                        "cannot initialize optional list element from non-optional value {other}"
                    ));
                }
                (false, value) => values.push(value),
            }
        }
        if !self.program.constants.contains(&expr.id) {
            self.spend(range::LIST_COST)?;
        }
        Ok(Value::List(List::made(values, None)))
    }

    pub(super) fn map(&mut self, expr: &Expr, entries: &'a [Entry]) -> Evaluated<'a> {
        let mut made = Made::default();
        for entry in entries {
            let both = self
                .eval(&entry.key)
                .and_then(|key| Ok((key, self.eval(&entry.value)?)));
            let (key, value) = match both {
                Err(failure) => {
                    self.spend(range::MAP_COST)?;
                    return Err(failure);
                }
                Ok(both) => both,
            };
            let value = match (entry.optional, value) {
                (true, Value::Optional(None)) => continue,
                (true, Value::Optional(Some(inner))) => Value::clone(&inner),
                (true, other) => {
                    let (key, other) = (shown(&key), shown(&other));
                    return error(format!(
                        "cannot initialize optional entry '{key}' from non-optional value {other}"
                    ));
                }
                (false, value) => value,
            };
            made.set(key, value).map_err(Failure::Error)?;
        }
        if !self.program.constants.contains(&expr.id) {
            self.spend(range::MAP_COST)?;
        }
        Ok(Value::Map(Map::Made(Rc::new(made))))
    }

    pub(super) fn message(&mut self, name: &'a str, fields: &'a [MessageField]) -> Evaluated<'a> {
        let mut made = BTreeMap::new();
        for field in fields {
            let value = match (field.optional, self.eval(&field.value)) {
                (_, Err(failure)) => {
                    self.spend(range::MESSAGE_COST)?;
                    return Err(failure);
                }
                (true, Ok(Value::Optional(None))) => continue,
                (true, Ok(Value::Optional(Some(inner)))) => Value::clone(&inner),
                (true, Ok(other)) => {
                    let (name, other) = (&field.name, shown(&other));
                    return error(format!(
                        "cannot initialize optional entry '{name}' from non-optional value {other}"
                    ));
                }
                (false, Ok(value)) => value,
            };
            made.insert(field.name.as_str(), value);
        }
        self.spend(range::MESSAGE_COST)?;
        Ok(Value::Message(Rc::new(Message { name, fields: made })))
    }
}
