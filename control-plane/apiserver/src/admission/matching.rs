//! Which writes webhooks and policies are about, and in which version they see the object.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use machinery::object;
use machinery::schema;
use machinery::selector::LabelSelector;
use machinery::status::Status;
use machinery::strict;
use serde_json::{Map, Value};

use super::{Attributes, CREATE, Context, UPDATE};
use crate::resources::catalogue::{Resource, Storage};
use crate::resources::convert;
use crate::resources::defaults::set_defaults;

/// The writes that a webhook, a policy or a binding is about.
pub(super) struct Criteria {
    pub(super) rules: Vec<Rule>,
    /// About any resource, because there are no rules.
    pub(super) any_resource: bool,
    /// What is left out of the rules.
    excluded: Vec<Rule>,
    /// Rules may also match another version of the object.
    matches_equivalents: bool,
    /// `None` for a selector that cannot be read: it is an error for each write that it is about.
    namespaces: Option<LabelSelector>,
    objects: Option<LabelSelector>,
}

/// Some operations on some resources. Each list may have `*`.
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    /// Names of objects; empty for all.
    names: Vec<String>,
    scope: String,
}

/// The resource whose rule matched: that of the request, or another version of the same objects.
#[derive(Clone)]
pub(super) struct Matched {
    pub(super) resource: Arc<Resource>,
}

impl Matched {
    /// The object of a write, from the version of the request to that of the webhook.
    pub(super) async fn shown<'a>(
        &self,
        attributes: &Attributes<'_>,
        object: &'a Value,
    ) -> Result<Cow<'a, Value>, Status> {
        if !self.converts(attributes, object) {
            return Ok(Cow::Borrowed(object));
        }
        let object = converted(attributes.resource, &self.resource, object.clone());
        object.await.map(Cow::Owned)
    }

    /// The old object of a write in the version of the webhook; null if there is none.
    pub(super) async fn old(&self, attributes: &Attributes<'_>) -> Result<Value, Status> {
        match attributes.old {
            Some(old) => Ok(self.shown(attributes, old).await?.into_owned()),
            None => Ok(Value::Null),
        }
    }

    /// The object of a webhook in the version of the request.
    pub(super) async fn requested(
        &self,
        attributes: &Attributes<'_>,
        object: Value,
    ) -> Result<Value, Status> {
        if !self.converts(attributes, &object) {
            return Ok(object);
        }
        converted(&self.resource, attributes.resource, object).await
    }

    /// A changed object of the version that matched, with types checked and defaults set as in a
    /// body that a client sends. Also returns the problems of its fields.
    pub(super) fn completed(
        &self,
        attributes: &Attributes<'_>,
        changed: &Value,
    ) -> Result<(Value, Vec<String>), String> {
        let kind = &self.resource.kind;
        let body = kind.subresource(attributes.subresource);
        let message = body.map_or(kind.message(), |body| body.message());
        let decoded = strict::prune(changed, message).map_err(|error| error.to_string())?;
        let mut object = decoded.object;
        if object::kind(&object) == kind.kind() {
            set_defaults(&self.resource, &mut object).map_err(|error| error.to_string())?;
        }
        Ok((object, decoded.problems))
    }

    /// The body of a subresource may be of a kind of its own, which has no other version.
    fn converts(&self, attributes: &Attributes<'_>, object: &Value) -> bool {
        let (kind, asked) = (&self.resource.kind, attributes.kind);
        let same = (kind.group(), kind.version()) == (asked.group(), asked.version());
        !same && object::kind(object) == asked.kind()
    }
}

async fn converted(from: &Resource, to: &Resource, object: Value) -> Result<Value, Status> {
    let converted = convert::between(from, to, object).await;
    converted.map_err(|error| Status::internal(&error.message))
}

