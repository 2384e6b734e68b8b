//! ValidatingAdmissionPolicy: expressions that the state to store has to fulfil.

use std::collections::HashMap;

use machinery::cel::Outcome;
use machinery::cel::admission::{
    BUDGET, CONDITIONS_BUDGET, Compiler, Decision, Evaluation, Expression, Question, Stop, Wanted,
};
use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::Value;

use super::super::expressions::{Rights, Write};
use super::super::{Attributes, Context};
use super::audit::{self, Published};
use super::definition::{Action, Effect, Policy};
use super::{Invocation, Policies, namespace_object};
use crate::audit::as_go;

/// The plugin's name.
pub(in super::super) const NAME: &str = "ValidatingAdmissionPolicy";

/// The longest message that an expression may make, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The policies that may refuse writes.
pub(in super::super) struct Validating(Policies<Checks>);

/// What a policy checks.
struct Checks {
    validations: Vec<Validation>,
    /// What the audit log is to say, by key.
    annotations: Vec<(String, Expression)>,
}

struct Validation {
    expression: Expression,
    message_expression: Option<Expression>,
    message: String,
    reason: Reason,
}

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Forbidden,
    Invalid,
    TooLarge,
}

/// Why a policy does not accept a write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Denial {
    /// The place of the validation among those of the policy.
    at: usize,
    message: String,
    reason: Reason,
}

/// What a policy says of a write.
#[derive(Debug, Default)]
struct Verdict {
    /// The binding says what follows from them.
    denials: Vec<Denial>,
    /// They refuse the write, whatever the binding says.
    failed_annotations: Vec<Denial>,
    /// Annotations for the audit log, by key.
    annotations: Vec<(String, String)>,
}

impl Validating {
    pub(in super::super) fn new() -> Validating {
        Validating(Policies::new(
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ))
    }

    /// Evaluates the policies that a write concerns. Of several refusals the first counts, in the
    /// order of the policies and their bindings.
    pub(in super::super) async fn validate(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        let found = self.0.find(context, attributes, object).await?;
        if found.is_empty() {
            return Ok(());
        }
        let namespace = namespace_object(context, attributes).await?;
        let mut rights = Rights::new(context, attributes.user);
        let mut published = Published::default();
        let mut refused: Option<(String, Reason)> = None;
        let mut refuse = |policy: &str, binding: Option<&str>, denial: &Denial| {
            let with = binding.map(|binding| format!(" with binding '{binding}'"));
            let (with, why) = (with.unwrap_or_default(), &denial.message);
            let message = format!("{NAME} '{policy}'{with} denied request: {why}");
            refused.get_or_insert((message, denial.reason));
        };
        for one in &found {
            let invocation = match one {
                Ok(invocation) => invocation,
                Err(wrong) if wrong.policy.ignores_failures => continue,
                Err(wrong) => {
                    let binding = wrong.binding.as_ref().map(|binding| binding.name.as_str());
                    let denial = Denial::failed(wrong.message());
                    refuse(&wrong.policy.name, binding, &denial);
                    continue;
                }
            };
            let Invocation {
                policy, binding, ..
            } = invocation;
            let matched = &invocation.matched;
            let write = Write::new(attributes, matched, object, namespace.clone()).await?;
            let verdict = rights
                .evaluate(|decisions| policy.judge(&write, &invocation.params, decisions))
                .await;
            for (key, value) in &verdict.annotations {
                published.add(format!("{}/{key}", policy.name), value);
            }
            let name = Some(binding.name.as_str());
            for denial in &verdict.denials {
                for action in &binding.actions {
                    match action {
                        Action::Deny => refuse(&policy.name, name, denial),
                        Action::Warn => attributes.warnings.add([format!(
                            "Validation failed for {NAME} '{}' with binding '{}': {}",
                            policy.name, binding.name, denial.message
                        )]),
                        Action::Audit => attributes.annotate(audit::FAILURE, || {
                            let actions = binding.actions.iter();
                            as_go(&[audit::Failure {
                                message: &denial.message,
                                policy: &policy.name,
                                binding: &binding.name,
                                expression_index: denial.at,
                                validation_actions: actions.map(|one| one.name()).collect(),
                            }])
                        }),
                    }
                }
            }
            for denial in &verdict.failed_annotations {
                refuse(&policy.name, name, denial);
            }
        }
        published.annotate(attributes);
        match refused {
            Some((message, reason)) => Err(refusal(attributes, &message, reason)),
            None => Ok(()),
        }
    }
}

impl Effect for Checks {
    fn read(spec: &Value, compiler: &Compiler) -> Checks {
        let validations = object::items(spec, &["validations"]).iter().map(|one| {
            let text = |key: &str| object::text(one, &[key]);
            let source = text("messageExpression");
            Validation {
                expression: compiler.compile(text("expression"), Wanted::Bool, true),
                message_expression: (!source.is_empty())
                    .then(|| compiler.compile(source, Wanted::String, false)),
                message: text("message").trim().to_owned(),
                reason: match text("reason") {
                    "Forbidden" => Reason::Forbidden,
                    "RequestEntityTooLarge" => Reason::TooLarge,
                    _ => Reason::Invalid,
                },
            }
        });
        let annotations = object::items(spec, &["auditAnnotations"]).iter();
        let annotations = annotations.map(|one| {
            let source = object::text(one, &["valueExpression"]);
            let expression = compiler.compile(source, Wanted::StringOrNull, true);
            (object::text(one, &["key"]).to_owned(), expression)
        });
        Checks {
            validations: validations.collect(),
            annotations: annotations.collect(),
        }
    }
}

