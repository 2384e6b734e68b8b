//! Evaluates the expressions of admission for one write.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use serde_json::Value as Json;

use super::{Decision, Expression, Question, Target, Variables};
use crate::custom::cel::eval::{Evaluated, Failure, Host, Need, eval};
use crate::custom::cel::library::authorization::Check;
use crate::custom::cel::types::shape::Shape;
use crate::custom::cel::value::read;
use crate::custom::cel::value::{Value, Why};
use crate::custom::cel::{CALL_COST_MAX, Outcome};

/// The most levels and values of a variable. Each level costs stack wherever a value is used, and
/// each variable can double those before it.
const DEPTH_MAX: u64 = 100;
const COUNT_MAX: u64 = 1_000_000;
/// The most bytes of an error that an error about another variable repeats.
const WHY_MAX: usize = 4096;
/// Why an expression has no result that is too expensive.
const TOO_EXPENSIVE: &str = "operation cancelled: actual cost limit exceeded";

static ANY: LazyLock<Shape> = LazyLock::new(Shape::any);

/// What the expressions see of a write. Each value is null if it is absent.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The new state.
    pub object: &'a Json,
    /// The stored state.
    pub old_object: &'a Json,
    /// The parameters of a policy.
    pub params: &'a Json,
    /// What is asked, as in a review, without the objects.
    pub request: &'a Json,
    /// The namespace of the object.
    pub namespace: &'a Json,
    /// What the request is about, for `authorizer.requestResource`.
    pub target: &'a Target,
    /// The answers to questions about rights so far.
    pub decisions: &'a HashMap<Question, Decision>,
}

/// Evaluates expressions with one budget, and with variables that are evaluated once.
pub struct Evaluation<'a> {
    inputs: Inputs<'a>,
    variables: &'a Variables,
    values: RefCell<HashMap<&'a str, Result<Value<'a>, Why>>>,
    budget: u64,
}

/// Why no further expression can be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The budget is used up.
    OutOfBudget,
    /// This question has to be answered first.
    Undecided(Question),
}

/// The result of an expression; the error is for its author.
type Answered<T> = Result<Result<T, String>, Stop>;

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::OutOfBudget => f.write_str(
                "validation failed due to running out of cost budget, no further validation rules \
                 will be run",
            ),
            Stop::Undecided(question) => write!(f, "not decided: {question:?}"),
        }
    }
}

impl<'a> Evaluation<'a> {
    /// An evaluation with the variables of a policy.
    pub fn new(inputs: Inputs<'a>, variables: &'a Variables, budget: u64) -> Evaluation<'a> {
        Evaluation {
            inputs,
            variables,
            values: RefCell::default(),
            budget,
        }
    }

    /// What is left of the budget.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Evaluates an expression.
    pub fn evaluate(&mut self, expression: &'a Expression) -> Answered<Outcome> {
        let value = self.value(expression)?;
        Ok(value.map(|value| Outcome::of(&value)))
    }

    /// The value of an expression. Variables that it needs are evaluated before it is evaluated
    /// again, one after the other: a chain of variables must not become a chain of calls.
    pub(super) fn value(&mut self, expression: &'a Expression) -> Answered<Value<'a>> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(refusal) => return Ok(Err(format!("compilation error: {}", refusal.why))),
        };
        let mut spent = 0;
        let (result, cost) = loop {
            let (result, cost) = eval(program, self, CALL_COST_MAX);
            match result {
                Err(Failure::Needs(need)) => spent += self.supply(need)?,
                result => break (result, cost),
            }
        };
        for cost in [spent, cost] {
            let left = self.budget.checked_sub(cost);
            self.budget = left.ok_or(Stop::OutOfBudget)?;
        }
        Ok(result.map_err(|failure| {
            let (source, why) = (&expression.source, told(failure));
            format!("expression '{source}' resulted in error: {why}")
        }))
    }

    /// Evaluates a variable, and before it those that it uses. Returns what that costs.
    fn supply(&self, need: Need) -> Result<u64, Stop> {
        let mut spent = 0;
        let mut open = vec![need];
        while let Some(need) = open.last() {
            let name = match need {
                Need::Decision(question) => return Err(Stop::Undecided(question.clone())),
                Need::Composed(name) => name,
            };
            let Some((name, expression)) = self.variables.get_key_value(name) else {
                break;
            };
            let value = match &expression.program {
                Err(refusal) => {
                    let why = &refusal.why;
                    Err(format!(
                        "composited variable {name:?} fails to compile: {why}"
                    ))
                }
                Ok(program) => {
                    let (result, cost) = eval(program, self, CALL_COST_MAX);
                    let fails = |why: &str| {
                        let why = &why[..why.floor_char_boundary(WHY_MAX)];
                        format!("composited variable {name:?} fails to evaluate: {why}")
                    };
                    match result {
                        // Only a variable that hides its own name from the checker uses itself.
                        Err(Failure::Needs(need)) if open.contains(&need) => {
                            Err(fails("it uses itself"))
                        }
                        Err(Failure::Needs(need)) => {
                            open.push(need);
                            continue;
                        }
                        result => {
                            spent += cost;
                            let result = result.map_err(told).and_then(bounded);
                            result.map_err(|why| fails(&why))
                        }
                    }
                }
            };
            self.values.borrow_mut().insert(name, value);
            open.pop();
        }
        Ok(spent)
    }
}

impl<'a> Host<'a> for Evaluation<'a> {
    fn variable(&self, name: &str) -> Option<Result<Value<'a>, Why>> {
        let inputs = &self.inputs;
        let json = match name {
            "object" => inputs.object,
            "oldObject" => inputs.old_object,
            "params" => inputs.params,
            "request" => inputs.request,
            "namespaceObject" => inputs.namespace,
            "variables" => return Some(Ok(Value::Composed)),
            "authorizer" => return Some(Ok(Value::Check(Rc::new(Check::of_user())))),
            "authorizer.requestResource" => {
                let check = Check::of_request(inputs.target.clone());
                return Some(Ok(Value::Check(Rc::new(check))));
            }
            _ => return None,
        };
        Some(read::value(json, &ANY))
    }

    fn composed(&self, name: &str) -> Option<Evaluated<'a>> {
        if let Some(value) = self.values.borrow().get(name) {
            return Some(value.clone().map_err(Failure::Error));
        }
        self.variables.get(name)?;
        Some(Err(Failure::Needs(Need::Composed(name.to_owned()))))
    }

    fn decision(&self, question: &Question) -> Option<Decision> {
        self.inputs.decisions.get(question).cloned()
    }
}

/// A value that is not too large for others to be made of it.
pub(super) fn bounded(value: Value<'_>) -> Result<Value<'_>, Why> {
    let extent = value.extent(&mut HashMap::new());
    if extent.depth > DEPTH_MAX || extent.count > COUNT_MAX {
        return Err("its value is too large".to_owned());
    }
    Ok(value)
}

fn told(failure: Failure) -> Why {
    match failure {
        Failure::Error(why) => why,
        Failure::TooExpensive => TOO_EXPENSIVE.to_owned(),
        Failure::Needs(need) => format!("unknown: {need:?}"),
    }
}