impl Criteria {
    /// Reads criteria whose rules are at a key.
    pub(super) fn read(object: &Value, rules: &str) -> Criteria {
        let rules_at = |key: &str| {
            let rules = object::items(object, &[key]).iter();
            rules.map(Rule::read).collect()
        };
        let selector = |key: &str| {
            let selector = object.get(key).unwrap_or(&Value::Null);
            LabelSelector::from_object(selector).ok()
        };
        Criteria {
            rules: rules_at(rules),
            any_resource: false,
            excluded: rules_at("excludeResourceRules"),
            matches_equivalents: object::text(object, &["matchPolicy"]) == "Equivalent",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Whether a write is among them, and in which version.
    pub(super) async fn find(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<Option<Matched>, Status> {
        let by_rules = |rules| self.by_rules(rules, context, attributes);
        if by_rules(&self.excluded).is_some() {
            return Ok(None);
        }
        let resource = if self.any_resource {
            Some(Arc::clone(attributes.resource))
        } else {
            by_rules(&self.rules)
        };
        let Some(resource) = resource else {
            return Ok(None);
        };
        let all = self.by_object(attributes, object)?
            && self.by_namespace(context, attributes, object).await?;
        Ok(all.then_some(Matched { resource }))
    }

    /// The first resource that a rule matches: the request's, else an equivalent one.
    fn by_rules(
        &self,
        rules: &[Rule],
        context: &Context,
        attributes: &Attributes<'_>,
    ) -> Option<Arc<Resource>> {
        let asked = attributes.resource;
        if rules.iter().any(|rule| rule.matches(attributes, asked)) {
            return Some(Arc::clone(asked));
        }
        let storage = asked
            .storage
            .as_ref()
            .filter(|_| self.matches_equivalents && !rules.is_empty())?;
        // By their keys: a definition that changed since the request was routed may have given its
        // objects another collection, and nobody escapes a rule by that.
        let catalogue = context.reader.reflector.catalogue();
        let is_shared = |its: &Arc<Storage>| its.prefix == storage.prefix;
        let shares = |one: &&Arc<Resource>| one.storage.as_ref().is_some_and(is_shared);
        let others: Vec<_> = catalogue.resources().iter().filter(shares).collect();
        let found = rules.iter().find_map(|rule| {
            let mut others = others.iter();
            others.find(|other| rule.matches(attributes, other))
        });
        found.map(|resource| Arc::clone(resource))
    }

    /// A selector of namespaces is about the labels of the object's namespace. All objects without
    /// one are selected, except namespaces themselves.
    async fn by_namespace(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<bool, Status> {
        let name = namespace(attributes);
        if name.is_empty() && !is_namespace(attributes) {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref();
        let selector = selector.ok_or_else(|| unreadable("namespaceSelector"))?;
        if selector.is_empty() {
            return Ok(true);
        }
        let written = [CREATE, UPDATE].contains(&attributes.operation);
        if is_namespace(attributes) && attributes.subresource.is_empty() && written {
            return Ok(selector.matches(object::labels(object)));
        }
        let found = read_namespace(context, name).await?;
        Ok(selector.matches(object::labels(&found)))
    }

    /// A selector of objects selects a write by the new state or by the old one.
    fn by_object(&self, attributes: &Attributes<'_>, object: &Value) -> Result<bool, Status> {
        let selector = self.objects.as_ref();
        let selector = selector.ok_or_else(|| unreadable("objectSelector"))?;
        let empty = Map::new();
        let mut states = [Some(object), attributes.old].into_iter().flatten();
        Ok(selector.is_empty()
            || states.any(|state| {
                state.is_object() && selector.matches(Some(object::labels(state).unwrap_or(&empty)))
            }))
    }
}

impl Rule {
    fn read(rule: &Value) -> Rule {
        let texts = |key: &str| {
            let all = object::items(rule, &[key]).iter();
            all.filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect()
        };
        Rule {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: object::text(rule, &["scope"]).to_owned(),
        }
    }

    /// Whether this rule is about a write, as if its resource were this one.
    fn matches(&self, attributes: &Attributes<'_>, resource: &Resource) -> bool {
        let kind = &resource.kind;
        let has = |all: &[String], one: &str| all.iter().any(|given| given == "*" || given == one);
        let part = |given: &str, one: &str| given == "*" || given == one;
        let in_scope = match self.scope.as_str() {
            "Namespaced" => kind.namespaced(),
            "Cluster" => !kind.namespaced(),
            _ => true,
        };
        let mut resources = self.resources.iter();
        in_scope
            && has(&self.operations, attributes.operation)
            && has(&self.groups, kind.group())
            && has(&self.versions, kind.version())
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
            && resources.any(|one| {
                let (plural, subresource) = one.split_once('/').unwrap_or((one, ""));
                part(plural, kind.plural()) && part(subresource, attributes.subresource)
            })
    }
}

/// The namespace that a request is about: a namespace is in itself.
pub(super) fn namespace<'a>(attributes: &Attributes<'a>) -> &'a str {
    if is_namespace(attributes) {
        attributes.name
    } else {
        attributes.namespace
    }
}

/// Whether a write is about a namespace.
pub(super) fn is_namespace(attributes: &Attributes<'_>) -> bool {
    (attributes.kind.group(), attributes.kind.plural()) == ("", "namespaces")
}

/// The namespace with this name.
pub(super) async fn read_namespace(context: &Context, name: &str) -> Result<Arc<Value>, Status> {
    let kind = schema::resource("", "v1", "namespaces")
        .ok_or_else(|| Status::internal("no namespaces in the schema"))?;
    match context.reader.cached(kind, "", name) {
        Some(found) => Ok(found),
        // The cache may not have it yet.
        None => context.reader.get(kind, "", name).await,
    }
}

fn unreadable(field: &str) -> Status {
    Status::internal(&format!("the {field} cannot be read"))
}
