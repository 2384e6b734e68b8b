//! One rule of a role, and what it allows. It does not know who holds the rule.

use machinery::object;
use serde_json::{Map, Value, json};

use crate::auth::Attributes;

/// A rule: verbs on resources, or on paths that are no resources. `*` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// The allowed verbs.
    pub verbs: Vec<String>,
    /// Groups of the resources; the core group is the empty string.
    pub api_groups: Vec<String>,
    /// Resources, as `resource`, `resource/subresource` or `*/subresource`.
    pub resources: Vec<String>,
    /// Names of objects; empty for all objects.
    pub resource_names: Vec<String>,
    /// Paths; a `*` at the end matches any rest.
    pub non_resource_urls: Vec<String>,
}

impl Rule {
    /// Reads a rule of a role.
    pub fn from_value(value: &Value) -> Rule {
        let texts = |key: &str| {
            object::items(value, &[key])
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        Rule {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
        }
    }

    /// The rule as written in a role or in the answer to a review.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (key, texts) in [
            ("apiGroups", &self.api_groups),
            ("nonResourceURLs", &self.non_resource_urls),
            ("resourceNames", &self.resource_names),
            ("resources", &self.resources),
        ] {
            if !texts.is_empty() {
                map.insert(key.into(), json!(texts));
            }
        }
        map.insert("verbs".into(), json!(self.verbs));
        Value::Object(map)
    }

    /// The rules of full authority.
    pub fn everything() -> [Rule; 2] {
        let star = || vec!["*".to_owned()];
        [
            Rule {
                verbs: star(),
                api_groups: star(),
                resources: star(),
                ..Rule::default()
            },
            Rule {
                verbs: star(),
                non_resource_urls: star(),
                ..Rule::default()
            },
        ]
    }

    /// True if the rule allows a request.
    pub fn allows(&self, asked: &Attributes) -> bool {
        let verb = has_or_star(&self.verbs, &asked.verb);
        if !asked.is_resource() {
            return verb
                && self
                    .non_resource_urls
                    .iter()
                    .any(|url| url_covers(url, &asked.path));
        }
        verb && has_or_star(&self.api_groups, &asked.api_group)
            && self
                .resources
                .iter()
                .any(|allowed| resource_matches(allowed, &asked.resource, &asked.subresource))
            && (self.resource_names.is_empty() || has(&self.resource_names, &asked.name))
    }
}

fn has(texts: &[String], text: &str) -> bool {
    texts.iter().any(|has| has == text)
}

fn has_or_star(texts: &[String], text: &str) -> bool {
    texts.iter().any(|has| has == "*" || has == text)
}

/// `*` matches everything, `*/scale` that subresource of every resource. A resource alone does not
/// match its subresources.
fn resource_matches(allowed: &str, resource: &str, subresource: &str) -> bool {
    match allowed.split_once('/') {
        None => allowed == "*" || (subresource.is_empty() && allowed == resource),
        Some((of, sub)) => {
            !subresource.is_empty() && sub == subresource && (of == "*" || of == resource)
        }
    }
}

pub(super) fn url_covers(allowed: &str, path: &str) -> bool {
    allowed == path || (allowed.ends_with('*') && path.starts_with(allowed.trim_end_matches('*')))
}
