//! Match conditions: expressions that all have to be true for a webhook or a policy to be about a
//! write.

use machinery::cel::Outcome;
use machinery::cel::admission::{
    CONDITIONS_BUDGET, Compiler, Evaluation, Expression, Stop, Variables, Wanted,
};
use machinery::object;
use serde_json::Value;

use super::expressions::{Rights, Write};

/// Compiled once with the webhook or policy.
#[derive(Default)]
pub(super) struct Conditions(Vec<Expression>);

impl Conditions {
    /// Compiles the conditions of a webhook or of the spec of a policy.
    pub(super) fn read(object: &Value, compiler: &Compiler) -> Conditions {
        let all = object::items(object, &["matchConditions"]).iter();
        let sources = all.map(|one| object::text(one, &["expression"]));
        let compiled = sources.map(|source| compiler.compile(source, Wanted::Bool, true));
        Conditions(compiled.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all are true, for a webhook, which has no variables or parameters.
    pub(super) async fn are_met(
        &self,
        write: &Write,
        rights: &mut Rights<'_>,
    ) -> Result<bool, String> {
        let variables = Variables::new();
        rights
            .evaluate(|decisions| {
                let inputs = write.inputs(&Value::Null, decisions);
                self.check(Evaluation::new(inputs, &variables, CONDITIONS_BUDGET))
            })
            .await
    }

    /// Whether all are true. One that is false decides, even if others fail.
    pub(super) fn check<'a>(
        &'a self,
        mut evaluation: Evaluation<'a>,
    ) -> Result<Result<bool, String>, machinery::cel::admission::Question> {
        let mut is_false = false;
        let mut failures: Vec<String> = Vec::new();
        for condition in &self.0 {
            match evaluation.evaluate(condition) {
                Ok(Ok(outcome)) => is_false |= outcome == Outcome::Bool(false),
                Ok(Err(why)) if failures.contains(&why) => {}
                Ok(Err(why)) => failures.push(why),
                Err(Stop::Undecided(question)) => return Err(question),
                Err(stop @ Stop::OutOfBudget) => return Ok(Err(stop.to_string())),
            }
        }
        Ok(match failures.as_slice() {
            _ if is_false => Ok(false),
            [] => Ok(true),
            [only] => Err(only.clone()),
            all => Err(format!("[{}]", all.join(", "))),
        })
    }
}
