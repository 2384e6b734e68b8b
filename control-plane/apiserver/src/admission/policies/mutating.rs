//! MutatingAdmissionPolicy: expressions that say how to change the object of a write.

use std::collections::HashMap;

use machinery::cel::admission::{
    BUDGET, CONDITIONS_BUDGET, Compiler, Decision, Evaluation, Expression, Question, Stop, Wanted,
};
use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::Value;

use super::super::expressions::{Rights, Write};
use super::super::rounds::Rounds;
use super::super::{Attributes, CREATE, Context, UPDATE};
use super::definition::{Effect, Policy};
use super::patch::{self, Failure};
use super::{Invocation, Policies, namespace_object};

/// The plugin's name.
pub(in super::super) const NAME: &str = "MutatingAdmissionPolicy";

/// The policies that may change objects.
pub(in super::super) struct Mutating(Policies<Changes>);

/// What a policy changes.
struct Changes {
    mutations: Vec<Mutation>,
    /// Evaluated again after others changed the object.
    reinvoked: bool,
}

enum Mutation {
    Configuration(Expression),
    JsonPatch(Expression),
}

/// What an expression says to do.
enum Patch {
    Configuration(Value),
    Json(Value),
}

/// A policy that failed, and why.
struct Error {
    message: String,
    /// The expressions are to blame, not what the policy refers to.
    is_invalid: bool,
}

impl Mutating {
    pub(in super::super) fn new() -> Mutating {
        Mutating(Policies::new(
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ))
    }

    /// Changes an object as the policies say that its write concerns, one after the other.
    pub(in super::super) async fn mutate(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        if ![CREATE, UPDATE].contains(&attributes.operation) {
            return Ok(());
        }
        let found = self.0.find(context, attributes, object).await?;
        let (mut invocations, mut errors) = (Vec::new(), Vec::new());
        for one in found {
            match one {
                Ok(invocation) => invocations.push(invocation),
                Err(wrong) if wrong.policy.ignores_failures => {}
                Err(wrong) => {
                    let binding = wrong.binding.as_ref().map(|binding| binding.name.as_str());
                    errors.push(Error {
                        message: told(&wrong.policy.name, binding, &wrong.message()),
                        is_invalid: false,
                    });
                }
            }
        }
        if !invocations.is_empty() {
            let namespace = namespace_object(context, attributes).await?;
            let mut rights = Rights::new(context, attributes.user);
            rounds.policies.begin(rounds.again, object);
            for invocation in &invocations {
                let evaluated = invocation
                    .run(attributes, &namespace, &mut rights, object, rounds)
                    .await?;
                errors.extend(evaluated);
            }
            if rounds.policies.is_written() {
                // As in Kubernetes: whatever a policy wrote, even the same, is shown to all again.
                rounds.policies.note_change();
                rounds.changed = true;
            }
            rounds.policies.end(object);
        }
        refusal(attributes, errors)
    }
}

impl Effect for Changes {
    fn read(spec: &Value, compiler: &Compiler) -> Changes {
        let mutations = object::items(spec, &["mutations"]).iter().map(|one| {
            let source = |key: &str| object::text(one, &[key, "expression"]).trim();
            if object::text(one, &["patchType"]) == "JSONPatch" {
                let source = source("jsonPatch");
                Mutation::JsonPatch(compiler.compile(source, Wanted::JsonPatch, true))
            } else {
                let source = source("applyConfiguration");
                Mutation::Configuration(compiler.compile(source, Wanted::Object, true))
            }
        });
        Changes {
            mutations: mutations.collect(),
            reinvoked: object::text(spec, &["reinvocationPolicy"]) == "IfNeeded",
        }
    }
}

