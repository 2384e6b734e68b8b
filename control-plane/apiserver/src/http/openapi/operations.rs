//! The operations of kinds: which paths there are, and what each takes and gives. OpenAPI v2 and v3
//! write the same operations differently.

mod action;
mod names;
mod parameters;
mod shape;
pub(super) mod v2;
pub(super) mod v3;

use serde_json::{Map, Value, json};

use self::parameters::Parameter;
use super::TYPE;
use super::texts::Texts;
pub(super) use names::named_group;
pub(super) use shape::Shape;

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// A path and what can be done there.
pub(super) struct Path {
    pub(super) path: String,
    pub(super) operations: Vec<Operation>,
}

pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) description: String,
    pub(super) id: String,
    pub(super) tag: String,
    /// `x-kubernetes-action`; empty if it is about no kind.
    pub(super) action: &'static str,
    /// The group, version and kind that it is about.
    pub(super) of: Option<(String, String, String)>,
    pub(super) parameters: Vec<Parameter>,
    /// The schema of the body, and whether there must be one.
    pub(super) body: Option<(String, bool)>,
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: Vec<&'static str>,
    /// The codes and what they mean.
    pub(super) codes: &'static [(&'static str, &'static str)],
    /// The schema of a good answer; without one it is text.
    pub(super) answer: Option<String>,
}

/// What each version of OpenAPI writes in its own way: an operation with its own parameters, and a
/// parameter.
pub(super) struct Form {
    operation: fn(&Operation, &[Parameter], &Texts) -> Value,
    parameter: fn(&Parameter, &Texts) -> Value,
}

/// The paths of a document, each made when it is written.
pub(super) fn paths<'a>(
    all: &'a [Path],
    texts: &'a Texts,
    form: Form,
) -> impl Iterator<Item = (String, Value)> + 'a {
    all.iter().map(move |path| {
        let common = path.common();
        let operations = path.operations.iter().map(|operation| {
            let written = (form.operation)(operation, &operation.own(&common), texts);
            (operation.method.to_owned(), written)
        });
        let mut item: Map<String, Value> = operations.collect();
        if !common.is_empty() {
            let common = common.iter().map(|one| (form.parameter)(one, texts));
            item.insert("parameters".into(), common.collect());
        }
        (path.path.clone(), item.into())
    })
}

impl Path {
    /// The parameters of all operations, which are written once, in order.
    fn common(&self) -> Vec<Parameter> {
        let Some((first, others)) = self.operations.split_first() else {
            return Vec::new();
        };
        let everywhere =
            |one: &&Parameter| others.iter().all(|other| other.parameters.contains(one));
        let mut common: Vec<Parameter> = first
            .parameters
            .iter()
            .filter(everywhere)
            .cloned()
            .collect();
        common.sort_by_key(Parameter::order);
        common
    }
}

impl Operation {
    /// The parameters besides the common ones, in order.
    fn own(&self, common: &[Parameter]) -> Vec<Parameter> {
        let own = self.parameters.iter().filter(|one| !common.contains(one));
        let mut own: Vec<Parameter> = own.cloned().collect();
        own.sort_by_key(Parameter::order);
        own
    }

    /// Adds what is done, and with which kind.
    fn add_subject(&self, written: &mut Value) {
        if let Some((group, version, kind)) = &self.of {
            written["x-kubernetes-action"] = self.action.into();
            written[TYPE] = json!({"group": group, "version": version, "kind": kind});
        }
    }

    /// Its responses. `good` writes one that is no error, with its description and schema.
    fn responses(
        &self,
        reference_to: fn(&str) -> Value,
        good: impl Fn(&str, &Value) -> Value,
    ) -> Value {
        let schema = match &self.answer {
            Some(schema) => reference_to(schema),
            None => json!({"type": "string"}),
        };
        let codes = self.codes.iter();
        let responses =
            codes.map(|(code, description)| ((*code).to_owned(), good(description, &schema)));
        let mut all: Map<String, Value> = responses.collect();
        all.insert("401".into(), json!({"description": "Unauthorized"}));
        all.into()
    }
}
