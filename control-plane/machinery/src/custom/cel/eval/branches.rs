//! Operators that need not evaluate all of their operands.

use super::{Evaluated, Evaluator, Failure, error};
use crate::custom::cel::syntax::ast::{Expr, ExprKind};
use crate::custom::cel::types::Type;
use crate::custom::cel::value::Value;

impl<'a> Evaluator<'a, '_> {
    /// `&&` and `||`: one side may decide alone, even if the other fails.
    pub(super) fn logic(
        &mut self,
        left: &'a Expr,
        right: &'a Expr,
        decides: bool,
    ) -> Evaluated<'a> {
        let mut failure = None;
        for side in [left, right] {
            match self.eval(side) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    failure.get_or_insert(Failure::Error("no such overload".to_owned()));
                }
                Err(failure) if failure.is_final() => return Err(failure),
                Err(other) => {
                    failure.get_or_insert(other);
                }
            }
        }
        failure.map_or(Ok(Value::Bool(!decides)), Err)
    }

    /// An alternative: a variable that is chosen costs only the way from it.
    pub(super) fn branch(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        let value = self.eval(expr);
        if is_attribute(expr) {
            self.cost = self.cost.saturating_sub(1);
        }
        value
    }

    /// The alternative of an optional is evaluated only if it is needed.
    pub(super) fn or(&mut self, target: Option<&'a Expr>, other: &'a Expr) -> Evaluated<'a> {
        let Some(target) = target else {
            return error("no such overload: or");
        };
        match self.eval(target)? {
            Value::Optional(None) => self.eval(other),
            Value::Optional(Some(inner)) => {
                let is_or_value =
                    !matches!(self.program.checked.types[other.id], Type::Optional(_));
                Ok(if is_or_value {
                    Value::clone(&inner)
                } else {
                    Value::Optional(Some(inner))
                })
            }
            _ => error("no such overload"),
        }
    }
}

/// Whether an expression is a variable or a part of one.
fn is_attribute(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Ident(_) => true,
        ExprKind::Select { operand, test, .. } => !test && is_attribute(operand),
        ExprKind::Call {
            function,
            arguments,
            ..
        } => {
            matches!(function.as_str(), "_[_]" | "_[?_]" | "_?._")
                && arguments.first().is_some_and(is_attribute)
        }
        _ => false,
    }
}