impl Invocation<Changes> {
    /// Changes the object. Returns the errors that refuse the write; a failure of the server is an
    /// error of this function.
    async fn run(
        &self,
        attributes: &Attributes<'_>,
        namespace: &Value,
        rights: &mut Rights<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
    ) -> Result<Vec<Error>, Status> {
        let Invocation {
            policy,
            binding,
            matched,
            params,
        } = self;
        let mut errors = Vec::new();
        let fails = |why: &str| Error {
            message: told(&policy.name, Some(&binding.name), why),
            is_invalid: true,
        };
        let write = Write::new(attributes, matched, object, namespace.clone()).await?;
        let met = rights
            .evaluate(|decisions| {
                let inputs = write.inputs(params, decisions);
                let evaluation = Evaluation::new(inputs, &policy.variables, CONDITIONS_BUDGET);
                policy.conditions.check(evaluation)
            })
            .await;
        match met {
            Ok(true) => {}
            Ok(false) => return Ok(errors),
            Err(_) if policy.ignores_failures => return Ok(errors),
            Err(why) => return Ok(vec![fails(&why)]),
        }
        let key = self.key();
        if rounds.again && !rounds.policies.is_due(&key) {
            return Ok(errors);
        }
        let before = object.clone();
        for mutation in &policy.effect.mutations {
            let write = Write::new(attributes, matched, object, namespace.clone()).await?;
            let patch = rights
                .evaluate(|decisions| policy.patch(mutation, &write, params, decisions))
                .await;
            let changed = match patch {
                Err(why) => Err(Failure::Policy(why)),
                Ok(Patch::Configuration(configuration)) => {
                    patch::apply(attributes, matched, &write.object, &configuration)
                }
                Ok(Patch::Json(operations)) => {
                    patch::json(attributes, matched, &write.object, &operations)
                }
            };
            match changed {
                Ok(changed) => {
                    *object = matched.requested(attributes, changed).await?;
                    rounds.policies.note_write();
                }
                Err(Failure::Server(status)) => return Err(status),
                Err(Failure::Policy(_)) if policy.ignores_failures => {}
                Err(Failure::Policy(why)) => errors.push(fails(&why)),
            }
        }
        if *object != before {
            rounds.policies.note_change();
        }
        if policy.effect.reinvoked {
            rounds.policies.ask(key);
        }
        Ok(errors)
    }

    /// Tells invocations apart.
    fn key(&self) -> String {
        let (namespace, name) = (object::namespace(&self.params), object::name(&self.params));
        format!(
            "{}/{}/{namespace}/{name}",
            self.policy.name, self.binding.name
        )
    }
}

impl Policy<Changes> {
    fn patch(
        &self,
        mutation: &Mutation,
        write: &Write,
        params: &Value,
        decisions: &HashMap<Question, Decision>,
    ) -> Result<Result<Patch, String>, Question> {
        let inputs = write.inputs(params, decisions);
        let mut evaluation = Evaluation::new(inputs, &self.variables, BUDGET);
        let patch = match mutation {
            Mutation::Configuration(expression) => evaluation
                .configuration(expression)
                .map(|made| made.map(Patch::Configuration)),
            Mutation::JsonPatch(expression) => evaluation
                .json_patch(expression)
                .map(|made| made.map(Patch::Json)),
        };
        match patch {
            Ok(patch) => Ok(patch),
            Err(Stop::Undecided(question)) => Err(question),
            Err(stop @ Stop::OutOfBudget) => Ok(Err(stop.to_string())),
        }
    }
}

fn told(policy: &str, binding: Option<&str>, why: &str) -> String {
    match binding {
        Some(binding) => {
            format!("policy '{policy}' with binding '{binding}' denied request: {why}")
        }
        None => format!("policy {policy:?} denied request: {why}"),
    }
}

/// The error for a write with policies that failed. Its message is that of the first.
fn refusal(attributes: &Attributes<'_>, errors: Vec<Error>) -> Result<(), Status> {
    let Some(first) = errors.first() else {
        return Ok(());
    };
    let mut status = attributes.forbidden("");
    status.message = first.message.clone();
    if first.is_invalid {
        status.reason = "Invalid";
    }
    let causes = errors.into_iter().map(|error| Cause {
        message: error.message,
        ..Cause::default()
    });
    status.details.causes.extend(causes);
    Err(status)
}
