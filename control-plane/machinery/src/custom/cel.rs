//! The Common Expression Language, with Kubernetes' libraries, costs and errors.
//!
//! [`Environment::compile`] reads an expression, checks its types and estimates what it may cost.
//! [`Program::evaluate`] evaluates it over JSON values, which it reads in place: nothing of an
//! object is copied but what the result is made of. Each evaluation has a budget.

pub mod access;
pub mod admission;
mod check;
mod cost;
pub mod devices;
mod eval;
mod functions;
mod issue;
mod library;
mod literals;
mod syntax;
#[cfg(test)]
mod tests;
mod types;
mod value;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::values::pattern::Patterns;
use check::Checked;
use eval::{Failure, Host};
use syntax::ast::Expr;
use types::Type;
pub use types::shape::is_reserved;
pub(crate) use types::shape::{Identity, REQUEST_MAX, Shape, ShapeKind};
use value::{Value, Why};

/// What one evaluation may cost.
pub(crate) const CALL_COST_MAX: u64 = 1_000_000;
/// Upper bound of the patterns of one expression, compiled, in bytes.
const PATTERNS_BYTES_MAX: usize = 16 << 20;

/// The variables that expressions may use.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(String, Type)>,
    shapes: Vec<Arc<Shape>>,
    /// The fields of `variables`, which are evaluated when they are used.
    composed: Arc<HashMap<String, Type>>,
    /// Whether expressions may make patches.
    makes_patches: bool,
}

/// An expression that is ready to be evaluated.
#[derive(Debug)]
pub struct Program {
    expr: Expr,
    checked: Checked,
    /// The nodes whose values do not depend on variables: they cost nothing.
    constants: HashSet<usize>,
    /// The patterns that are literals.
    patterns: Patterns,
    any: Arc<Shape>,
    cost_max: u64,
}

/// The result of an expression, as JSON would have it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A boolean.
    Bool(bool),
    /// A string.
    String(String),
    /// No value.
    Null,
    /// Something else, of the type with this name.
    Other(String),
}

/// Why an expression has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The values do not allow it.
    Failed(String),
    /// It costs more than its budget.
    TooExpensive,
}

/// What a variable has as its value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Variable<'a> {
    Json(&'a Json, &'a Shape),
    Optional(Option<(&'a Json, &'a Shape)>),
}

impl Environment {
    /// An environment without variables.
    pub fn new() -> Environment {
        Environment::default()
    }

    /// Adds a variable that may have any JSON value.
    #[must_use]
    pub fn with_any(mut self, name: &str) -> Environment {
        self.variables.push((name.to_owned(), Type::Dyn));
        self
    }

    /// Adds a variable whose values have a shape; with `optional`, there may be no value.
    #[must_use]
    pub(crate) fn with_shape(
        mut self,
        name: &str,
        shape: &Arc<Shape>,
        optional: bool,
    ) -> Environment {
        let found = shape.kind_of.clone();
        let found = if optional {
            Type::optional(found)
        } else {
            found
        };
        self.variables.push((name.to_owned(), found));
        if !self.shapes.iter().any(|one| Arc::ptr_eq(one, shape)) {
            self.shapes.push(Arc::clone(shape));
        }
        self
    }

    /// Adds a variable of a type.
    #[must_use]
    fn with_type(mut self, name: &str, found: Type) -> Environment {
        self.variables.push((name.to_owned(), found));
        self
    }

    /// Compiles an expression; the error is for its author.
    pub fn compile(&self, source: &str) -> Result<Program, String> {
        let mut left = PATTERNS_BYTES_MAX;
        self.compile_within(source, &mut left)
    }

    /// Like [`Environment::compile`], for one expression of several: `left` is how many bytes the
    /// patterns of this one and of those after it may take.
    pub(crate) fn compile_within(&self, source: &str, left: &mut usize) -> Result<Program, String> {
        let most = PATTERNS_BYTES_MAX.min(*left);
        let mut patterns = Patterns::within(most);
        let read = self.read(source, &mut patterns);
        *left -= most - patterns.left();
        let (expr, checked, constants) = read?;
        let root = self.shapes.first().map(|shape| &**shape);
        Ok(Program {
            cost_max: cost::estimate::estimate(&expr, &checked, root).max,
            expr,
            checked,
            constants,
            patterns,
            any: Arc::new(Shape::any()),
        })
    }

