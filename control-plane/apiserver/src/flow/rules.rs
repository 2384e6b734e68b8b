//! The schemas of a server: which requests they are for, and which flow a request belongs to.

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use machinery::object;
use serde_json::Value;

use super::machine::{LevelSpec, Queuing};
use crate::auth::user::service_account;
use crate::auth::{Attributes, User};
use crate::resources::flow_control::{self, CATCH_ALL, EXEMPT, LEVEL, SCHEMA};

const ANY: &str = "*";

/// All schemas in the order of matching, and all levels.
pub(crate) struct Rules {
    schemas: Vec<Arc<Schema>>,
    levels: Vec<LevelSpec>,
}

/// A flow schema.
pub(crate) struct Schema {
    pub(crate) name: Arc<str>,
    /// Empty for a mandatory schema that is not stored yet.
    pub(crate) uid: Bytes,
    pub(crate) level: LevelRef,
    precedence: i64,
    method: Method,
    rules: Vec<Rule>,
}

/// The level of a schema.
#[derive(Clone)]
pub(crate) struct LevelRef {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Bytes,
}

/// What tells the flows of a schema apart.
#[derive(Clone, Copy)]
enum Method {
    Nothing,
    User,
    Namespace,
}

/// Requests of any of the subjects that fit any of the rules.
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

enum Subject {
    User(String),
    Group(String),
    /// Namespace and name.
    Account(String, String),
}

struct ResourceRule {
    verbs: Words,
    groups: Words,
    resources: Words,
    namespaces: Words,
    of_cluster: bool,
}

struct PathRule {
    verbs: Words,
    paths: Words,
}

/// Words of which a request must have one; `None` for any.
struct Words(Option<Vec<String>>);

/// The schema of a request, and its flow.
pub(crate) struct Flow {
    pub(crate) schema: Arc<Schema>,
    /// The same for all requests of a flow.
    pub(crate) hash: u64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules::new(&[], &[])
    }
}

impl Rules {
    /// Reads the objects. Mandatory ones that are missing are added; schemas without a level are
    /// left out.
    pub(crate) fn new(schemas: &[Value], levels: &[Value]) -> Rules {
        let levels = with_mandatory(LEVEL, levels);
        let level = |name: &str| levels.iter().find(|one| object::name(one) == name);
        let schemas = with_mandatory(SCHEMA, schemas);
        let read = schemas.iter().filter_map(|schema| {
            let path = ["spec", "priorityLevelConfiguration", "name"];
            let level = level(object::text(schema, &path))?;
            Some(Arc::new(Schema::read(schema, level)))
        });
        let mut schemas: Vec<Arc<Schema>> = read.collect();
        schemas.sort_by(|one, other| {
            let order = one.precedence.cmp(&other.precedence);
            order.then_with(|| one.name.cmp(&other.name))
        });
        let levels = levels.iter().map(|level| level_spec(level)).collect();
        Rules { schemas, levels }
    }

    pub(crate) fn levels(&self) -> &[LevelSpec] {
        &self.levels
    }

    /// The flow of a request: the first schema that matches, or the last resort. If `limits_owners`,
    /// members of `system:masters` are not exempt.
    pub(crate) fn flow(&self, asked: &Attributes, limits_owners: bool) -> Flow {
        let mut all = self.schemas.iter();
        let found = all.find(|schema| {
            let is_left_out = limits_owners && &*schema.name == EXEMPT;
            !is_left_out && schema.matches(asked)
        });
        let mut all = self.schemas.iter();
        let last = || all.find(|schema| &*schema.name == CATCH_ALL);
        let schema = found
            .or_else(last)
            .or(self.schemas.last())
            .map(Arc::clone)
            .unwrap_or_else(|| unreachable!("mandatory schemas are always there"));
        let mut hasher = DefaultHasher::new();
        schema.name.hash(&mut hasher);
        schema.distinguisher(asked).hash(&mut hasher);
        Flow {
            schema,
            hash: hasher.finish(),
        }
    }
}

impl Schema {
    fn read(schema: &Value, level: &Value) -> Schema {
        let uid = |object: &Value| Bytes::copy_from_slice(object::uid(object).as_bytes());
        let rules = object::items(schema, &["spec", "rules"]);
        let method = object::text(schema, &["spec", "distinguisherMethod", "type"]);
        Schema {
            name: object::name(schema).into(),
            uid: uid(schema),
            level: LevelRef {
                name: object::name(level).into(),
                uid: uid(level),
            },
            precedence: object::integer(schema, &["spec", "matchingPrecedence"]).unwrap_or(0),
            method: match method {
                "ByUser" => Method::User,
                "ByNamespace" => Method::Namespace,
                _ => Method::Nothing,
            },
            rules: rules.iter().map(Rule::read).collect(),
        }
    }

    fn matches(&self, asked: &Attributes) -> bool {
        self.rules.iter().any(|rule| rule.matches(asked))
    }

