//! The path of a field, as a list on the stack: it becomes text only when there is an error.

use std::fmt;

/// A field within its parents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// A path as text; may be empty.
    Start(&'a str),
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) fn root() -> Path<'a> {
        Path::at("")
    }

    pub(super) fn at(start: &'a str) -> Path<'a> {
        Path {
            parent: None,
            step: Step::Start(start),
        }
    }

    /// `parent.name`
    pub(super) fn field(&'a self, name: &'a str) -> Path<'a> {
        self.then(Step::Field(name))
    }

    /// `parent[key]`
    pub(super) fn key(&'a self, key: &'a str) -> Path<'a> {
        self.then(Step::Key(key))
    }

    /// `parent[index]`
    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        self.then(Step::Index(index))
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Start(_))
    }

    fn then(&'a self, step: Step<'a>) -> Path<'a> {
        Path {
            parent: Some(self),
            step,
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self.step, Step::Start(""))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Start(text) => f.write_str(text),
            Step::Field(name) if self.parent.is_none_or(Path::is_empty) => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
