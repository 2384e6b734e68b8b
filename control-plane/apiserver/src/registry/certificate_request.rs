//! Requests for certificates: what is inside of one (PKCS #10), and which part of the object each
//! of its subresources may write.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use rustls::crypto::CryptoProvider;
use serde_json::{Value, json};
use x509_parser::asn1_rs::{Any, BitString, FromDer as _};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;

use crate::auth::tls;
use crate::clock;

const LABEL: &str = "CERTIFICATE REQUEST";
/// The conditions that only an approver sets.
pub(crate) const APPROVALS: [&str; 2] = ["Approved", "Denied"];

/// A request that was read. Nobody has looked whether its signature is good.
#[derive(Debug)]
pub(crate) struct Request {
    der: Vec<u8>,
    /// The groups that its bearer would be in.
    pub(crate) organizations: Vec<String>,
}

impl Request {
    /// Reads the request of an object: PEM in base64.
    pub(crate) fn of(object: &Value) -> Result<Request, String> {
        const WRONG_TYPE: &str = "PEM block type must be CERTIFICATE REQUEST";
        let text = object::text(object, &["spec", "request"]);
        let text = STANDARD.decode(text).map_err(|error| error.to_string())?;
        let first = Pem::iter_from_buffer(&text).next();
        let pem = match first {
            Some(Ok(pem)) if pem.label == LABEL => pem,
            _ => return Err(WRONG_TYPE.into()),
        };
        let (rest, request) =
            X509CertificationRequest::from_der(&pem.contents).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("asn1: syntax error: trailing data".into());
        }
        // A group that cannot be read is not passed over: it might be the one that matters.
        let subject = &request.certification_request_info.subject;
        let groups = subject.iter_organization();
        let groups: Result<Vec<_>, _> = groups
            .map(|group| group.as_str().map(str::to_owned))
            .collect();
        Ok(Request {
            organizations: groups.map_err(|error| error.to_string())?,
            der: pem.contents,
        })
    }

    /// Whether whoever wrote the request holds the key that it is about.
    pub(crate) fn check_signature(&self) -> Result<(), String> {
        let provider = tls::provider();
        match self.is_signed(&provider) {
            Some(true) => Ok(()),
            Some(false) => Err("x509: the signature does not fit the public key".into()),
            None => {
                let why = "x509: cannot verify signature: algorithm unimplemented";
                Err(why.into())
            }
        }
    }

    /// `None` when no algorithm fits.
    fn is_signed(&self, provider: &CryptoProvider) -> Option<bool> {
        let (_, whole) = Any::from_der(&self.der).ok()?;
        let (rest, info) = Any::from_der(whole.data).ok()?;
        let message = &whole.data[..whole.data.len() - rest.len()];
        let (rest, algorithm) = Any::from_der(rest).ok()?;
        let (_, signature) = BitString::from_der(rest).ok()?;
        // Version, subject, and then the key.
        let (rest, _) = Any::from_der(info.data).ok()?;
        let (rest, _) = Any::from_der(rest).ok()?;
        let (_, key) = Any::from_der(rest).ok()?;
        let (rest, key_algorithm) = Any::from_der(key.data).ok()?;
        let (_, key) = BitString::from_der(rest).ok()?;
        let all = provider.signature_verification_algorithms.all;
        let mut fitting = all
            .iter()
            .filter(|one| {
                *one.public_key_alg_id() == *key_algorithm.data
                    && *one.signature_alg_id() == *algorithm.data
            })
            .peekable();
        fitting.peek()?;
        Some(fitting.any(|one| {
            let (key, signature) = (key.data.as_ref(), signature.data.as_ref());
            one.verify_signature(key, message, signature).is_ok()
        }))
    }
}

/// Through `status` comes the certificate, and conditions other than those of an approver.
pub(crate) fn update_status(old: &Value, new: &mut Value) {
    keep_spec(old, new);
    for approval in APPROVALS {
        let before = of_type(old, approval);
        // One more or less is refused by the rules.
        if before.len() != of_type(new, approval).len() {
            continue;
        }
        let mut before: Vec<Value> = before.into_iter().cloned().rev().collect();
        for condition in conditions_mut(new) {
            if condition["type"] == approval
                && let Some(kept) = before.pop()
            {
                *condition = kept;
            }
        }
    }
    set_times(old, new);
}

/// Through `approval` come conditions alone.
pub(crate) fn update_approval(old: &Value, new: &mut Value) {
    keep_spec(old, new);
    set_times(old, new);
    let conditions = object::items(new, &["status", "conditions"]).to_vec();
    let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
    match conditions.is_empty() {
        true => drop(object::remove(&mut status, &["conditions"])),
        false => object::set(&mut status, &["conditions"], conditions.into()),
    }
    new["status"] = status;
}

/// The conditions of a type.
pub(crate) fn of_type<'a>(object: &'a Value, wanted: &str) -> Vec<&'a Value> {
    let all = object::items(object, &["status", "conditions"]).iter();
    all.filter(|one| one["type"] == wanted).collect()
}

fn conditions_mut(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let all = object.pointer_mut("/status/conditions");
    all.and_then(Value::as_array_mut).into_iter().flatten()
}

fn keep_spec(old: &Value, new: &mut Value) {
    match old.get("spec") {
        Some(spec) => new["spec"] = spec.clone(),
        None => drop(object::remove(new, &["spec"])),
    }
}

/// A condition that says nothing of when it came about did now, or when its like did before.
fn set_times(old: &Value, new: &mut Value) {
    let now = clock::now().to_seconds();
    for condition in conditions_mut(new) {
        let has = |key| !object::text(condition, &[key]).is_empty();
        let (updated, changed) = (has("lastUpdateTime"), has("lastTransitionTime"));
        if !updated {
            condition["lastUpdateTime"] = now.as_str().into();
        }
        if !changed {
            let like = object::items(old, &["status", "conditions"])
                .iter()
                .find(|one| {
                    one["type"] == condition["type"]
                        && one["status"] == condition["status"]
                        && !object::text(one, &["lastTransitionTime"]).is_empty()
                });
            condition["lastTransitionTime"] = match like {
                Some(like) => like["lastTransitionTime"].clone(),
                None => now.as_str().into(),
            };
        }
    }
}
