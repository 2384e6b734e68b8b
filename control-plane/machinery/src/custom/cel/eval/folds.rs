//! Macros that go over a list or a map.

use super::select::{found, item};
use super::{Evaluated, Evaluator, Failure, error};
use crate::custom::cel::syntax::ast::{ExprKind, Fold, Literal};
use crate::custom::cel::value::Value;

impl<'a> Evaluator<'a, '_> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init)?;
        let depth = self.scopes.len();
        self.scopes.push((&fold.accu, init));
        let result = self.rounds(fold, range, depth);
        self.scopes.truncate(depth);
        result
    }

    fn rounds(&mut self, fold: &'a Fold, range: Value<'a>, accu: usize) -> Evaluated<'a> {
        let mut failed = None;
        let count = match &range {
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            other => {
                return error(format!(
                    "got '{}', expected iterable type",
                    other.type_name()
                ));
            }
        };
        let keys = match &range {
            Value::Map(map) => map.keys(),
            _ => Vec::new(),
        };
        let count = if matches!(range, Value::Map(_)) {
            keys.len()
        } else {
            count
        };
        for at in 0..count {
            let first = match (&range, &fold.var2) {
                (Value::List(_), Some(_)) => Value::Int(i64::try_from(at).unwrap_or(i64::MAX)),
                (Value::List(list), None) => item(list, at)?,
                _ => keys.get(at).cloned().unwrap_or(Value::Null),
            };
            let second = match (&range, &fold.var2) {
                (_, None) => None,
                (Value::List(list), Some(_)) => Some(item(list, at)?),
                (Value::Map(map), Some(_)) => found(map.find(&first))?,
                _ => None,
            };
            self.scopes.push((&fold.var, first));
            if let Some(var2) = &fold.var2 {
                self.scopes.push((var2, second.unwrap_or(Value::Null)));
            }
            let stepped = self.round(fold, failed.is_some());
            self.scopes.truncate(accu + 1);
            match stepped {
                Ok(None) => break,
                Ok(Some(value)) => {
                    // After an error, only what decides alone counts.
                    let decides = matches!(
                        (&fold.init.kind, &value),
                        (ExprKind::Literal(Literal::Bool(init)), Value::Bool(value)) if init != value
                    );
                    if decides {
                        failed = None;
                    }
                    self.scopes[accu].1 = value;
                }
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => {
                    // What is accumulated is an error: `all` and `exists` may still decide.
                    if !matches!(fold.init.kind, ExprKind::Literal(Literal::Bool(_))) {
                        self.spend(1)?;
                        return Err(failure);
                    }
                    failed = failed.or(Some(failure));
                }
            }
        }
        match failed {
            Some(failure) => {
                self.spend(1)?;
                Err(failure)
            }
            None => self.eval(&fold.result),
        }
    }

    /// One round: what is accumulated after it, or `None` if the loop is over.
    pub(super) fn round(
        &mut self,
        fold: &'a Fold,
        failed: bool,
    ) -> Result<Option<Value<'a>>, Failure> {
        // An error that is accumulated ends no loop.
        if failed {
            let is_exists = fold.init.kind.is_literal(&Literal::Bool(false));
            self.spend(if is_exists { 3 } else { 2 })?;
        } else if !matches!(self.eval(&fold.condition)?, Value::Bool(true)) {
            return Ok(None);
        }
        self.eval(&fold.step).map(Some)
    }
}
