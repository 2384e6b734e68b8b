//! Policies and bindings, read and compiled once for each of their revisions.

use machinery::cel::admission::{Compiler, Variables};
use machinery::object;
use machinery::selector::LabelSelector;
use machinery::status::Status;
use serde_json::Value;

use super::super::conditions::Conditions;
use super::super::matching::Criteria;
use super::super::{Attributes, Context};

/// A policy with what it does.
pub(super) struct Policy<E> {
    pub(super) name: String,
    pub(super) ignores_failures: bool,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) criteria: Criteria,
    pub(super) variables: Variables,
    pub(super) conditions: Conditions,
    pub(super) effect: E,
}

/// What a policy does to the writes that it is about.
pub(super) trait Effect {
    /// Reads the spec of a policy.
    fn read(spec: &Value, compiler: &Compiler) -> Self;
}

/// The kind of a policy's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParamKind {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// What makes a policy take effect, and on which writes.
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    /// `None` for all writes that the policy is about.
    criteria: Option<Criteria>,
    pub(super) param_ref: Option<ParamRef>,
    /// What a validating policy does about a write that it does not accept.
    pub(super) actions: Vec<Action>,
}

/// Which objects are the parameters.
pub(super) struct ParamRef {
    /// Empty if a selector says it.
    pub(super) name: String,
    /// Empty for the namespace of the request.
    pub(super) namespace: String,
    pub(super) selector: Option<Result<LabelSelector, String>>,
    /// A write fails if there are no such objects.
    pub(super) denies_missing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    /// The event about the request says so, if it is recorded.
    Audit,
}

impl Action {
    pub(super) fn name(self) -> &'static str {
        match self {
            Action::Deny => "Deny",
            Action::Warn => "Warn",
            Action::Audit => "Audit",
        }
    }
}

impl<E: Effect> Policy<E> {
    pub(super) fn read(policy: &Value) -> Policy<E> {
        let spec = &policy["spec"];
        let param_kind = object::at(spec, &["paramKind"]).filter(|kind| kind.is_object());
        let mut compiler = Compiler::composing(param_kind.is_some());
        let text = |one: &Value, key: &str| object::text(one, &[key]).to_owned();
        let mut variables = Variables::new();
        for one in object::items(spec, &["variables"]) {
            let (name, source) = (text(one, "name"), text(one, "expression"));
            let expression = compiler.add(&name, &source);
            variables.insert(name, expression);
        }
        Policy {
            name: object::name(policy).to_owned(),
            ignores_failures: object::text(spec, &["failurePolicy"]) == "Ignore",
            param_kind: param_kind.map(|kind| ParamKind {
                api_version: text(kind, "apiVersion"),
                kind: text(kind, "kind"),
            }),
            criteria: Criteria::read(&spec["matchConstraints"], "resourceRules"),
            conditions: Conditions::read(spec, &compiler),
            effect: E::read(spec, &compiler),
            variables,
        }
    }
}

impl Binding {
    pub(super) fn read(binding: &Value) -> Binding {
        let spec = &binding["spec"];
        let given = |key: &str| spec.get(key).filter(|value| value.is_object());
        let actions = object::items(spec, &["validationActions"]).iter();
        Binding {
            name: object::name(binding).to_owned(),
            policy: object::text(spec, &["policyName"]).to_owned(),
            criteria: given("matchResources").map(|resources| {
                let mut criteria = Criteria::read(resources, "resourceRules");
                criteria.any_resource = criteria.rules.is_empty();
                criteria
            }),
            param_ref: given("paramRef").map(ParamRef::read),
            actions: actions
                .filter_map(|action| match action.as_str()? {
                    "Deny" => Some(Action::Deny),
                    "Warn" => Some(Action::Warn),
                    "Audit" => Some(Action::Audit),
                    _ => None,
                })
                .collect(),
        }
    }

    /// Whether a write that the policy is about is also one of the binding's.
    pub(super) async fn concerns(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<bool, Status> {
        match &self.criteria {
            None => Ok(true),
            Some(criteria) => {
                let found = criteria.find(context, attributes, object).await?;
                Ok(found.is_some())
            }
        }
    }
}

impl ParamRef {
    fn read(reference: &Value) -> ParamRef {
        let text = |key: &str| object::text(reference, &[key]).to_owned();
        let selector = reference
            .get("selector")
            .filter(|selector| selector.is_object());
        ParamRef {
            name: text("name"),
            namespace: text("namespace"),
            selector: selector.map(|selector| {
                LabelSelector::from_object(selector).map_err(|error| error.to_string())
            }),
            denies_missing: text("parameterNotFoundAction") == "Deny",
        }
    }
}
