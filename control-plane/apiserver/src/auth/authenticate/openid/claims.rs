//! The user that the claims of a valid token name.

use machinery::cel::access::Expression;
use serde_json::{Value, json};

use crate::auth::User;
use crate::auth::authenticate::foreign_issuer::{Compiled, Jwt, Mapping};
use crate::auth::user;

/// Returns the user if all rules are kept.
pub(super) fn user(jwt: &Jwt, compiled: &Compiled, claims: &Value) -> Result<User, String> {
    let seen = as_seen(claims);
    let mut user = User {
        name: name(&jwt.claim_mappings.username, compiled, claims, &seen)?,
        groups: groups(&jwt.claim_mappings.groups, compiled, claims, &seen)?,
        uid: uid(&jwt.claim_mappings.uid, compiled, claims, &seen)?,
        ..User::default()
    };
    if let Ok(id) = text(claims, "jti")
        && !id.is_empty()
    {
        let id = vec![format!("JTI={id}")];
        user.extra.insert(user::CREDENTIAL_ID.to_owned(), id);
    }
    for (key, expression) in &compiled.extra {
        let values = evaluate(expression, &seen)?;
        let values = texts(&values).map_err(|why| {
            let source = expression.source();
            format!("oidc: error evaluating extra claim expression: {source}: {why}")
        })?;
        if !values.is_empty() {
            user.extra.insert(key.clone(), values);
        }
    }
    required(jwt, claims)?;
    rules(&compiled.claim_rules, &seen)
        .map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))?;
    let shown = json!({"username": user.name, "uid": user.uid, "groups": user.groups,
        "extra": user.extra});
    rules(&compiled.user_rules, &shown)
        .map_err(|why| format!("oidc: error evaluating user info validation rule: {why}"))?;
    Ok(user)
}

fn name(
    mapping: &Mapping,
    compiled: &Compiled,
    claims: &Value,
    seen: &Value,
) -> Result<String, String> {
    if let Some(expression) = &compiled.username {
        let failed = |why| format!("oidc: error evaluating username claim expression: {why}");
        return match evaluate(expression, seen).map_err(failed)? {
            Value::String(name) if name.is_empty() => {
                Err("oidc: empty username via CEL expression is not allowed".to_owned())
            }
            Value::String(name) => Ok(name),
            _ => {
                let why = "username claim expression must return a string";
                Err(failed(why.to_owned()))
            }
        };
    }
    let claim = &mapping.claim;
    let name = text(claims, claim);
    let name = name.map_err(|why| format!("oidc: parse username claims {claim:?}: {why}"))?;
    let is_verified = claims.get("email_verified").is_none_or(|one| *one == true);
    if claim == "email" && !is_verified {
        return Err("oidc: email not verified".to_owned());
    }
    // Only this process itself is a user without a name.
    if name.is_empty() {
        return Err("oidc: the token names no user".to_owned());
    }
    Ok(format!("{}{name}", prefix(mapping)))
}

fn groups(
    mapping: &Mapping,
    compiled: &Compiled,
    claims: &Value,
    seen: &Value,
) -> Result<Vec<String>, String> {
    if let Some(expression) = &compiled.groups {
        let groups = evaluate(expression, seen).and_then(|groups| texts(&groups));
        return groups
            .map_err(|why| format!("oidc: error evaluating group claim expression: {why}"));
    }
    let claim = &mapping.claim;
    if claim.is_empty() {
        return Ok(Vec::new());
    }
    let refused = |what: &str| format!("oidc: parse groups claim {claim:?}: {what}");
    let groups = match claims.get(claim) {
        None => {
            // The groups are elsewhere, and nobody fetches them: better no user than half of one.
            let elsewhere = claims
                .get("_claim_names")
                .is_some_and(|names| names.get(claim).is_some());
            return if elsewhere {
                Err(refused("distributed claims are not supported"))
            } else {
                Ok(Vec::new())
            };
        }
        Some(Value::Null) => &[][..],
        Some(Value::Array(all)) => all,
        Some(one) => std::slice::from_ref(one),
    };
    let named = groups.iter().map(|group| {
        let group = group.as_str().ok_or_else(|| refused("not a string"))?;
        Ok(format!("{}{group}", prefix(mapping)))
    });
    named.collect()
}

