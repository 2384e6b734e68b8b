//! Evaluates an expression.
//!
//! Everything that is done costs what Kubernetes counts for it; the evaluation stops when the
//! budget is used up. Besides, `work` bounds what the costs do not show: items that are copied.

mod aggregates;
mod branches;
mod calls;
mod folds;
mod select;

use super::Program;
use super::library::Met;
use super::library::authorization::{Decision, Question};
use super::syntax::ast::{Expr, ExprKind, Literal};
use super::syntax::macros::ACCU;
use super::value::{Text, Value, Why};

/// The most items that are copied from list to list, and values that are compared with others.
/// Kubernetes' costs do not tell how much that is: a list of two lists, each of which is one list
/// twice, and so on, has two items.
const WORK_MAX: u64 = 50_000_000;

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The values do not allow it.
    Error(String),
    /// It costs too much.
    TooExpensive,
    /// Something has to be known first.
    Needs(Need),
}

/// What has to be known before an expression can be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// The value of a variable that is evaluated when it is used.
    Composed(String),
    /// A decision about rights.
    Decision(Question),
}

/// Where an evaluation finds what it does not compute.
pub(super) trait Host<'a> {
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<Result<Value<'a>, Why>>;

    /// The value of a variable that is evaluated when it is used; `None` if there is none.
    fn composed(&self, _name: &str) -> Option<Evaluated<'a>> {
        None
    }

    /// The answer to a question about rights; `None` if it is not known.
    fn decision(&self, _question: &Question) -> Option<Decision> {
        None
    }
}

pub(super) type Evaluated<'a> = Result<Value<'a>, Failure>;

impl Failure {
    /// Whether no other part of the expression can make up for it.
    fn is_final(&self) -> bool {
        !matches!(self, Failure::Error(_))
    }
}

/// Evaluates a program. Returns the cost, too.
pub(super) fn eval<'a>(
    program: &'a Program,
    host: &dyn Host<'a>,
    limit: u64,
) -> (Evaluated<'a>, u64) {
    let mut evaluator = Evaluator {
        program,
        host,
        scopes: Vec::new(),
        cost: 0,
        limit,
        work: 0,
        met: Met::default(),
    };
    let result = evaluator.eval(&program.expr);
    (result, evaluator.cost)
}

struct Evaluator<'a, 'h> {
    program: &'a Program,
    host: &'h dyn Host<'a>,
    /// The variables of loops, the innermost last.
    scopes: Vec<(&'a str, Value<'a>)>,
    cost: u64,
    limit: u64,
    work: u64,
    met: Met,
}

impl<'a> Evaluator<'a, '_> {
    fn eval(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(literal_value(literal)),
            ExprKind::Ident(name) => self.ident(expr, name),
            ExprKind::Select {
                operand,
                field,
                test,
            } => self.select(expr, operand, field, *test),
            ExprKind::Call {
                function,
                target,
                arguments,
            } => self.call(expr, function, target.as_deref(), arguments),
            ExprKind::List(items) => self.list(expr, items),
            ExprKind::Map(entries) => self.map(expr, entries),
            ExprKind::Message { name, fields } => self.message(name, fields),
            ExprKind::Fold(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Evaluated<'a> {
        if let Some(one) = self.program.checked.type_names.get(&expr.id) {
            return Ok(Value::Type(one.clone()));
        }
        self.spend(1)?;
        let mut scopes = self.scopes.iter_mut().rev();
        if let Some((_, value)) = scopes.find(|(own, _)| *own == name) {
            // Only macros name what a loop accumulates, and each round does so once: taking it
            // leaves one owner, so that it grows in place.
            let is_taken = name == ACCU && matches!(value, Value::List(_) | Value::Map(_));
            return Ok(if is_taken {
                std::mem::replace(value, Value::Null)
            } else {
                value.clone()
            });
        }
        match self.host.variable(name) {
            Some(value) => value.map_err(Failure::Error),
            None => error(format!("no such attribute(s): {name}")),
        }
    }

    /// A variable that is evaluated when it is used.
    fn composed(&mut self, name: &str, test: bool) -> Evaluated<'a> {
        if !test {
            self.spend(1)?;
        }
        match (self.host.composed(name), test) {
            (None, true) => Ok(Value::Bool(false)),
            (None, false) => error(format!("no such key: {name}")),
            (Some(value), true) => value.map(|_| Value::Bool(true)),
            (Some(value), false) => value,
        }
    }

    /// A chain of fields costs one more if it does not begin with a variable.
    fn begin_attribute(&mut self, operand: &Expr) -> Result<(), Failure> {
        match &operand.kind {
            ExprKind::Ident(_) | ExprKind::Select { .. } => Ok(()),
            ExprKind::Call { function, .. }
                if matches!(function.as_str(), "_[_]" | "_[?_]" | "_?._" | "_?_:_") =>
            {
                Ok(())
            }
            _ => self.spend(1),
        }
    }

    fn spend(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            Err(Failure::TooExpensive)
        } else {
            Ok(())
        }
    }
}

pub(super) fn literal_value<'a>(literal: &'a Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Borrowed(text)),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

fn error<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Error(why.into()))
}
