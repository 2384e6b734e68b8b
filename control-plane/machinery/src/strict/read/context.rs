//! Where the pass is in the body, and the problems that it found.

use std::cell::RefCell;

use serde_json::Value;

use crate::budget::Budget;
use crate::strict::PROBLEMS_MAX;

/// The current path and the problems found so far.
#[derive(Default)]
pub(in crate::strict) struct Context {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The path in problems, such as `spec.containers[0]`.
    path: String,
    /// The field names alone, as in Go's type errors, such as `spec.containers`.
    fields: Vec<String>,
    /// The Go types that these fields belong to.
    owners: Vec<&'static str>,
    problems: Vec<String>,
    failure: Option<String>,
    budget: Budget,
}

impl Context {
    /// Returns the problems, and the first type error.
    pub(in crate::strict) fn finish(self) -> (Vec<String>, Option<String>) {
        let inner = self.inner.into_inner();
        (inner.problems, inner.failure)
    }

    pub(super) fn problem(&self, what: &str, key: &str) {
        let mut inner = self.inner.borrow_mut();
        if inner.problems.len() < PROBLEMS_MAX {
            let path = join(&inner.path, key);
            let text = format!("{what} field {}", Value::from(path));
            // A field that is written three times is reported once.
            if !inner.problems.contains(&text) {
                inner.problems.push(text);
            }
        }
    }

    /// Charges the budget for the value that is about to be allocated.
    pub(super) fn spend<E: serde::de::Error>(
        &self,
        spend: fn(&mut Budget) -> bool,
    ) -> Result<(), E> {
        let there_is = spend(&mut self.inner.borrow_mut().budget);
        if there_is {
            Ok(())
        } else {
            Err(self.fail("the object has too many parts".into()))
        }
    }

    pub(super) fn fail<E: serde::de::Error>(&self, text: String) -> E {
        self.inner.borrow_mut().failure.get_or_insert(text);
        E::custom("wrong type")
    }

    pub(super) fn wrong_type<E: serde::de::Error>(&self, found: &str, expected: &str) -> E {
        let place = {
            let inner = self.inner.borrow();
            match inner.owners.last() {
                Some(owner) => format!("Go struct field {owner}.{}", inner.fields.join(".")),
                None => "Go value".to_owned(),
            }
        };
        self.fail(format!(
            "json: cannot unmarshal {found} into {place} of type {expected}"
        ))
    }

    /// Runs `read` with the path extended by a key or index.
    pub(super) fn below<R>(
        &self,
        part: &str,
        owner: Option<&'static str>,
        read: impl FnOnce() -> R,
    ) -> R {
        let length = {
            let mut inner = self.inner.borrow_mut();
            let length = inner.path.len();
            inner.path = join(&inner.path, part);
            if let Some(owner) = owner {
                inner.fields.push(part.to_owned());
                inner.owners.push(owner);
            }
            length
        };
        let result = read();
        let mut inner = self.inner.borrow_mut();
        inner.path.truncate(length);
        if owner.is_some() {
            inner.fields.pop();
            inner.owners.pop();
        }
        result
    }
}

fn join(path: &str, part: &str) -> String {
    if path.is_empty() || part.starts_with('[') {
        format!("{path}{part}")
    } else {
        format!("{path}.{part}")
    }
}