fn uid(
    mapping: &Mapping,
    compiled: &Compiled,
    claims: &Value,
    seen: &Value,
) -> Result<String, String> {
    if let Some(expression) = &compiled.uid {
        let failed = |why| format!("oidc: error evaluating uid claim expression: {why}");
        return match evaluate(expression, seen).map_err(failed)? {
            Value::String(uid) => Ok(uid),
            _ => Err(failed(
                "uid claim expression must return a string".to_owned(),
            )),
        };
    }
    let claim = &mapping.claim;
    if claim.is_empty() {
        return Ok(String::new());
    }
    let uid = text(claims, claim);
    let uid = uid.map_err(|why| format!("oidc: parse uid claim {claim:?}: {why}"))?;
    Ok(uid.to_owned())
}

fn prefix(mapping: &Mapping) -> &str {
    mapping.prefix.as_deref().unwrap_or_default()
}

/// Checks the claims that have to have certain values.
fn required(jwt: &Jwt, claims: &Value) -> Result<(), String> {
    let rules = jwt.claim_validation_rules.iter();
    for rule in rules.filter(|rule| !rule.claim.is_empty()) {
        let (claim, wanted) = (&rule.claim, &rule.required_value);
        if claims.get(claim).is_none() {
            return Err(format!(
                "oidc: required claim {claim} not present in ID token"
            ));
        }
        let given = text(claims, claim);
        let given = given.map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
        if given != wanted {
            return Err(format!(
                "oidc: required claim {claim} value does not match. Got = {given}, want = {wanted}"
            ));
        }
    }
    Ok(())
}

/// Checks conditions. All are evaluated before one of them decides.
fn rules(rules: &[(Expression, String)], value: &Value) -> Result<(), String> {
    let results = rules.iter().map(|(one, _)| evaluate(one, value));
    let results: Vec<Value> = results.collect::<Result<_, String>>()?;
    for ((expression, message), result) in rules.iter().zip(results) {
        match result {
            Value::Bool(true) => {}
            Value::Bool(false) => {
                let source = expression.source();
                return Err(format!(
                    "validation expression '{source}' failed: {message}"
                ));
            }
            _ => return Err("validation expression must return a boolean".to_owned()),
        }
    }
    Ok(())
}

fn evaluate(expression: &Expression, value: &Value) -> Result<Value, String> {
    expression.evaluate(value).map_err(|why| {
        let source = expression.source();
        format!("expression '{source}' resulted in error: {why}")
    })
}

/// A text or a list of texts; empty ones count as absent.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    let all = match value {
        Value::Null => &[][..],
        Value::Array(all) => all,
        one => std::slice::from_ref(one),
    };
    let texts = all.iter().map(|one| match one {
        Value::String(text) => Ok(text.clone()),
        _ => Err("expression must return a string or a list of strings".to_owned()),
    });
    let texts: Vec<String> = texts.collect::<Result<_, String>>()?;
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// The claims as expressions see them: all numbers are floating-point, as Go reads them.
fn as_seen(claims: &Value) -> Value {
    match claims {
        Value::Number(number) => {
            let float = number.as_f64().and_then(serde_json::Number::from_f64);
            float.map_or(Value::Null, Value::Number)
        }
        Value::Array(all) => all.iter().map(as_seen).collect(),
        Value::Object(all) => {
            let all = all.iter().map(|(key, value)| (key.clone(), as_seen(value)));
            Value::Object(all.collect())
        }
        other => other.clone(),
    }
}

/// The text of a claim.
fn text<'a>(claims: &'a Value, name: &str) -> Result<&'a str, &'static str> {
    let claim = claims.get(name).ok_or("claim not present")?;
    claim.as_str().ok_or("not a string")
}
