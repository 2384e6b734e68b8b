//! Evaluates an expression.
//!
//! Everything that is done costs what Kubernetes counts for it; the evaluation stops when the
//! budget is used up. Besides, `work` bounds what the costs do not show: items that are copied.

mod aggregates;
mod folds;
mod select;

use std::collections::HashMap;
use std::rc::Rc;

use super::cost::calls;
use super::library::authorization::{Check, Decision, Question};
use super::syntax::ast::{Expr, ExprKind, Literal};
use super::syntax::macros::ACCU;
use super::value::{Text, Value, Why};
use super::{Program, library};

/// The most items that are copied from list to list, and values that are compared with others.
/// Kubernetes' costs do not tell how much that is: a list of two lists, each of which is one list
/// twice, and so on, has two items.
const WORK_MAX: u64 = 50_000_000;
/// The functions that look at all that their arguments hold.
const WALKING: [&str; 12] = [
    "_==_",
    "_!=_",
    "@in",
    "distinct",
    "indexOf",
    "isSorted",
    "lastIndexOf",
    "max",
    "min",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
];

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

    fn call(
        &mut self,
        expr: &'a Expr,
        function: &'a str,
        target: Option<&'a Expr>,
        arguments: &'a [Expr],
    ) -> Evaluated<'a> {
        match (function, arguments) {
            ("_&&_", [left, right]) => return self.logic(left, right, false),
            ("_||_", [left, right]) => return self.logic(left, right, true),
            ("_?_:_", [test, yes, no]) => {
                return match self.eval(test)? {
                    Value::Bool(true) => self.branch(yes),
                    Value::Bool(false) => self.branch(no),
                    _ => error("no such overload"),
                };
            }
            ("@not_strictly_false" | "__not_strictly_false__", [test]) => {
                let value = self.eval(test);
                if value.as_ref().is_err_and(Failure::is_final) {
                    return value;
                }
                self.spend(1)?;
                return Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))));
            }
            ("_[_]" | "_[?_]" | "_?._", [operand, key]) => {
                return self.index(operand, key, function != "_[_]");
            }
            ("or" | "orValue", [other]) if target.is_some() => {
                return self.or(target, other);
            }
            _ => {}
        }
        let program = self.program;
        let constant = program.constants.contains(&expr.id);
        let qualified = program.checked.qualified.get(&expr.id);
        let function = qualified.map_or(function, String::as_str);
        let target = target.filter(|_| qualified.is_none());
        let all = target.into_iter().chain(arguments);
        let (values, failure) = self.arguments(all, arguments.len() + target.iter().len())?;
        let overload = match program.checked.overloads[expr.id].as_slice() {
            [only] => *only,
            _ => "",
        };
        let is_folded =
            constant || overload == "in_list" && is_set_of_constants(program, arguments);
        if let Some(failure) = failure {
            // A call costs even if an argument fails; with many arguments, it is not reached.
            let is_complete = values.len() == arguments.len() + target.iter().len();
            if is_complete && !is_folded && !has_compiled_pattern(program, function, &values) {
                let overload = overload_of(function, overload);
                self.spend(calls::actual(function, overload, &values, None))?;
            }
            return Err(failure);
        }
        let (result, cost) = self.apply(function, overload, values);
        if !is_folded {
            self.spend(cost)?;
        }
        result
    }

    /// The values of arguments, and the first failure; what fails counts as null. Of more than
    /// two arguments, those after a failure are left out.
    fn arguments(
        &mut self,
        all: impl Iterator<Item = &'a Expr>,
        count: usize,
    ) -> Result<(Vec<Value<'a>>, Option<Failure>), Failure> {
        let mut values = Vec::with_capacity(count);
        let mut failure = None;
        for argument in all {
            match self.eval(argument) {
                Ok(value) => values.push(value),
                Err(failure) if failure.is_final() => return Err(failure),
                Err(error) => {
                    failure.get_or_insert(error);
                    if count > 2 {
                        break;
                    }
                    values.push(Value::Null);
                }
            }
        }
        Ok((values, failure))
    }

    /// The result of a function and what it costs.
    fn apply(
        &mut self,
        function: &str,
        overload: &str,
        mut values: Vec<Value<'a>>,
    ) -> (Evaluated<'a>, u64) {
        if WALKING.contains(&function) && !self.may_walk(&values) {
            return (Err(Failure::TooExpensive), 1);
        }
        match (function, values.as_slice()) {
            ("_==_" | "_!=_", [left, right]) => {
                let negated = function == "_!=_";
                let cost = calls::actual(function, overload_of(function, overload), &values, None);
                let equal = left.equals(right).map_err(Failure::Error);
                (equal.map(|equal| Value::Bool(equal != negated)), cost)
            }
            ("!_", [Value::Bool(value)]) => (Ok(Value::Bool(!value)), 1),
            ("-_", [value]) => (library::negate(value).map_err(Failure::Error), 1),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [left, right]) => {
                let cost = calls::actual(function, overload, &values, None);
                let compared = library::compare(function, left, right);
                (compared.map_err(Failure::Error), cost)
            }
            ("_+_", [Value::List(_), Value::List(right)]) => {
                let copied = right.len() as u64 + 1;
                let right = right.clone();
                let Value::List(left) = values.swap_remove(0) else {
                    return (error("no such overload"), 1);
                };
                self.work += copied + left.copies_to_grow() as u64;
                if self.work > WORK_MAX {
                    return (Err(Failure::TooExpensive), 1);
                }
                (
                    left.plus(&right).map(Value::List).map_err(Failure::Error),
                    1,
                )
            }
            ("check", [Value::Check(check), Value::String(verb)]) => {
                let cost = calls::actual(function, overload, &values, None);
                let Some(question) = check.question(verb) else {
                    return (error("no such overload"), cost);
                };
                let decided = match self.host.decision(&question) {
                    Some(decision) => Ok(Value::Check(Rc::new(Check::decided(decision)))),
                    None => Err(Failure::Needs(Need::Decision(question))),
                };
                (decided, cost)
            }
            ("cel.@mapInsert", _) => {
                let result = library::insert(values);
                (result.map_err(Failure::Error), 1)
            }
            _ => {
                let result = library::call(function, &values, &self.program.patterns);
                let cost = calls::actual(function, overload, &values, result.as_ref().ok());
                (result.map_err(Failure::Error), cost)
            }
        }
    }

    /// `&&` and `||`: one side may decide alone, even if the other fails.
    fn logic(&mut self, left: &'a Expr, right: &'a Expr, decides: bool) -> Evaluated<'a> {
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
    fn branch(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        let value = self.eval(expr);
        if is_attribute(expr) {
            self.cost = self.cost.saturating_sub(1);
        }
        value
    }

    /// The alternative of an optional is evaluated only if it is needed.
    fn or(&mut self, target: Option<&'a Expr>, other: &'a Expr) -> Evaluated<'a> {
        let Some(target) = target else {
            return error("no such overload: or");
        };
        match self.eval(target)? {
            Value::Optional(None) => self.eval(other),
            Value::Optional(Some(inner)) => {
                let is_or_value = !matches!(
                    self.program.checked.types[other.id],
                    super::types::Type::Optional(_)
                );
                Ok(if is_or_value {
                    Value::clone(&inner)
                } else {
                    Value::Optional(Some(inner))
                })
            }
            _ => error("no such overload"),
        }
    }

    /// Counts what the values hold. False if that is too much.
    fn may_walk(&mut self, values: &[Value]) -> bool {
        for value in values {
            let extent = value.extent(&mut HashMap::new());
            self.work = self.work.saturating_add(extent.count);
        }
        self.work <= WORK_MAX
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

/// The overload that a call costs as.
fn overload_of<'b>(function: &str, overload: &'b str) -> &'b str {
    match function {
        "_==_" => "equals",
        "_!=_" => "not_equals",
        _ => overload,
    }
}

/// Whether a pattern is compiled beforehand: then the call is not reached without its text.
fn has_compiled_pattern(program: &Program, function: &str, values: &[Value]) -> bool {
    let is_pattern = |value: &Value| match value {
        Value::String(text) => program.patterns.contains_key(&**text),
        _ => false,
    };
    matches!(function, "matches" | "find" | "findAll") && values.get(1).is_some_and(is_pattern)
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

/// Whether a list's items are all constants, so that membership is looked up and costs nothing.
fn is_set_of_constants(program: &Program, arguments: &[Expr]) -> bool {
    let Some(list) = arguments.get(1) else {
        return false;
    };
    let ExprKind::List(items) = &list.kind else {
        return false;
    };
    let is_simple = |item: &Expr| match &item.kind {
        ExprKind::Literal(literal) => !matches!(literal, Literal::Bytes(_) | Literal::Null),
        _ => false,
    };
    program.constants.contains(&list.id) && items.iter().all(|(_, item)| is_simple(item))
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
