//! What policies that validate have the audit log say.

use serde::Serialize;

use super::super::Attributes;

/// The key for a write that a policy does not accept, if its binding says `Audit`.
pub(super) const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The longest annotation, in bytes. The rest is cut.
const VALUE_BYTES_MAX: usize = 10 * 1024;

/// A validation that failed. The annotation is a list of one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure<'a> {
    pub(super) message: &'a str,
    pub(super) policy: &'a str,
    pub(super) binding: &'a str,
    pub(super) expression_index: usize,
    pub(super) validation_actions: Vec<&'static str>,
}

/// The annotations of all policies of one write, in the order in which they were made.
#[derive(Default)]
pub(super) struct Published(Vec<(String, Vec<String>)>);

impl Published {
    /// Adds a value. Several bindings may give a key several values.
    pub(super) fn add(&mut self, key: String, value: &str) {
        let value = value[..value.floor_char_boundary(VALUE_BYTES_MAX)].to_owned();
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => self.0.push((key, vec![value])),
        }
    }

    /// Annotates the event about the request.
    pub(super) fn annotate(&self, attributes: &Attributes<'_>) {
        for (key, values) in &self.0 {
            attributes.annotate(key, || values.join(", "));
        }
    }
}
