//! Prevents privilege escalation: nobody may grant rights that they do not hold. The verb
//! `escalate` on the role, or `bind` on the bound role, exempts a user from the check.

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use super::{GROUP, Policy, RoleRef, Rule, is_master};
use crate::auth::{Attributes, User};

/// Upper bound of the parts that rules are split into to be checked: their number is the product of
/// the lengths of four lists, each of which may have a hundred thousand items.
const PARTS_MAX: usize = 50_000;
/// Upper bound of the parts that an error is about.
const MISSING_SHOWN: usize = 2000;

/// The right that exempts the writer of `new` in place of `old` from [`check`]: it is up to all
/// authorizers, not to roles alone. `None` if there is nothing to check.
pub fn exemption(request: &Attributes, new: &Value, old: Option<&Value>) -> Option<Attributes> {
    if is_master(&request.user) || old.is_some_and(|old| only_lets_go(new, old)) {
        return None;
    }
    let asked = Attributes {
        api_group: GROUP.into(),
        api_version: "*".into(),
        subresource: String::new(),
        ..request.clone()
    };
    match request.resource.as_str() {
        "roles" | "clusterroles" => Some(Attributes {
            verb: "escalate".into(),
            ..asked
        }),
        "rolebindings" | "clusterrolebindings" => {
            let role = RoleRef::of(new);
            Some(Attributes {
                verb: "bind".into(),
                resource: role.resource().into(),
                name: role.name,
                ..asked
            })
        }
        _ => None,
    }
}

/// Checks that a user without the [`exemption`] may write `new`, a role or a binding, in place of
/// `old`.
pub fn check(
    policy: &Policy,
    request: &Attributes,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    match request.resource.as_str() {
        "roles" | "clusterroles" => check_role(policy, request, new, old),
        _ => check_binding(policy, request, new),
    }
}

fn check_role(
    policy: &Policy,
    request: &Attributes,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let forbidden = |why: &str| Status::forbidden(GROUP, &request.resource, object::name(new), why);
    let rules: Vec<Rule> = object::items(new, &["rules"])
        .iter()
        .map(Rule::from_value)
        .collect();
    confirm(policy, &request.user, &request.namespace, &rules).map_err(|why| forbidden(&why))?;
    // An aggregating role can gain any rule, even later, so writing one takes full authority.
    if aggregates(new) || old.is_some_and(aggregates) {
        confirm(
            policy,
            &request.user,
            &request.namespace,
            &Rule::everything(),
        )
        .map_err(|_| forbidden("must have cluster-admin privileges to use the aggregationRule"))?;
    }
    Ok(())
}

fn check_binding(policy: &Policy, request: &Attributes, new: &Value) -> Result<(), Status> {
    let rules = policy.referred(&RoleRef::of(new), &request.namespace)?;
    confirm(policy, &request.user, &request.namespace, rules)
        .map_err(|why| Status::forbidden(GROUP, &request.resource, object::name(new), &why))
}

/// An error that names the rules the user does not hold.
fn confirm(policy: &Policy, user: &User, namespace: &str, rules: &[Rule]) -> Result<(), String> {
    let (held, errors) = policy.rules_for(user, namespace);
    let counts = rules.iter().map(Rule::parts_count);
    let count = counts.fold(0, usize::saturating_add);
    if count > PARTS_MAX {
        let name = &user.name;
        return Err(format!(
            "user {name:?} is attempting to grant RBAC permissions for {count} combinations of \
             group, resource, name and verb; at most {PARTS_MAX} can be checked"
        ));
    }
    let missing: Vec<Rule> = rules
        .iter()
        .flat_map(Rule::parts)
        .filter(|part| !held.iter().any(|rule| rule.covers(part)))
        .take(MISSING_SHOWN)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = compact(missing).iter().map(describe).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted(&user.groups),
        lines.join("\n")
    );
    if let Some(errors) = errors {
        why.push_str(&format!("; resolution errors: [{errors}]"));
    }
    Err(why)
}

/// Joins parts that differ only in the verb.
fn compact(parts: Vec<Rule>) -> Vec<Rule> {
    let mut joined: Vec<Rule> = Vec::new();
    for part in parts {
        let same = joined.iter_mut().find(|rule| {
            part.non_resource_urls.is_empty()
                && rule.non_resource_urls.is_empty()
                && rule.api_groups == part.api_groups
                && rule.resources == part.resources
                && rule.resource_names == part.resource_names
        });
        match same {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => joined.push(part),
        }
    }
    joined
}

fn describe(rule: &Rule) -> String {
    let fields: Vec<String> = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ]
    .into_iter()
    .filter(|(_, texts)| !texts.is_empty())
    .map(|(name, texts)| format!("{name}:{}", quoted(texts)))
    .collect();
    format!("{{{}}}", fields.join(", "))
}

fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn aggregates(role: &Value) -> bool {
    !object::items(role, &["aggregationRule", "clusterRoleSelectors"]).is_empty()
}

/// True if only finalizers and owners changed: the garbage collector must be able to release a role
/// whose rights it does not hold.
fn only_lets_go(new: &Value, old: &Value) -> bool {
    let without = |value: &Value| {
        let mut value = value.clone();
        for key in [
            "finalizers",
            "ownerReferences",
            "managedFields",
            "resourceVersion",
            "selfLink",
        ] {
            object::remove(&mut value, &["metadata", key]);
        }
        value
    };
    without(new) == without(old)
}
