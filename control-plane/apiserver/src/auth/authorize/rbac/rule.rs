//! One rule of a role: what it allows, and which rules it covers. It does not know who holds the
//! rule.

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

    /// True if this rule allows all that `part` allows; `part` has one verb, resource and name.
    pub fn covers(&self, part: &Rule) -> bool {
        let all = |texts: &[String], parts: &[String]| parts.iter().all(|p| has_or_star(texts, p));
        let names = if part.resource_names.is_empty() {
            self.resource_names.is_empty()
        } else {
            self.resource_names.is_empty()
                || part
                    .resource_names
                    .iter()
                    .all(|name| has(&self.resource_names, name))
        };
        names
            && all(&self.verbs, &part.verbs)
            && all(&self.api_groups, &part.api_groups)
            && part.resources.iter().all(|resource| {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                self.resources
                    .iter()
                    .any(|allowed| resource_matches(allowed, resource, subresource))
            })
            && part.non_resource_urls.iter().all(|url| {
                self.non_resource_urls
                    .iter()
                    .any(|ours| url_covers(ours, url))
            })
    }

    /// The number of [`Rule::parts`].
    pub fn parts_count(&self) -> usize {
        let lists = [
            self.api_groups.len(),
            self.resources.len(),
            self.resource_names.len().max(1),
        ];
        let resources = lists.into_iter().fold(1, usize::saturating_mul);
        let all = resources.saturating_add(self.non_resource_urls.len());
        all.saturating_mul(self.verbs.len())
    }

    /// Splits the rule into parts of one group, resource, name and verb each, or of one path and
    /// verb.
    pub fn parts(&self) -> Vec<Rule> {
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> = if self.resource_names.is_empty() {
            vec![Vec::new()]
        } else {
            self.resource_names.iter().map(one).collect()
        };
        let mut parts = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    parts.extend(names.iter().map(|names| Rule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: names.clone(),
                        non_resource_urls: Vec::new(),
                    }));
                }
            }
        }
        for url in &self.non_resource_urls {
            parts.extend(self.verbs.iter().map(|verb| Rule {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..Rule::default()
            }));
        }
        parts
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

fn url_covers(allowed: &str, path: &str) -> bool {
    allowed == path || (allowed.ends_with('*') && path.starts_with(allowed.trim_end_matches('*')))
}
