//! Which webhooks a write concerns, and in which version they see its object.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::{Map, Value};

use super::super::{Attributes, CREATE, Context, UPDATE};
use super::configuration::{Rule, Webhook};
use crate::resources::catalogue::Resource;
use crate::resources::convert;

/// The resource whose rule matched: that of the request, or another version of the same objects.
pub(super) struct Matched {
    pub(super) resource: Arc<Resource>,
}

impl Matched {
    /// The object of a write, from the version of the request to that of the webhook.
    pub(super) fn shown<'a>(
        &self,
        attributes: &Attributes<'_>,
        object: &'a Value,
    ) -> Cow<'a, Value> {
        if self.converts(attributes, object) {
            Cow::Owned(converted(
                attributes.resource,
                &self.resource,
                object.clone(),
            ))
        } else {
            Cow::Borrowed(object)
        }
    }

    /// The same back.
    pub(super) fn requested(&self, attributes: &Attributes<'_>, object: Value) -> Value {
        if self.converts(attributes, &object) {
            converted(&self.resource, attributes.resource, object)
        } else {
            object
        }
    }

    /// The body of a subresource may be of a kind of its own, which has no other version.
    fn converts(&self, attributes: &Attributes<'_>, object: &Value) -> bool {
        let (kind, asked) = (&self.resource.kind, attributes.kind);
        let same = (kind.group(), kind.version()) == (asked.group(), asked.version());
        !same && object::kind(object) == asked.kind()
    }
}

fn converted(from: &Resource, to: &Resource, object: Value) -> Value {
    let stored = Arc::new(convert::to_stored(from, object));
    Arc::unwrap_or_clone(convert::to_served(to, &stored))
}

/// Whether a webhook is asked about a write, and in which version.
pub(super) async fn find(
    webhook: &Webhook,
    context: &Context,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<Option<Matched>, Status> {
    let Some(resource) = by_rules(webhook, context, attributes) else {
        return Ok(None);
    };
    let all = by_object(webhook, attributes, object)?
        && by_namespace(webhook, context, attributes, object).await?;
    Ok(all.then_some(Matched { resource }))
}

/// The first resource that a rule matches: the request's, else an equivalent one.
fn by_rules(
    webhook: &Webhook,
    context: &Context,
    attributes: &Attributes<'_>,
) -> Option<Arc<Resource>> {
    let asked = attributes.resource;
    let mut rules = webhook.rules.iter();
    if rules.any(|rule| rule.matches(attributes, asked)) {
        return Some(Arc::clone(asked));
    }
    let storage = asked
        .storage
        .as_ref()
        .filter(|_| webhook.matches_equivalents)?;
    let catalogue = context.reader.reflector.catalogue();
    let shares =
        |one: &&Arc<Resource>| one.storage.as_ref().is_some_and(|its| its.id == storage.id);
    let others: Vec<_> = catalogue.resources().iter().filter(shares).collect();
    let found = webhook.rules.iter().find_map(|rule| {
        let mut others = others.iter();
        others.find(|other| rule.matches(attributes, other))
    });
    found.map(|resource| Arc::clone(resource))
}

impl Rule {
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

fn is_namespace(attributes: &Attributes<'_>) -> bool {
    (attributes.kind.group(), attributes.kind.plural()) == ("", "namespaces")
}

/// A selector of namespaces is about the labels of the object's namespace. All objects without one
/// are selected, except namespaces themselves.
async fn by_namespace(
    webhook: &Webhook,
    context: &Context,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<bool, Status> {
    let name = namespace(attributes);
    if name.is_empty() && !is_namespace(attributes) {
        return Ok(true);
    }
    let selector = webhook.namespaces.as_ref();
    let selector = selector.ok_or_else(|| unreadable("namespaceSelector"))?;
    if selector.is_empty() {
        return Ok(true);
    }
    let written = [CREATE, UPDATE].contains(&attributes.operation);
    if is_namespace(attributes) && attributes.subresource.is_empty() && written {
        return Ok(selector.matches(object::labels(object)));
    }
    let kind = schema::resource("", "v1", "namespaces")
        .ok_or_else(|| Status::internal("no namespaces in the schema"))?;
    let found = match context.reader.cached(kind, "", name) {
        Some(found) => found,
        // The cache may not have it yet.
        None => context.reader.get(kind, "", name).await?,
    };
    Ok(selector.matches(object::labels(&found)))
}

/// A selector of objects selects a write by the new state or by the old one.
fn by_object(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<bool, Status> {
    let selector = webhook.objects.as_ref();
    let selector = selector.ok_or_else(|| unreadable("objectSelector"))?;
    let empty = Map::new();
    let mut states = [Some(object), attributes.old].into_iter().flatten();
    Ok(selector.is_empty()
        || states.any(|state| {
            state.is_object() && selector.matches(Some(object::labels(state).unwrap_or(&empty)))
        }))
}

fn unreadable(field: &str) -> Status {
    Status::internal(&format!("the {field} of a webhook cannot be read"))
}
