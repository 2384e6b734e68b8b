//! Who may give policies parameters: only users who may read them, because a policy can tell what
//! is in them.

use machinery::object;
use machinery::schema::split_api_version;
use machinery::status::{Cause, Status};
use serde_json::Value;

use super::super::{Attributes, Context, DELETE, GROUP};
use super::definition::ParamKind;
use super::params;
use crate::auth;

/// What a policy or a binding refers to.
struct Referred<'a> {
    /// The field that refers to it.
    field: &'static str,
    kind: Option<ParamKind>,
    verb: &'static str,
    namespace: &'a str,
    name: &'a str,
}

/// Checks that the user who writes a policy or a binding may read the parameters.
pub(in super::super) async fn check(
    context: &Context,
    attributes: &Attributes<'_>,
    new: &Value,
) -> Result<(), Status> {
    let kind = attributes.kind;
    let is_main = attributes.subresource.is_empty() && attributes.operation != DELETE;
    if kind.group() != GROUP || !is_main || attributes.user.is_this_process() {
        return Ok(());
    }
    let same = |path: &[&str]| {
        let old = attributes.old.and_then(|old| object::at(old, path));
        old.is_some() && old == object::at(new, path)
    };
    let referred = match kind.kind() {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            if same(&["spec", "paramKind"]) {
                return Ok(());
            }
            of_policy(new)
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            if same(&["spec", "paramRef"]) && same(&["spec", "policyName"]) {
                return Ok(());
            }
            of_binding(context, kind.kind(), new)
        }
        _ => None,
    };
    match referred {
        Some(referred) => referred.check(context, attributes, new).await,
        None => Ok(()),
    }
}

fn of_policy(policy: &Value) -> Option<Referred<'_>> {
    Some(Referred {
        field: "spec.paramKind",
        kind: Some(param_kind(policy)?),
        verb: "get",
        namespace: "*",
        name: "*",
    })
}

fn of_binding<'a>(context: &Context, kind: &str, binding: &'a Value) -> Option<Referred<'a>> {
    object::at(binding, &["spec", "paramRef"]).filter(|reference| reference.is_object())?;
    let text = |key: &str| object::text(binding, &["spec", "paramRef", key]);
    let policies = match kind {
        "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicies",
        _ => "mutatingadmissionpolicies",
    };
    let policies = machinery::schema::resource(GROUP, "v1", policies)?;
    let policy = object::text(binding, &["spec", "policyName"]);
    let policy = context.reader.cached(policies, "", policy);
    Some(Referred {
        field: "spec.paramRef",
        kind: policy.as_deref().and_then(param_kind),
        verb: if text("name").is_empty() {
            "list"
        } else {
            "get"
        },
        namespace: text("namespace"),
        name: text("name"),
    })
}

fn param_kind(policy: &Value) -> Option<ParamKind> {
    let kind = object::at(policy, &["spec", "paramKind"]).filter(|kind| kind.is_object())?;
    Some(ParamKind {
        api_version: object::text(kind, &["apiVersion"]).to_owned(),
        kind: object::text(kind, &["kind"]).to_owned(),
    })
}

impl Referred<'_> {
    async fn check(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        new: &Value,
    ) -> Result<(), Status> {
        // What cannot be resolved takes the right to read everything.
        let (mut group, mut resource) = ("*".to_owned(), "*".to_owned());
        if let Some(kind) = &self.kind {
            group = split_api_version(&kind.api_version).0.to_owned();
            if let Ok(Some(found)) = params::resource(context, Some(kind)) {
                resource = found.kind.plural().to_owned();
            }
        }
        let asked = auth::Attributes {
            user: attributes.user.clone(),
            verb: self.verb.into(),
            api_group: group,
            resource,
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            ..auth::Attributes::default()
        };
        let decision = context.authorizer.decide(&context.reader, &asked).await?;
        if decision.allowed {
            return Ok(());
        }
        let (user, verb) = (&attributes.user.name, self.verb);
        let what = match (&self.kind, self.field) {
            (Some(ParamKind { api_version, kind }), "spec.paramKind") => format!(
                "all objects of the referenced paramKind (kind={kind}, apiVersion={api_version})"
            ),
            _ => "the object referenced by paramRef".to_owned(),
        };
        let why = format!("user {user} must have {verb:?} permission on {what}");
        let kind = attributes.kind;
        let causes = vec![Cause::forbidden(self.field, &why)];
        let name = object::name(new);
        Err(Status::invalid(kind.group(), kind.kind(), name, causes))
    }
}
