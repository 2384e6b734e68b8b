//! Where the pass is in the body, and the problems that it found.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::ops::Range;

use serde_json::Value;

use super::names::Name;
use crate::basics::budget::{Budget, Room};
use crate::strict::PROBLEMS_MAX;

/// The current path and the problems found so far.
#[derive(Default)]
pub(in crate::strict) struct Context {
    inner: RefCell<Inner>,
    /// True where Go makes an object of a tree of values: a type that reads itself gets its value
    /// alone, and cannot tell where it is.
    restores: bool,
}

/// The first type error.
pub(in crate::strict) enum Failure {
    Told(String),
    /// A number that does not fit. Go tells it as the text has it.
    Number {
        /// The number as far as it was understood.
        read: String,
        /// What the message says after it.
        rest: String,
    },
}

impl Failure {
    /// The message. `written` is the number that the text has at the place of the failure.
    pub(in crate::strict) fn told(self, written: Option<&str>) -> String {
        match self {
            Failure::Told(text) => text,
            Failure::Number { read, rest } => {
                let number = written.unwrap_or(&read);
                format!("json: cannot unmarshal number {number} into {rest}")
            }
        }
    }
}

#[derive(Default)]
struct Inner {
    /// The path in problems, such as `spec.containers[0]`.
    path: String,
    /// Where the path has the field names alone, as in Go's type errors, such as `spec.containers`.
    fields: Vec<Range<usize>>,
    /// The Go types that these fields belong to.
    owners: Vec<&'static str>,
    problems: Vec<String>,
    room: Room,
    failure: Option<Failure>,
    budget: Budget,
}

impl Context {
    /// For a tree of values.
    pub(in crate::strict) fn restoring() -> Context {
        Context {
            restores: true,
            ..Context::default()
        }
    }

    /// Returns the problems, and the first type error.
    pub(in crate::strict) fn finish(self) -> (Vec<String>, Option<Failure>) {
        let inner = self.inner.into_inner();
        (inner.problems, inner.failure)
    }

    pub(super) fn problem(&self, what: &str, key: &str) {
        let mut inner = self.inner.borrow_mut();
        if inner.problems.len() < PROBLEMS_MAX && inner.room.is_left() {
            let length = inner.descend(key);
            let path = inner.path.as_str();
            let text = format!("{what} field {}", Value::from(path));
            inner.path.truncate(length);
            // A field that is written three times is reported once.
            if !inner.problems.contains(&text) {
                inner.room.take(text.len());
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
        self.fail_with(Failure::Told(text))
    }

    fn fail_with<E: serde::de::Error>(&self, failure: Failure) -> E {
        self.inner.borrow_mut().failure.get_or_insert(failure);
        E::custom("wrong type")
    }

    pub(super) fn has_failed(&self) -> bool {
        self.inner.borrow().failure.is_some()
    }

    pub(super) fn wrong_type<E: serde::de::Error>(&self, found: &str, expected: &Name) -> E {
        let place = self.place(expected);
        self.fail(format!("json: cannot unmarshal {found} into {place}"))
    }

    pub(super) fn wrong_number<E: serde::de::Error>(&self, read: String, expected: &Name) -> E {
        let rest = self.place(expected);
        self.fail_with(Failure::Number { read, rest })
    }

    /// Where the pass is, and the type that is expected there.
    fn place(&self, expected: &Name) -> String {
        let inner = self.inner.borrow();
        let (alone, name) = match expected {
            Name::Plain(name) => (false, name.as_str()),
            Name::ReadAs(name) => (self.restores, *name),
        };
        match inner.owners.last() {
            Some(owner) if !alone => {
                let fields = inner.fields.iter().map(|place| &inner.path[place.clone()]);
                let fields = fields.collect::<Vec<_>>().join(".");
                format!("Go struct field {owner}.{fields} of type {name}")
            }
            _ => format!("Go value of type {name}"),
        }
    }

    /// Runs `read` with the path extended by a field of `owner`.
    pub(super) fn field<R>(&self, name: &str, owner: &'static str, read: impl FnOnce() -> R) -> R {
        let length = {
            let mut inner = self.inner.borrow_mut();
            let length = inner.descend(name);
            let end = inner.path.len();
            inner.fields.push(end - name.len()..end);
            inner.owners.push(owner);
            length
        };
        let result = read();
        let mut inner = self.inner.borrow_mut();
        inner.path.truncate(length);
        inner.fields.pop();
        inner.owners.pop();
        result
    }

    /// Runs `read` with the path extended by a key of a map.
    pub(super) fn entry<R>(&self, key: &str, read: impl FnOnce() -> R) -> R {
        let length = self.inner.borrow_mut().descend(key);
        let result = read();
        self.inner.borrow_mut().path.truncate(length);
        result
    }

    /// Runs `read` with the path extended by the index of an item.
    pub(super) fn item<R>(&self, index: usize, read: impl FnOnce() -> R) -> R {
        let length = {
            let mut inner = self.inner.borrow_mut();
            let length = inner.path.len();
            // Writing to a text does not fail.
            let _ = write!(inner.path, "[{index}]");
            length
        };
        let result = read();
        self.inner.borrow_mut().path.truncate(length);
        result
    }
}

impl Inner {
    /// Extends the path by a key; returns its length before.
    fn descend(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 && !key.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }
}
