//! What users may do: builders of questions, and what is known of the answers.
//!
//! An expression only asks. The caller decides, so that evaluation needs nothing but values: a
//! question without an answer ends it, and the caller evaluates again once it has the answer.

use std::rc::Rc;

use super::super::types::Type;
use super::super::value::{Value, Why};
use crate::values::name;

/// A question about the rights of the user who sends a request, or of a service account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// Namespace and name of a service account; `None` for the user who sends the request.
    pub account: Option<(String, String)>,
    /// Such as `get`.
    pub verb: String,
    /// What the verb is about.
    pub about: About,
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum About {
    /// A path that is no resource.
    Path(String),
    /// A resource, in any version.
    Resource(Target),
}

/// A resource, or one object of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Target {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// Such as `status`; may be empty.
    pub subresource: String,
    /// The namespace; empty for the cluster.
    pub namespace: String,
    /// The name; empty for the whole collection.
    pub name: String,
}

/// The answer to a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why, if the authorizer says it.
    pub reason: String,
    /// Why it could not be decided.
    pub error: Option<String>,
}

/// A value of this library. Only its functions look into it.
#[derive(Debug, Clone)]
pub(in super::super) struct Check {
    account: Option<(String, String)>,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    Authorizer,
    Path(String),
    Group(String),
    Resource(Target),
    Decision(Decision),
}

impl Check {
    /// The user who sends the request.
    pub(in super::super) fn of_user() -> Check {
        Check {
            account: None,
            stage: Stage::Authorizer,
        }
    }

    /// The user who sends the request, and what the request is about.
    pub(in super::super) fn of_request(target: Target) -> Check {
        Check {
            account: None,
            stage: Stage::Resource(target),
        }
    }

    pub(in super::super) fn decided(decision: Decision) -> Check {
        Check {
            account: None,
            stage: Stage::Decision(decision),
        }
    }

    /// What a call of `check` asks; `None` if there is nothing to check.
    pub(in super::super) fn question(&self, verb: &str) -> Option<Question> {
        let about = match &self.stage {
            Stage::Path(path) => About::Path(path.clone()),
            Stage::Resource(target) => About::Resource(target.clone()),
            _ => return None,
        };
        Some(Question {
            account: self.account.clone(),
            verb: verb.to_owned(),
            about,
        })
    }

    pub(in super::super) fn type_of(&self) -> Type {
        let name = match self.stage {
            Stage::Authorizer => "Authorizer",
            Stage::Path(_) => "PathCheck",
            Stage::Group(_) => "GroupCheck",
            Stage::Resource(_) => "ResourceCheck",
            Stage::Decision(_) => "Decision",
        };
        Type::Struct(format!("kubernetes.authorization.{name}").into())
    }

    fn at(&self, stage: Stage) -> Check {
        Check {
            account: self.account.clone(),
            stage,
        }
    }
}

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    let (Value::Check(check), rest) = arguments.split_first()? else {
        return None;
    };
    let texts: Option<Vec<&str>> = rest
        .iter()
        .map(|value| match value {
            Value::String(text) => Some(&**text),
            _ => None,
        })
        .collect();
    let made = match (texts?.as_slice(), &check.stage) {
        ([], Stage::Decision(decision)) => return accessor(function, decision).map(Ok),
        ([namespace, name], Stage::Authorizer) if function == "serviceAccount" => {
            service_account(namespace, name)
        }
        ([text], Stage::Authorizer) => begun(function, check, text)?,
        ([text], Stage::Group(group)) if function == "resource" => {
            not_empty(text, "resource").map(|()| {
                check.at(Stage::Resource(Target {
                    group: group.clone(),
                    resource: (*text).to_owned(),
                    ..Target::default()
                }))
            })
        }
        ([text], Stage::Resource(target)) => {
            Ok(check.at(Stage::Resource(narrowed(function, target, text)?)))
        }
        _ => return None,
    };
    Some(made.map(|check| Value::Check(Rc::new(check))))
}

fn begun(function: &str, check: &Check, text: &str) -> Option<Result<Check, Why>> {
    match function {
        "path" => {
            let checked = not_empty(text, "path");
            Some(checked.map(|()| check.at(Stage::Path(text.to_owned()))))
        }
        "group" => Some(Ok(check.at(Stage::Group(text.to_owned())))),
        _ => None,
    }
}

/// The target with one more of its parts. Selectors narrow nothing: roles do not look at them.
fn narrowed(function: &str, target: &Target, text: &str) -> Option<Target> {
    let mut target = target.clone();
    let part = match function {
        "subresource" => &mut target.subresource,
        "namespace" => &mut target.namespace,
        "name" => &mut target.name,
        "fieldSelector" | "labelSelector" => return Some(target),
        _ => return None,
    };
    *part = text.to_owned();
    Some(target)
}

fn service_account(namespace: &str, account: &str) -> Result<Check, Why> {
    if !name::dns1123_subdomain(account).is_empty() {
        return Err("Invalid service account name".to_owned());
    }
    if !name::dns1123_label(namespace).is_empty() {
        return Err("Invalid service account namespace".to_owned());
    }
    Ok(Check {
        account: Some((namespace.to_owned(), account.to_owned())),
        stage: Stage::Authorizer,
    })
}

fn accessor<'a>(function: &str, decision: &Decision) -> Option<Value<'a>> {
    Some(match function {
        "allowed" => Value::Bool(decision.allowed),
        "reason" => Value::text(decision.reason.as_str()),
        "errored" => Value::Bool(decision.error.is_some()),
        "error" => Value::text(decision.error.as_deref().unwrap_or_default()),
        _ => return None,
    })
}

fn not_empty(text: &str, what: &str) -> Result<(), Why> {
    if text.trim().is_empty() {
        Err(format!("{what} must not be empty"))
    } else {
        Ok(())
    }
}