    /// What tells the flow of a request from others of the schema.
    fn distinguisher<'a>(&self, asked: &'a Attributes) -> &'a str {
        match self.method {
            Method::Nothing => "",
            Method::User => &asked.user.name,
            Method::Namespace => &asked.namespace,
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Rule {
        let subjects = object::items(rule, &["subjects"]).iter();
        let resources = object::items(rule, &["resourceRules"]).iter();
        let paths = object::items(rule, &["nonResourceRules"]).iter();
        Rule {
            subjects: subjects.filter_map(Subject::read).collect(),
            resources: resources.map(ResourceRule::read).collect(),
            paths: paths
                .map(|rule| PathRule {
                    verbs: Words::read(rule, "verbs"),
                    paths: Words::read(rule, "nonResourceURLs"),
                })
                .collect(),
        }
    }

    fn matches(&self, asked: &Attributes) -> bool {
        let mut subjects = self.subjects.iter();
        if !subjects.any(|subject| subject.is(&asked.user)) {
            return false;
        }
        if asked.is_resource() {
            self.resources.iter().any(|rule| rule.matches(asked))
        } else {
            self.paths.iter().any(|rule| rule.matches(asked))
        }
    }
}

impl Subject {
    fn read(subject: &Value) -> Option<Subject> {
        let text = |field: &str, key: &str| object::text(subject, &[field, key]).to_owned();
        match object::kind(subject) {
            "User" => Some(Subject::User(text("user", "name"))),
            "Group" => Some(Subject::Group(text("group", "name"))),
            "ServiceAccount" => Some(Subject::Account(
                text("serviceAccount", "namespace"),
                text("serviceAccount", "name"),
            )),
            _ => None,
        }
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Subject::User(name) => name == ANY || *name == user.name,
            Subject::Group(name) => name == ANY || user.groups.contains(name),
            Subject::Account(namespace, name) => {
                let account = service_account(&user.name);
                account.is_some_and(|(its_namespace, its_name)| {
                    namespace == its_namespace && (name == ANY || name == its_name)
                })
            }
        }
    }
}

impl ResourceRule {
    fn read(rule: &Value) -> ResourceRule {
        ResourceRule {
            verbs: Words::read(rule, "verbs"),
            groups: Words::read(rule, "apiGroups"),
            resources: Words::read(rule, "resources"),
            namespaces: Words::read(rule, "namespaces"),
            of_cluster: rule["clusterScope"] == true,
        }
    }

    fn matches(&self, asked: &Attributes) -> bool {
        let in_scope = if asked.namespace.is_empty() {
            self.of_cluster
        } else {
            self.namespaces.have(&asked.namespace)
        };
        in_scope
            && self.verbs.have(&asked.verb)
            && self.groups.have(&asked.api_group)
            && self.resources.have_by(|word| {
                let (resource, subresource) = word.split_once('/').unwrap_or((word, ""));
                resource == asked.resource && subresource == asked.subresource
            })
    }
}

impl PathRule {
    fn matches(&self, asked: &Attributes) -> bool {
        self.verbs.have(&asked.verb)
            && self.paths.have_by(|path| {
                let base = path.trim_end_matches('*').trim_end_matches('/');
                let rest = asked.path.strip_prefix(base);
                // A path stands for all below it.
                asked.path == path || rest.is_some_and(|rest| rest.starts_with('/'))
            })
    }
}

impl Words {
    fn read(rule: &Value, key: &str) -> Words {
        let words = object::items(rule, &[key]).iter();
        let words: Vec<&str> = words.filter_map(Value::as_str).collect();
        if words == [ANY] {
            return Words(None);
        }
        Words(Some(words.into_iter().map(str::to_owned).collect()))
    }

    fn have(&self, wanted: &str) -> bool {
        self.have_by(|word| word == wanted)
    }

    fn have_by(&self, is_it: impl Fn(&str) -> bool) -> bool {
        let words = self.0.as_ref();
        words.is_none_or(|words| words.iter().any(|word| is_it(word)))
    }
}

/// The objects of a kind, with the mandatory ones.
fn with_mandatory<'a>(kind: &str, objects: &'a [Value]) -> Vec<&'a Value> {
    let mut all: Vec<&Value> = objects.iter().collect();
    for one in flow_control::all() {
        let name = object::name(one);
        let is_needed = object::kind(one) == kind && flow_control::mandatory(kind, name).is_some();
        if is_needed && !objects.iter().any(|stored| object::name(stored) == name) {
            all.push(one);
        }
    }
    all
}

fn level_spec(level: &Value) -> LevelSpec {
    let spec = &level["spec"];
    let exempt = spec["type"] == "Exempt";
    let part = if exempt { "exempt" } else { "limited" };
    let number = |path: &[&str]| {
        let number = object::integer(spec, path)?;
        Some(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
    };
    let queuing = |key| number(&["limited", "limitResponse", "queuing", key]);
    let is_queue = object::text(spec, &["limited", "limitResponse", "type"]) == "Queue";
    LevelSpec {
        name: object::name(level).into(),
        exempt,
        shares: number(&[part, "nominalConcurrencyShares"]).unwrap_or(0),
        lendable: number(&[part, "lendablePercent"]).unwrap_or(0),
        borrowing: number(&[part, "borrowingLimitPercent"]),
        queuing: is_queue.then(|| Queuing {
            queues: queuing("queues").unwrap_or(1).max(1),
            hand: queuing("handSize").unwrap_or(1).max(1),
            length: queuing("queueLengthLimit").unwrap_or(1),
        }),
    }
}
