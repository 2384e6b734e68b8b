//! Reads and validates policy files, with Kubernetes' error texts.

use machinery::name;
use machinery::status::{Cause, told_together};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use serde_saphyr::options::{DuplicateKeyPolicy, Options};

use super::{Level, Policy, Resources, Rule, Stage, Stages, Verdict};

const VERSION: &str = "audit.k8s.io/v1";

/// The fields of a policy, of its rules, and of their resources.
const OF_POLICY: [&str; 6] = [
    "apiVersion",
    "kind",
    "metadata",
    "rules",
    "omitStages",
    "omitManagedFields",
];
const OF_RULE: [&str; 9] = [
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
];
const OF_RESOURCES: [&str; 3] = ["group", "resources", "resourceNames"];

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PolicyFile {
    #[serde(deserialize_with = "list")]
    rules: Vec<RuleOfFile>,
    #[serde(deserialize_with = "list")]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuleOfFile {
    level: String,
    #[serde(deserialize_with = "list")]
    users: Vec<String>,
    #[serde(deserialize_with = "list")]
    user_groups: Vec<String>,
    #[serde(deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "list")]
    resources: Vec<Resources>,
    #[serde(deserialize_with = "list")]
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list")]
    non_resource_urls: Vec<String>,
    #[serde(deserialize_with = "list")]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

/// A list that may be null.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Parses and validates a policy.
pub(super) fn parse(text: &str) -> Result<Policy, String> {
    let mut options = Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options.with_snippet = false;
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("failed decoding: {error}"))?;
    check_type(&value, text)?;
    let unknown = unknown_fields(&value);
    if !unknown.is_empty() {
        tracing::warn!(
            "the audit policy has unknown fields, which are ignored: {}",
            unknown.join(", ")
        );
    }
    let file: PolicyFile =
        serde_json::from_value(value).map_err(|error| format!("failed decoding: {error}"))?;
    let mut causes = Vec::new();
    let omit_stages = stages(&file.omit_stages, "omitStages", &mut causes);
    let omit_managed_fields = file.omit_managed_fields.unwrap_or_default();
    let rules = file.rules.into_iter().enumerate();
    let rules: Vec<Rule> = rules
        .map(|(at, rule)| {
            let mut rule = rule.read(&format!("rules[{at}]"), omit_managed_fields, &mut causes);
            rule.verdict.omit_stages = rule.verdict.omit_stages.and(omit_stages);
            rule
        })
        .collect();
    if !causes.is_empty() {
        return Err(told_together(&causes));
    }
    if rules.is_empty() {
        return Err("loaded illegal policy with 0 rules".into());
    }
    Ok(Policy {
        rules,
        omit_stages,
        omit_managed_fields,
    })
}

fn check_type(value: &Value, text: &str) -> Result<(), String> {
    let field = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (field("apiVersion"), field("kind"));
    for (name, given) in [("Kind", kind), ("apiVersion", version)] {
        if given.is_empty() {
            return Err(format!(
                "failed decoding: Object '{name}' is missing in '{}'",
                text.trim_end()
            ));
        }
    }
    if (version, kind) != (VERSION, "Policy") {
        return Err(format!(
            "failed decoding: no kind {kind:?} is registered for version {version:?}: \
             it must be Policy of {VERSION}"
        ));
    }
    Ok(())
}

/// The paths of fields that policies do not have.
fn unknown_fields(policy: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut note = |value: &Value, known: &[&str], place: &str| {
        let objects = value.as_object().into_iter();
        let fields = objects.flat_map(|object| object.keys());
        let fields = fields.filter(|key| !known.contains(&key.as_str()));
        unknown.extend(fields.map(|key| format!("{place}{key}")));
    };
    let items = |value: &Value, key: &str| {
        let items = value.get(key).and_then(Value::as_array);
        items.cloned().unwrap_or_default()
    };
    note(policy, &OF_POLICY, "");
    for (at, rule) in items(policy, "rules").iter().enumerate() {
        note(rule, &OF_RULE, &format!("rules[{at}]."));
        for (inner, resources) in items(rule, "resources").iter().enumerate() {
            let place = format!("rules[{at}].resources[{inner}].");
            note(resources, &OF_RESOURCES, &place);
        }
    }
    unknown
}

impl RuleOfFile {
    fn read(self, place: &str, omit_managed_fields: bool, causes: &mut Vec<Cause>) -> Rule {
        let field = |name: &str| format!("{place}.{name}");
        let level = level(&self.level, &field("level"), causes);
        check_paths(&self.non_resource_urls, &field("nonResourceURLs"), causes);
        for resources in &self.resources {
            resources.check(&field("resources"), causes);
        }
        let omit_stages = stages(&self.omit_stages, &field("omitStages"), causes);
        let has_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if !self.non_resource_urls.is_empty() && has_resources {
            causes.push(Cause::invalid(
                &field("nonResourceURLs"),
                &json!(self.non_resource_urls),
                "rules cannot apply to both regular resources and non-resource URLs",
            ));
        }
        Rule {
            verdict: Verdict {
                level,
                omit_stages,
                omit_managed_fields: self.omit_managed_fields.unwrap_or(omit_managed_fields),
            },
            users: self.users,
            groups: self.user_groups,
            verbs: self.verbs,
            resources: self.resources,
            namespaces: self.namespaces,
            paths: self.non_resource_urls,
        }
    }
}

impl Resources {
    fn check(&self, place: &str, causes: &mut Vec<Cause>) {
        if !self.group.is_empty() && self.group != "*" {
            let why = name::dns1123_subdomain(&self.group);
            if !why.is_empty() {
                let field = format!("{place}.group");
                let value = Value::from(self.group.as_str());
                causes.push(Cause::invalid(&field, &value, &why.join(",")));
            }
        }
        if !self.resource_names.is_empty() && self.resources.is_empty() {
            causes.push(Cause::invalid(
                &format!("{place}.resourceNames"),
                &json!(self.resource_names),
                "using resourceNames requires at least one resource",
            ));
        }
    }
}

fn level(name: &str, field: &str, causes: &mut Vec<Cause>) -> Level {
    if let Some(level) = Level::ALL.into_iter().find(|level| level.name() == name) {
        return level;
    }
    causes.push(if name.is_empty() {
        Cause::required(field, "")
    } else {
        Cause::not_supported(field, &name.into(), &Level::ALL.map(Level::name))
    });
    Level::None
}

fn stages(names: &[String], field: &str, causes: &mut Vec<Cause>) -> Stages {
    let mut stages = Stages::default();
    for (at, name) in names.iter().enumerate() {
        match Stage::ALL.into_iter().find(|stage| stage.name() == name) {
            Some(stage) => stages = stages.with(stage),
            None => {
                let known = Stage::ALL.map(Stage::name).join(",");
                let why = format!("allowed stages are {known}");
                let field = format!("{field}[{at}]");
                causes.push(Cause::invalid(&field, &name.as_str().into(), &why));
            }
        }
    }
    stages
}

fn check_paths(paths: &[String], field: &str, causes: &mut Vec<Cause>) {
    for (at, path) in paths.iter().enumerate().filter(|(_, path)| *path != "*") {
        let mut wrong = |why: &str| {
            let field = format!("{field}[{at}]");
            causes.push(Cause::invalid(&field, &path.as_str().into(), why));
        };
        if !path.starts_with('/') {
            wrong("non-resource URL rules must begin with a '/' character");
        }
        let mut letters = path.chars();
        letters.next_back();
        if letters.any(|letter| letter == '*') {
            wrong("non-resource URL wildcards '*' must be the final character of the rule");
        }
    }
}
