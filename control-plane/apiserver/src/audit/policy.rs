//! The audit policy: which requests are recorded, at which stages, and how much of them.

mod file;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use crate::auth::Attributes;

/// How much of a request its events say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Nothing: there are no events.
    #[default]
    None,
    /// Who asked for what, and what became of it.
    Metadata,
    /// Also the body of the request.
    Request,
    /// Also the body of the response.
    RequestResponse,
}

/// When an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    RequestReceived,
    /// The head of a long response, such as that of a watch, is about to be sent.
    ResponseStarted,
    ResponseComplete,
    /// Never reached: a panic ends this process. Policies may name it.
    Panic,
}

/// A policy whose names and combinations are valid.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    /// What holds for requests that no rule matches.
    omit_stages: Stages,
    omit_managed_fields: bool,
}

/// What a policy says of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    pub(crate) level: Level,
    omit_stages: Stages,
    /// Objects are written without `metadata.managedFields`.
    pub(crate) omit_managed_fields: bool,
}

/// A set of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stages(u8);

/// Matches requests; empty lists match all of them.
#[derive(Debug, Clone, Default)]
struct Rule {
    verdict: Verdict,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<Resources>,
    namespaces: Vec<String>,
    paths: Vec<String>,
}

/// Resources of one group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resources {
    /// `*` for all groups.
    group: String,
    /// Such as `pods`, `pods/log`, `pods/*`, `*/scale` or `*`.
    #[serde(deserialize_with = "file::list")]
    resources: Vec<String>,
    #[serde(deserialize_with = "file::list")]
    resource_names: Vec<String>,
}

impl Level {
    pub(super) const ALL: [Level; 4] = [
        Level::None,
        Level::Metadata,
        Level::Request,
        Level::RequestResponse,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

impl Stage {
    const ALL: [Stage; 4] = [
        Stage::RequestReceived,
        Stage::ResponseStarted,
        Stage::ResponseComplete,
        Stage::Panic,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

impl Stages {
    fn with(self, stage: Stage) -> Stages {
        Stages(self.0 | 1 << stage as u8)
    }

    fn and(self, others: Stages) -> Stages {
        Stages(self.0 | others.0)
    }

    fn has(self, stage: Stage) -> bool {
        self.0 & (1 << stage as u8) != 0
    }
}

impl Policy {
    /// Parses a policy file, in YAML or JSON. The error names neither the file nor its flag.
    pub fn parse(text: &str) -> Result<Policy, String> {
        file::parse(text)
    }

    /// What is recorded of a request: the first rule that matches decides. `authenticated` is
    /// false if the user of the attributes is not known.
    pub(crate) fn decide(&self, asked: &Attributes, authenticated: bool) -> Verdict {
        let mut rules = self.rules.iter();
        match rules.find(|rule| rule.matches(asked, authenticated)) {
            Some(rule) => rule.verdict,
            None => Verdict {
                level: Level::None,
                omit_stages: self.omit_stages,
                omit_managed_fields: self.omit_managed_fields,
            },
        }
    }
}

impl Verdict {
    pub(crate) fn omits(&self, stage: Stage) -> bool {
        self.omit_stages.has(stage)
    }
}

impl Rule {
    fn matches(&self, asked: &Attributes, authenticated: bool) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|known| known == one);
        let user = &asked.user;
        let is_user = || authenticated && has(&self.users, &user.name);
        let in_group = |group: &String| authenticated && has(&self.groups, group);
        if !(self.users.is_empty() || is_user()) {
            return false;
        }
        if !(self.groups.is_empty() || user.groups.iter().any(in_group)) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, &asked.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return asked.is_resource()
                && (self.namespaces.is_empty() || has(&self.namespaces, &asked.namespace))
                && (self.resources.is_empty()
                    || self.resources.iter().any(|one| one.matches(asked)));
        }
        self.paths.is_empty()
            || !asked.is_resource() && self.paths.iter().any(|one| covers(one, &asked.path))
    }
}

impl Resources {
    fn matches(&self, asked: &Attributes) -> bool {
        if self.group != "*" && self.group != asked.api_group {
            return false;
        }
        let named = || self.resource_names.is_empty() || self.resource_names.contains(&asked.name);
        self.resources.is_empty() || named() && self.resources.iter().any(|one| names(one, asked))
    }
}

/// Whether a resource of a rule, such as `pods/*`, is that of a request.
fn names(resource: &str, asked: &Attributes) -> bool {
    let (plural, subresource) = (&*asked.resource, &*asked.subresource);
    if resource == "*" {
        return true;
    }
    match resource.split_once('/') {
        None => resource == plural && subresource.is_empty(),
        // `pods/*` also covers the pods themselves, as in Kubernetes.
        Some((one, "*")) if one == plural => true,
        Some(("*", one)) => !subresource.is_empty() && one == subresource,
        Some((one, sub)) => one == plural && !subresource.is_empty() && sub == subresource,
    }
}

/// Whether a path of a rule, which may end with `*`, covers that of a request.
fn covers(rule: &str, path: &str) -> bool {
    rule == "*"
        || rule == path
        || rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*'))
}
