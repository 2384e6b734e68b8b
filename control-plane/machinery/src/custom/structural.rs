//! Structural schemas: what the author of a custom resource says about its fields.
//!
//! A schema decides which fields an object keeps ([`Schema::prune`]), which values it gets
//! ([`Schema::default`]) and which it may have ([`Schema::validate`]). [`Schema::parse`] accepts
//! only *structural* schemas: the type of every field stands outside of `allOf`, `anyOf`, `oneOf`
//! and `not`, so the three passes follow one tree and never guess.
//!
//! The words of the errors are Kubernetes', also those of rules in CEL (`x-kubernetes-validations`).

mod causes;
mod check;
mod defaults;
mod document;
mod node;
mod path;
mod prune;
mod rules;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::OnceLock;

use serde_json::Value;

use crate::basics::budget::{Budget, Room};
use crate::custom::cel::admission::ObjectType;
use crate::edit::apply;
use crate::status::Cause;
use crate::values::pattern::Patterns;
use causes::Causes;
use check::errors::Base;
use check::{embedded, errors, lists, validate};
pub use document::openapi::CommonTexts;
use document::{keywords, shape, structure};
use node::Node;
use path::Path;
use rules::Rules;

/// Maximum depth of a schema, in schemas within schemas: it bounds every recursion here, because
/// the passes over an object descend only where the schema does.
const DEPTH_MAX: usize = 64;
/// Upper bound of the patterns of a schema, compiled, in bytes: its own, and those in its rules.
const PATTERNS_BYTES_MAX: usize = 32 << 20;

/// What keeps rules from being evaluated: the object may not have the shape that they rely on.
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];
const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; \
                         correct the existing errors to complete validation";

/// The schema of one version of a custom resource.
#[derive(Debug)]
pub struct Schema {
    root: Node,
    /// `None` if there are no rules in CEL.
    rules: Option<Rules>,
    /// The schema as its author wrote it.
    document: Value,
    /// What server-side apply makes of the document, from the first write on.
    typing: OnceLock<apply::Custom>,
}

impl Schema {
    /// Reads an `openAPIV3Schema`. The fields of the causes are relative to it, and empty for the
    /// schema itself.
    pub fn parse(document: &Value) -> Result<Schema, Vec<Cause>> {
        Schema::parse_at("", document)
    }

    /// Like [`Schema::parse`], for a schema at this field, such as
    /// `spec.validation.openAPIV3Schema`: fields, and the messages that name fields, start with it.
    pub fn parse_at(field: &str, document: &Value) -> Result<Schema, Vec<Cause>> {
        let at = Path::at(field);
        let misshapen = shape::check(document, &at);
        if !misshapen.is_empty() {
            return Err(misshapen.into());
        }
        let mut causes = Causes::default();
        let mut patterns = Patterns::within(PATTERNS_BYTES_MAX);
        let mut root = None;
        let unsupported = keywords::unsupported(document, &at);
        if unsupported.is_none() {
            causes = structure::check(document, &at, &mut patterns);
            if causes.is_empty() {
                let node = Node::read(document, &mut patterns);
                defaults::check(&node, &at, &mut causes);
                root = Some(node);
            }
        }
        causes.extend(keywords::check(document, &at));
        if causes.is_empty() {
            causes.extend(unsupported);
        }
        match root {
            Some(root) if causes.is_empty() => Ok(Schema {
                rules: Rules::compile(&root, true, &mut patterns.left()),
                root,
                document: document.clone(),
                typing: OnceLock::new(),
            }),
            _ => Err(causes.into()),
        }
    }

    /// Removes the fields that the schema does not have, and returns their paths in order, such as
    /// `spec.list[0].name`, but not very many. The type and the metadata of the object stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object, true, Room::default())
    }

    /// Makes an object of another version one of this: removes the fields that the schema does not
    /// have, and nulls from fields that allow none and have no default.
    pub fn coerce(&self, object: &mut Value) {
        prune::prune(&self.root, object, true, Room::NONE);
        defaults::drop_nulls(&self.root, object);
    }

    /// The formats in a document, valid or not, that are not checked: nobody knows them for values of
    /// their type.
    pub fn unrecognized_formats(document: &Value) -> Vec<String> {
        let mut found = Vec::new();
        node::format::unrecognized(document, DEPTH_MAX, &mut found);
        found
    }

    /// The paths of the fields that [`Schema::prune`] would remove.
    pub fn unknown(&self, object: &Value) -> Vec<String> {
        self.prune(&mut object.clone())
    }

    /// Fills in the defaults. A null where none is allowed counts as a missing field. False if they
    /// would take more memory than an object may: the object gets none then, so that nobody shows
    /// or stores some of them.
    pub fn default(&self, object: &mut Value) -> bool {
        defaults::drop_nulls(&self.root, object);
        let fits = defaults::fit(&self.root, object, &mut Budget::default());
        if fits {
            defaults::fill(&self.root, object);
        }
        fits
    }

    /// Brings an object in line with the schema, which may have changed since it was written: takes
    /// fields away and fills in defaults. It can be read, and so deleted, without defaults that
    /// would take too much memory. True if the object is another one now.
    pub fn renew(&self, object: &mut Value) -> bool {
        let before = object.clone();
        prune::prune(&self.root, object, true, Room::NONE);
        self.default(object);
        *object != before
    }

    /// True if both schemas keep the same fields and fill in the same defaults, whatever else they
    /// say about values.
    pub fn keeps_like(&self, other: &Schema) -> bool {
        self.root.keeps_like(&other.root)
    }

    /// Why the type or the metadata of an object within this one cannot be decoded. Kubernetes
    /// refuses that before it validates anything.
    pub fn undecodable(&self, object: &Value) -> Option<String> {
        embedded::undecodable(&self.root, object, &Path::root())
    }

    /// What is wrong with the object; empty if nothing is.
    ///
    /// With `old`, the object that it replaces, invalid values that did not change are let through,
    /// so that a schema may become stricter.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let found = validate::validate(&self.root, object, old);
        let mut causes = Causes::default();
        causes.extend(errors::causes(found, &Base::Object));
        embedded::check(&self.root, object, &Path::root(), &mut causes);
        if old.is_none_or(|old| lists::are_unique(&self.root, old)) {
            lists::check(&self.root, object, &Path::root(), &mut causes);
        }
        if let Some(rules) = &self.rules {
            if causes.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
                causes.push(Cause::invalid("<nil>", &Value::Null, UNCHECKED));
            } else {
                rules::enforce(rules, &self.root, object, old, &mut causes);
            }
        }
        causes.into()
    }

    /// The type of the whole object, for server-side apply.
    pub fn typing(&self) -> &apply::Custom {
        self.typing
            .get_or_init(|| apply::Custom::of_object(&self.document))
    }

    /// What is wrong with the rules in CEL of a schema at this field: those that do not compile
    /// and those that may cost too much.
    pub fn check_rules(&self, field: &str) -> Vec<Cause> {
        let rules = self.rules.as_ref();
        let causes = rules.map(|rules| rules::check(rules, &self.root, &Path::at(field)));
        causes.unwrap_or_default()
    }

    /// The type of the objects of this kind, for the expressions of policies.
    pub fn object_type(&self, kind: &str) -> Option<ObjectType> {
        ObjectType::custom(kind, rules::shape(&self.root, kind))
    }
}