    fn read(
        &self,
        source: &str,
        patterns: &mut Patterns,
    ) -> Result<(Expr, Checked, HashSet<usize>), String> {
        let told = |issues: &[issue::Issue]| issue::tell(source, issues);
        let failed = |why: String| format!("compilation failed: {why}");
        let expr = syntax::parse::parse(source).map_err(|issue| failed(told(&[issue])))?;
        let checked = check::check(&expr, self).map_err(|issues| failed(told(&issues)))?;
        let issues = literals::check(&expr, &checked, patterns);
        if !issues.is_empty() {
            return Err(failed(told(&issues)));
        }
        let uninstantiable = |why| format!("program instantiation failed: {why}");
        let constants = literals::constants(&expr, &checked).map_err(uninstantiable)?;
        literals::compile(&expr, patterns).map_err(uninstantiable)?;
        Ok((expr, checked, constants))
    }
}

impl Program {
    /// What an evaluation costs at most, as estimated before there are values.
    pub fn cost_max(&self) -> u64 {
        self.cost_max
    }

    /// Whether the expression uses a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.checked.variables.iter().any(|one| one == variable)
    }

    /// The type of its result.
    fn result(&self) -> &Type {
        &self.checked.types[self.expr.id]
    }

    /// Whether its result is a boolean.
    pub fn is_bool(&self) -> bool {
        self.checked.types[self.expr.id] == Type::Bool
    }

    /// Whether its result is a string.
    pub fn is_string(&self) -> bool {
        self.checked.types[self.expr.id] == Type::String
    }

    /// Evaluates the expression with the values of its variables; what costs more than `budget`
    /// fails. Returns the cost, too.
    pub fn evaluate<'a>(
        &'a self,
        variables: &'a dyn Fn(&str) -> Option<&'a Json>,
        budget: u64,
    ) -> (Result<Outcome, Error>, u64) {
        let lookup = |name: &str| Some(Variable::Json(variables(name)?, &self.any));
        self.evaluate_with(&lookup, budget)
    }

    /// Like [`Program::evaluate`], for variables with shapes.
    pub(crate) fn evaluate_with<'a>(
        &'a self,
        variables: &dyn Fn(&str) -> Option<Variable<'a>>,
        budget: u64,
    ) -> (Result<Outcome, Error>, u64) {
        let lookup = |name: &str| Some(read_variable(variables(name)?));
        let (result, cost) = eval::eval(self, &Lookup(&lookup), budget);
        let outcome = match result {
            Ok(value) => Ok(Outcome::of(&value)),
            Err(Failure::Error(why)) => Err(Error::Failed(why)),
            Err(Failure::TooExpensive) => Err(Error::TooExpensive),
            Err(Failure::Needs(need)) => Err(Error::Failed(format!("unknown: {need:?}"))),
        };
        (outcome, cost)
    }
}

impl Outcome {
    fn of(value: &Value) -> Outcome {
        match value {
            Value::Bool(value) => Outcome::Bool(*value),
            Value::String(text) => Outcome::String(text.to_string()),
            Value::Null => Outcome::Null,
            other => Outcome::Other(other.type_name()),
        }
    }
}

/// Values of variables alone.
struct Lookup<'h, 'a>(&'h dyn Fn(&str) -> Option<Result<Value<'a>, Why>>);

impl<'a> Host<'a> for Lookup<'_, 'a> {
    fn variable(&self, name: &str) -> Option<Result<Value<'a>, Why>> {
        (self.0)(name)
    }
}

fn read_variable<'a>(variable: Variable<'a>) -> Result<Value<'a>, String> {
    match variable {
        Variable::Json(json, shape) => value::read::value(json, shape),
        Variable::Optional(None) => Ok(Value::Optional(None)),
        Variable::Optional(Some((json, shape))) => value::read::value(json, shape).map(Value::some),
    }
}
