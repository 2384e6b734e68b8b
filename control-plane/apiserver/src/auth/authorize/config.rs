//! The chain of authorizers as flags or a configuration file say it, with Kubernetes' rules and
//! error texts.

#[cfg(test)]
mod tests;
mod webhook;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use machinery::cel::access::{Expression, Variable};
use machinery::name;
use machinery::status::{Cause, told_together};
use serde::Deserialize;

use super::Mode;
use crate::basics::config_file::{self, Known};
use webhook::WebhookOfFile;

const KIND: &str = "AuthorizationConfiguration";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const FIELDS: &[(&str, Known)] = &[(
    "authorizers",
    Known::Fields(&[
        ("type", Known::Anything),
        ("name", Known::Anything),
        ("webhook", Known::Fields(webhook::FIELDS)),
    ]),
)];

/// All modes that Kubernetes knows.
const MODES: [&str; 6] = [
    "ABAC",
    "AlwaysAllow",
    "AlwaysDeny",
    "Node",
    "RBAC",
    "Webhook",
];

/// An authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configured {
    /// One that needs no configuration.
    Builtin(Mode),
    /// A webhook.
    Webhook(WebhookOptions),
}

/// A webhook that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookOptions {
    /// Its name in the configuration.
    pub name: String,
    /// Where it is.
    pub kubeconfig: PathBuf,
    /// The version of SubjectAccessReview that it speaks, `v1` or `v1beta1`.
    pub version: String,
    /// Time for one attempt.
    pub timeout: Duration,
    /// True if what it allows is kept.
    pub keeps_allowed: bool,
    /// How long.
    pub keep_allowed: Duration,
    /// True if what it does not allow is kept.
    pub keeps_others: bool,
    /// How long.
    pub keep_others: Duration,
    /// True if requests are denied while it fails; else it has no opinion.
    pub denies_on_error: bool,
    /// It is asked only about requests for which all of these expressions are true.
    pub conditions: Vec<String>,
}

impl Configured {
    /// Its mode.
    pub fn mode(&self) -> Mode {
        match self {
            Configured::Builtin(mode) => *mode,
            Configured::Webhook(_) => Mode::Webhook,
        }
    }
}

impl WebhookOptions {
    /// The compiled conditions.
    pub(super) fn compiled(&self) -> Result<Vec<Expression>, String> {
        let compile = |source: &String| Expression::compile(Variable::Request, source, true);
        self.conditions.iter().map(compile).collect()
    }
}

impl Mode {
    /// The mode of this name, if it is here.
    pub fn named(name: &str) -> Option<Mode> {
        Some(match name {
            "Node" => Mode::Node,
            "RBAC" => Mode::Rbac,
            "Webhook" => Mode::Webhook,
            "AlwaysAllow" => Mode::AlwaysAllow,
            "AlwaysDeny" => Mode::AlwaysDeny,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Mode::Node => "Node",
            Mode::Rbac => "RBAC",
            Mode::Webhook => "Webhook",
            Mode::AlwaysAllow => "AlwaysAllow",
            Mode::AlwaysDeny => "AlwaysDeny",
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    authorizers: Vec<AuthorizerOfFile>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthorizerOfFile {
    #[serde(rename = "type")]
    mode: String,
    name: String,
    webhook: Option<WebhookOfFile>,
}

/// Parses and validates a configuration that must have all these modes, apart from webhooks.
pub(super) fn parse(text: &str, required: &[Mode]) -> Result<Vec<Configured>, String> {
    let file = if text.is_empty() {
        File::default()
    } else {
        config_file::read(text, KIND, &VERSIONS, FIELDS)
            .map_err(|why| format!("failed to load AuthorizationConfiguration from file: {why}"))?
    };
    let mut causes = Vec::new();
    let mut unexpected = Vec::new();
    let configured = file.read(&mut causes, &mut unexpected);
    if !causes.is_empty() {
        return Err(told_together(&causes));
    }
    let has = |mode: &Mode| configured.iter().any(|one| one.mode() == *mode);
    let missing = required
        .iter()
        .filter(|mode| **mode != Mode::Webhook && !has(mode));
    let missing: Vec<&str> = missing.map(|mode| mode.name()).collect();
    if !missing.is_empty() {
        unexpected.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    match unexpected.as_slice() {
        [] => Ok(configured),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

impl File {
    fn read(self, causes: &mut Vec<Cause>, unexpected: &mut Vec<String>) -> Vec<Configured> {
        if self.authorizers.is_empty() {
            let why = "at least one authorization mode must be defined";
            causes.push(Cause::required("authorizers", why));
        }
        let (mut modes, mut names) = (HashSet::new(), HashSet::new());
        let mut configured = Vec::new();
        for (at, one) in self.authorizers.into_iter().enumerate() {
            let place = format!("authorizers[{at}]");
            let Some(mode) = one.mode(&place, &mut modes, causes) else {
                continue;
            };
            one.check_name(&place, &mut names, causes);
            let expected = mode.name().to_lowercase();
            if mode != Mode::Webhook && one.name != expected {
                unexpected.push(format!(
                    "expected name {expected} for authorizer {} instead of {}",
                    mode.name(),
                    one.name
                ));
            }
            match (mode, one.webhook) {
                (Mode::Webhook, Some(webhook)) => {
                    let options = webhook.read(one.name, &place, causes);
                    configured.extend(options.map(Configured::Webhook));
                }
                (Mode::Webhook, None) => {
                    let field = format!("{place}.webhook");
                    causes.push(Cause::required(&field, "required when type=Webhook"));
                }
                (mode, None) => configured.push(Configured::Builtin(mode)),
                (_, Some(_)) => causes.push(Cause::invalid(
                    &format!("{place}.webhook"),
                    &"non-null".into(),
                    "may only be specified when type=Webhook",
                )),
            }
        }
        configured
    }
}

impl AuthorizerOfFile {
    fn mode(&self, place: &str, seen: &mut HashSet<Mode>, causes: &mut Vec<Cause>) -> Option<Mode> {
        let field = format!("{place}.type");
        let given = || self.mode.as_str().into();
        if self.mode.is_empty() {
            causes.push(Cause::required(&field, ""));
            return None;
        }
        let Some(mode) = Mode::named(&self.mode) else {
            causes.push(if MODES.contains(&self.mode.as_str()) {
                let why = "is not supported: Node, RBAC, Webhook, AlwaysAllow and AlwaysDeny are";
                Cause::invalid(&field, &given(), why)
            } else {
                Cause::not_supported(&field, &given(), &MODES)
            });
            return None;
        };
        if !seen.insert(mode) && mode != Mode::Webhook {
            causes.push(Cause::duplicate(&field, &given()));
            return None;
        }
        Some(mode)
    }

    fn check_name(&self, place: &str, seen: &mut HashSet<String>, causes: &mut Vec<Cause>) {
        let field = format!("{place}.name");
        let wrong = name::dns1123_subdomain(&self.name);
        if self.name.is_empty() {
            causes.push(Cause::required(&field, ""));
        } else if seen.contains(&self.name) {
            causes.push(Cause::duplicate(&field, &self.name.as_str().into()));
        } else if !wrong.is_empty() {
            let why = format!("authorizer name is invalid: {}", wrong.join(", "));
            causes.push(Cause::invalid(&field, &self.name.as_str().into(), &why));
        }
        seen.insert(self.name.clone());
    }
}
