//! Prevents privilege escalation: nobody may grant rights that they do not hold. The verb
//! `escalate` on the role, or `bind` on the bound role, exempts a user from the check.

use std::collections::HashMap;

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use super::{GROUP, Part, Policy, RoleRef, Rule, Target, is_master};
use crate::auth::{Attributes, User};

/// Upper bound of the parts that rules are split into to be checked, without rules that one rule of
/// the user allows as a whole: their number is the product of the lengths of four lists, each of
/// which may have a hundred thousand items.
const PARTS_MAX: usize = 50_000;
/// Upper bound of the parts that an error is about.
const MISSING_SHOWN: usize = 2000;
/// Upper bound of their texts in bytes, but for the last one: parts repeat the texts of the rule.
const MISSING_BYTES_MAX: usize = 1 << 20;

/// The right that exempts the writer of `new` in place of `old` from [`check`]: it is up to all
/// authorizers, not to roles alone. `None` if there is nothing to check. Nobody but a master may
/// bind what is no role.
pub fn exemption(
    request: &Attributes,
    new: &Value,
    old: Option<&Value>,
) -> Result<Option<Attributes>, Status> {
    if is_master(&request.user) || old.is_some_and(|old| only_lets_go(new, old)) {
        return Ok(None);
    }
    let asked = Attributes {
        api_group: GROUP.into(),
        api_version: "*".into(),
        subresource: String::new(),
        ..request.clone()
    };
    Ok(match request.resource.as_str() {
        "roles" | "clusterroles" => Some(Attributes {
            verb: "escalate".into(),
            ..asked
        }),
        "rolebindings" | "clusterrolebindings" => {
            let role = RoleRef::of(new);
            Some(Attributes {
                verb: "bind".into(),
                resource: role.resource()?.into(),
                name: role.name,
                ..asked
            })
        }
        _ => None,
    })
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
    let is_held = |rule: &&Rule| held.iter().any(|one| one.covers(rule));
    let open: Vec<&Rule> = rules.iter().filter(|rule| !is_held(rule)).collect();
    let counts = open.iter().map(|rule| rule.parts_count());
    let count = counts.fold(0, usize::saturating_add);
    if count > PARTS_MAX {
        let name = &user.name;
        return Err(format!(
            "user {name:?} is attempting to grant RBAC permissions for {count} combinations of \
             group, resource, name and verb; at most {PARTS_MAX} can be checked"
        ));
    }
    let mut bytes = 0;
    let missing: Vec<Part> = open
        .into_iter()
        .flat_map(|rule| rule.parts_beyond(&held))
        .take_while(|part| {
            let has_room = bytes <= MISSING_BYTES_MAX;
            bytes += part.bytes();
            has_room
        })
        .take(MISSING_SHOWN)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut lines = described(&missing);
    lines.sort_unstable();
    lines.dedup();
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted(user.groups.iter().map(String::as_str)),
        lines.join("\n")
    );
    if let Some(errors) = errors {
        why.push_str(&format!("; resolution errors: [{errors}]"));
    }
    Err(why)
}

/// One line for each part. Parts that differ only in the verb share one, but for those of paths.
fn described(parts: &[Part]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut verbs: HashMap<Target, Vec<&str>> = HashMap::new();
    for part in parts {
        match part.on {
            Target::Path(_) => lines.push(describe(part.on, &[part.verb])),
            Target::Resource { .. } => verbs.entry(part.on).or_default().push(part.verb),
        }
    }
    lines.extend(verbs.iter().map(|(on, verbs)| describe(*on, verbs)));
    lines
}

fn describe(on: Target, verbs: &[&str]) -> String {
    let one = |key: &str, text: &str| format!("{key}:[{text:?}]");
    let mut fields = match on {
        Target::Path(path) => vec![one("NonResourceURLs", path)],
        Target::Resource {
            group,
            resource,
            name,
        } => {
            let mut fields = vec![one("APIGroups", group), one("Resources", resource)];
            fields.extend(name.map(|name| one("ResourceNames", name)));
            fields
        }
    };
    fields.push(format!("Verbs:{}", quoted(verbs.iter().copied())));
    format!("{{{}}}", fields.join(", "))
}

fn quoted<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.map(|text| format!("{text:?}")).collect();
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