impl Policy<Checks> {
    /// What the policy says of a write.
    fn judge(
        &self,
        write: &Write,
        params: &Value,
        decisions: &HashMap<Question, Decision>,
    ) -> Result<Verdict, Question> {
        let begin =
            |budget: u64| Evaluation::new(write.inputs(params, decisions), &self.variables, budget);
        match self.conditions.check(begin(CONDITIONS_BUDGET))? {
            Ok(true) => {}
            Ok(false) => return Ok(Verdict::default()),
            Err(why) => return Ok(self.fails(why)),
        }
        let mut evaluation = begin(BUDGET);
        let mut results = Vec::new();
        for validation in &self.effect.validations {
            match evaluation.evaluate(&validation.expression) {
                Ok(result) => results.push(result),
                Err(Stop::Undecided(question)) => return Err(question),
                Err(stop @ Stop::OutOfBudget) => return Ok(self.fails(stop.to_string())),
            }
        }
        let messages = self.messages(begin(evaluation.budget()))?;
        let mut verdict = Verdict::default();
        for (at, result) in results.into_iter().enumerate() {
            let denial = self.denial(&self.effect.validations[at], result, &messages, at);
            verdict.denials.extend(denial);
        }
        let mut evaluation = begin(BUDGET);
        for (key, annotation) in &self.effect.annotations {
            match evaluation.evaluate(annotation) {
                Ok(Ok(Outcome::String(text))) if !text.trim().is_empty() => {
                    let value = text.trim().to_owned();
                    verdict.annotations.push((key.clone(), value));
                }
                Ok(Err(why)) if !self.ignores_failures => {
                    verdict.failed_annotations.push(Denial::failed(why));
                }
                Ok(_) => {}
                Err(Stop::Undecided(question)) => return Err(question),
                Err(stop @ Stop::OutOfBudget) => return Ok(self.fails(stop.to_string())),
            }
        }
        Ok(verdict)
    }

    /// The texts of all message expressions, in the order of the validations, or why there was no
    /// budget for them.
    fn messages<'a>(
        &'a self,
        mut evaluation: Evaluation<'a>,
    ) -> Result<Result<Vec<Option<String>>, Stop>, Question> {
        let mut messages = Vec::new();
        for validation in &self.effect.validations {
            let Some(expression) = &validation.message_expression else {
                messages.push(None);
                continue;
            };
            messages.push(match evaluation.evaluate(expression) {
                Ok(Ok(Outcome::String(text))) => Some(text),
                Ok(_) => None,
                Err(Stop::Undecided(question)) => return Err(question),
                Err(stop @ Stop::OutOfBudget) => return Ok(Err(stop)),
            });
        }
        Ok(Ok(messages))
    }

    fn denial(
        &self,
        validation: &Validation,
        result: Result<Outcome, String>,
        messages: &Result<Vec<Option<String>>, Stop>,
        at: usize,
    ) -> Option<Denial> {
        match (result, messages) {
            (Err(why), _) => (!self.ignores_failures).then(|| Denial {
                at,
                ..Denial::failed(why)
            }),
            (Ok(_), Err(stop)) => (!self.ignores_failures).then(|| Denial {
                at,
                ..Denial::failed(format!("failed messageExpression: {stop}"))
            }),
            (Ok(Outcome::Bool(true)), Ok(_)) => None,
            (Ok(_), Ok(messages)) => Some(Denial {
                at,
                message: validation.message(messages.get(at).and_then(Option::as_deref)),
                reason: validation.reason,
            }),
        }
    }

    /// The verdict of a policy that cannot be evaluated.
    fn fails(&self, why: String) -> Verdict {
        let mut verdict = Verdict::default();
        if !self.ignores_failures {
            verdict.denials.push(Denial::failed(why));
        }
        verdict
    }
}

impl Validation {
    /// The message of a refusal; `made` is what the message expression says.
    fn message(&self, made: Option<&str>) -> String {
        let made = made.unwrap_or_default().trim();
        let fits = made.len() <= MESSAGE_BYTES_MAX && !made.contains('\n');
        if !made.is_empty() && fits {
            made.to_owned()
        } else if !self.message.is_empty() {
            self.message.clone()
        } else {
            format!("failed expression: {}", self.expression.source().trim())
        }
    }
}

impl Denial {
    /// What could not be evaluated.
    fn failed(message: String) -> Denial {
        Denial {
            at: 0,
            message,
            reason: Reason::Invalid,
        }
    }
}

/// The error for a write that a policy refuses.
fn refusal(attributes: &Attributes<'_>, message: &str, reason: Reason) -> Status {
    let mut status = attributes.forbidden(message);
    (status.code, status.reason) = match reason {
        Reason::Forbidden => (403, "Forbidden"),
        Reason::Invalid => (422, "Invalid"),
        Reason::TooLarge => (413, "RequestEntityTooLarge"),
    };
    status.details.causes.push(Cause {
        message: message.to_owned(),
        ..Cause::default()
    });
    status
}
