//! Follows ValidatingAdmissionPolicies, and writes into their status which expressions do not fit
//! the kinds that they are about. Nothing depends on it: it warns the authors of policies.
//!
//! Every server of a store does this by itself. Of two that write at once one fails, and finds
//! the status of the other one.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use machinery::cel::admission::{Compiler, ObjectType};
use machinery::object;
use machinery::schema::split_api_version;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::registry::Registry;
use crate::resources::catalogue::{Catalogue, Resource};
use crate::storage::following::Following;

const GROUP: &str = "admissionregistration.k8s.io";
const PLURAL: &str = "validatingadmissionpolicies";
/// The most kinds that one rule of a policy is checked against.
const KINDS_MAX: usize = 10;
/// How long to wait before trying again what failed.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Follows the policies of a store for ever.
pub(crate) async fn follow(registry: Arc<Registry>) {
    registry.reader.reflector.loaded().await;
    while let Err(error) = run(&registry).await {
        tracing::warn!(%error, "the types in policies cannot be checked");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Follows the policies until something fails.
async fn run(registry: &Registry) -> Result<(), Status> {
    let resource = registry.reader.resource(GROUP, "v1", PLURAL)?;
    let storage = resource.stored()?;
    let cache = registry.reader.reflector.cache(storage)?;
    // Begun before the first turn: what changes during a turn wakes for the next one.
    let mut following = Following::begin(cache, storage, "policies")?;
    loop {
        turn(registry, &resource).await?;
        following.changed().await?;
    }
}

/// Checks the policies that changed since their last check.
async fn turn(registry: &Registry, resource: &Resource) -> Result<(), Status> {
    let catalogue = registry.reader.reflector.catalogue();
    for policy in registry.reader.cached_readable(&resource.kind, "") {
        let generation = object::generation(&policy);
        let observed = object::integer(&policy, &["status", "observedGeneration"]);
        if observed.is_some_and(|observed| generation <= observed) {
            continue;
        }
        let mut checked = Value::clone(&policy);
        let warnings = check(&catalogue, &policy);
        let checking = if warnings.is_empty() {
            json!({})
        } else {
            json!({ "expressionWarnings": warnings })
        };
        let observed = &["status", "observedGeneration"];
        object::set(&mut checked, observed, generation.into());
        object::set(&mut checked, &["status", "typeChecking"], checking);
        match registry.update_status(&resource.kind, checked).await {
            // Its newer state is on its way here.
            Err(error) if error.code == 409 || error.code == 404 => {}
            written => written?,
        }
    }
    Ok(())
}

/// The warnings about the expressions of a policy.
fn check(catalogue: &Catalogue, policy: &Value) -> Vec<Value> {
    let spec = &policy["spec"];
    let params = params(catalogue, spec);
    let types = kinds(catalogue, spec);
    let compilers: Vec<_> = types
        .iter()
        .filter_map(|resource| {
            let found = object_type(resource)?;
            let params = params.as_ref().map(Option::as_ref);
            let mut compiler = Compiler::typed(&found, params);
            for variable in object::items(spec, &["variables"]) {
                let text = |key: &str| object::text(variable, &[key]);
                compiler.add_typed(text("name"), text("expression"));
            }
            Some((shown(resource), compiler))
        })
        .collect();
    let mut warnings = Vec::new();
    for (at, validation) in object::items(spec, &["validations"]).iter().enumerate() {
        for key in ["expression", "messageExpression"] {
            let source = object::text(validation, &[key]);
            if source.is_empty() {
                continue;
            }
            let told: Vec<String> = compilers
                .iter()
                .filter_map(|(kind, compiler)| {
                    Some(format!("{kind}: {}\n", compiler.issues(source)?))
                })
                .collect();
            if !told.is_empty() {
                let field = format!("spec.validations[{at}].{key}");
                warnings.push(json!({"fieldRef": field, "warning": told.join("\n")}));
            }
        }
    }
    warnings
}

/// The type of parameters: `None` without parameters, and none in it if their kind is not served.
fn params(catalogue: &Catalogue, spec: &Value) -> Option<Option<ObjectType>> {
    let kind = object::at(spec, &["paramKind"]).filter(|kind| kind.is_object())?;
    let text = |key: &str| object::text(kind, &[key]);
    let (group, version) = split_api_version(text("apiVersion"));
    let mut resources = catalogue.resources().iter();
    let found = resources.find(|one| {
        let place = (one.kind.group(), one.kind.version(), one.kind.kind());
        place == (group, version, text("kind"))
    });
    Some(found.and_then(|resource| object_type(resource)))
}

/// The resources that the rules of a policy name, without those that `*` stands for.
fn kinds<'a>(catalogue: &'a Catalogue, spec: &Value) -> Vec<&'a Arc<Resource>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for rule in object::items(spec, &["matchConstraints", "resourceRules"]) {
        let texts = |key: &str| {
            let items = object::items(rule, &[key]).iter();
            let mut texts: Vec<&str> = items.filter_map(Value::as_str).collect();
            texts.sort_unstable();
            texts
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        let has_any = |texts: &[&str]| texts.iter().any(|text| text.contains('*'));
        if has_any(&groups) || has_any(&versions) {
            continue;
        }
        let mut plurals = texts("resources");
        plurals.retain(|plural| !plural.contains(['*', '/']));
        let all = groups.iter().flat_map(|group| {
            let versions = versions.iter();
            versions.flat_map(|version| {
                let plurals = plurals.iter();
                plurals.filter_map(|plural| catalogue.resource(group, version, plural))
            })
        });
        for resource in all.take(KINDS_MAX) {
            if seen.insert(place(resource)) {
                found.push(resource);
            }
        }
    }
    found.sort_by_key(|resource| place(resource));
    found
}

fn place(resource: &Resource) -> (String, String, String) {
    let kind = &resource.kind;
    let owned = [kind.group(), kind.version(), kind.kind()].map(str::to_owned);
    owned.into()
}

fn shown(resource: &Resource) -> String {
    let kind = &resource.kind;
    format!("{}/{}, Kind={}", kind.group(), kind.version(), kind.kind())
}

fn object_type(resource: &Resource) -> Option<ObjectType> {
    let kind = resource.kind.kind();
    match &resource.custom {
        None => ObjectType::builtin(kind, resource.kind.message()),
        Some(_) => resource.schema()?.object_type(kind),
    }
}
