//! Calls of functions: their arguments, their results, and what they cost.

use std::collections::HashMap;
use std::rc::Rc;

use super::{Evaluated, Evaluator, Failure, Need, WORK_MAX, error};
use crate::custom::cel::cost::calls;
use crate::custom::cel::library::authorization::Check;
use crate::custom::cel::syntax::ast::{Expr, ExprKind, Literal};
use crate::custom::cel::value::Value;
use crate::custom::cel::{Program, library};

/// The functions that look at all that their arguments hold.
const WALKING: [&str; 13] = [
    "_==_",
    "_!=_",
    "@in",
    "distinct",
    "flatten",
    "indexOf",
    "isSorted",
    "lastIndexOf",
    "max",
    "min",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
];

impl<'a> Evaluator<'a, '_> {
    pub(super) fn call(
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
                let patterns = &self.program.patterns;
                let result = library::call(function, &values, patterns, &mut self.met);
                let cost = calls::actual(function, overload, &values, result.as_ref().ok());
                let cost = cost.saturating_add(self.met.take_cost());
                (result.map_err(Failure::Error), cost)
            }
        }
    }

    /// Counts what the values hold. False if that is too much.
    fn may_walk(&mut self, values: &[Value]) -> bool {
        for value in values {
            let extent = value.extent(&mut HashMap::new());
            // A list of an object counts as one value there, and is looked through all the same.
            let items = match value {
                Value::List(list) => list.len() as u64,
                _ => 0,
            };
            self.work = self.work.saturating_add(extent.count.max(items));
        }
        self.work <= WORK_MAX
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
        Value::String(text) => program.patterns.get(text).is_some(),
        _ => false,
    };
    matches!(function, "matches" | "find" | "findAll") && values.get(1).is_some_and(is_pattern)
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
