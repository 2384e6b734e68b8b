//! Label and field selectors: read, written, matched.

use serde_json::{Map, Value};

/// Why a selector could not be read, in the words of the Go parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What a requirement asks of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Present with one of the values.
    In,
    /// Absent, or present with none of the values.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present with a larger integer.
    GreaterThan,
    /// Present with a smaller integer.
    LessThan,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// What is asked.
    pub operator: Operator,
    /// Of which values; sorted.
    pub values: Vec<String>,
}

/// A label selector: all of its requirements; none means everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// The conditions, sorted by key.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Reads the form of the query, such as `a=b,c in (d,e),!f`.
    pub fn parse(_text: &str) -> Result<LabelSelector, Error> {
        unimplemented!()
    }

    /// Reads a LabelSelector object (`matchLabels`, `matchExpressions`). `None` is no selector
    /// at all, which selects nothing.
    pub fn from_object(_selector: &Value) -> Result<LabelSelector, Error> {
        unimplemented!()
    }

    /// Reads a plain map of labels, as services and replication controllers have.
    pub fn from_map(_labels: &Map<String, Value>) -> LabelSelector {
        unimplemented!()
    }

    /// Whether labels satisfy it.
    pub fn matches(&self, _labels: Option<&Map<String, Value>>) -> bool {
        unimplemented!()
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl std::fmt::Display for LabelSelector {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        unimplemented!()
    }
}

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field, such as `metadata.name`.
    pub field: String,
    /// Whether the value must differ.
    pub negated: bool,
    /// The value.
    pub value: String,
}

/// A field selector: all of its requirements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    /// The conditions.
    pub requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads the form of the query, such as `spec.nodeName=a,status.phase!=Failed`.
    pub fn parse(_text: &str) -> Result<FieldSelector, Error> {
        unimplemented!()
    }

    /// Whether an object satisfies it; `value` gives the text of a field.
    pub fn matches<'a>(&self, _value: impl Fn(&str) -> std::borrow::Cow<'a, str>) -> bool {
        unimplemented!()
    }

    /// The value the selector demands of this field, if it does.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let mut all = self.requirements.iter();
        all.find(|one| one.field == field && !one.negated)
            .map(|one| one.value.as_str())
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}
