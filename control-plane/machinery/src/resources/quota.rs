//! What resource quotas count: how much of each resource an object uses, which objects are in the
//! scopes of a quota. Admission charges new objects and the control loop counts all of them, by the
//! same rules.

mod claims;
mod pods;
mod services;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::object;
use crate::object::selector::{Operator, Requirement};
use crate::resources::amounts::Amounts;
use crate::values::quantity::{Format, Quantity};
use crate::values::time::Timestamp;

/// Resources of the API that no quota counts: they are not stored, or there are too many.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

/// Core kinds that quotas could count before they could count every kind; the name is the plural.
const OLD_NAMES: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// A kind whose objects quotas count, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The number of objects, such as `count/deployments.apps`.
    name: String,
    rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Only their number, maybe under an old name, too.
    Number {
        old: Option<&'static str>,
    },
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
}

/// A scope of a quota: a condition on the objects that it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope(Requirement);

impl Counted {
    /// How quotas count a kind; `None` if they do not.
    pub fn of(group: &str, plural: &str) -> Option<Counted> {
        if IGNORED.contains(&(group, plural)) {
            return None;
        }
        let rule = match (group, plural) {
            ("", "pods") => Rule::Pods,
            ("", "services") => Rule::Services,
            ("", "persistentvolumeclaims") => Rule::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Rule::DeviceClaims,
            ("", plural) => Rule::Number {
                old: OLD_NAMES.into_iter().find(|old| *old == plural),
            },
            _ => Rule::Number { old: None },
        };
        let name = if group.is_empty() {
            format!("count/{plural}")
        } else {
            format!("count/{plural}.{group}")
        };
        Some(Counted { name, rule })
    }

    /// True if the objects of the kind use the resource that a quota has this name for.
    pub fn counts(&self, resource: &str) -> bool {
        resource == self.name
            || match self.rule {
                Rule::Number { old } => old == Some(resource),
                Rule::Pods => pods::counts(resource),
                Rule::Services => services::COUNTED.contains(&resource),
                Rule::VolumeClaims => claims::counts_of_volumes(resource),
                Rule::DeviceClaims => claims::counts_of_devices(resource),
            }
    }

    /// True if only the number of objects counts, so that their content does not matter.
    pub fn is_number(&self) -> bool {
        matches!(self.rule, Rule::Number { .. })
    }

    /// What an object uses.
    pub fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        let mut usage = match self.rule {
            Rule::Number { old } => old.into_iter().map(|old| number(old, 1)).collect(),
            Rule::Pods => pods::usage(object, now),
            Rule::Services => services::usage(object),
            Rule::VolumeClaims => claims::usage_of_volumes(object),
            Rule::DeviceClaims => claims::usage_of_devices(object),
        };
        usage.extend([number(&self.name, 1)]);
        usage
    }

    /// True if an object is in a scope.
    pub fn is_in(&self, scope: &Scope, object: &Value) -> bool {
        match self.rule {
            Rule::Pods => pods::is_in(&scope.0, object),
            Rule::VolumeClaims => claims::is_in(&scope.0, object),
            _ => false,
        }
    }

    /// Why an object has to say more before a quota can count these resources; `None` if it says
    /// enough.
    pub fn unspecified<'a>(
        &self,
        object: &Value,
        resources: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        match self.rule {
            Rule::Pods => pods::unspecified(object, resources),
            _ => None,
        }
    }

    /// True if an update of an object or of a subresource is charged. New objects always are.
    pub fn charges_update(&self, subresource: &str, old: &Value, new: &Value) -> bool {
        match (self.rule, subresource) {
            (Rule::Pods, "") => pods::has_deadline(old) != pods::has_deadline(new),
            (Rule::Pods, "resize") => true,
            (Rule::Services | Rule::VolumeClaims | Rule::DeviceClaims, "") => true,
            (Rule::VolumeClaims, "status") => true,
            _ => false,
        }
    }

    /// True if an update may change what an object uses, or the scopes that it is in.
    pub fn is_changed(&self, old: &Value, new: &Value, now: Timestamp) -> bool {
        match self.rule {
            Rule::Pods => pods::is_changed(old, new, now),
            Rule::Services => services::is_changed(old, new),
            Rule::VolumeClaims => claims::is_changed(old, new),
            Rule::Number { .. } | Rule::DeviceClaims => false,
        }
    }
}

impl Scope {
    /// The scopes of a quota. Validation has refused operators that there are not; an unknown one
    /// is an error that names it.
    pub fn all(quota: &Value) -> Result<Vec<Scope>, String> {
        let listed = object::items(quota, &["spec", "scopes"]).iter();
        let listed = listed.map(|scope| Ok(Scope::existing(scope.as_str().unwrap_or_default())));
        let selected = object::items(quota, &["spec", "scopeSelector", "matchExpressions"]);
        listed.chain(selected.iter().map(Scope::read)).collect()
    }

    fn existing(name: &str) -> Scope {
        Scope(Requirement {
            key: name.to_owned(),
            operator: Operator::Exists,
            values: Vec::new(),
        })
    }

    fn read(expression: &Value) -> Result<Scope, String> {
        let operator = match object::text(expression, &["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(format!("{other:?} is not a valid scope selector operator")),
        };
        let values = object::items(expression, &["values"]).iter();
        let values = values.filter_map(Value::as_str).map(str::to_owned);
        Ok(Scope(Requirement {
            key: object::text(expression, &["scopeName"]).to_owned(),
            operator,
            values: values.collect(),
        }))
    }
}

/// A whole number of a resource.
fn number(resource: &str, count: i64) -> (String, Quantity) {
    let count = Quantity::from_integer(count, Format::DecimalSi);
    (resource.to_owned(), count)
}
