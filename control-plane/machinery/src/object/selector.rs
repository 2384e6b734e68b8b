//! Label and field selectors: parsing, printing, matching.

mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::{object, values::name};

/// Why a selector could not be parsed, in the words of Go's parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The operator of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Present with the value, written `=`.
    Equals,
    /// The same, written `==`.
    DoubleEquals,
    /// Absent, or present with another value.
    NotEquals,
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
    /// The condition.
    pub operator: Operator,
    /// The values of the condition, sorted and unique.
    pub values: Vec<String>,
}

impl Requirement {
    /// A requirement whose key and values satisfy the rules for labels.
    pub fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, Error> {
        values.sort();
        values.dedup();
        let wrong = name::qualified_name(key);
        if !wrong.is_empty() {
            return Err(invalid("key", key, &wrong.join("; ")));
        }
        let list = |values: &[String]| match values {
            [] => "null".to_owned(),
            values => serde_json::json!(values).to_string(),
        };
        let about = |what: &str| {
            let values = list(&values);
            Err(Error(format!("values: Invalid value: {values}: {what}")))
        };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return about("for 'in', 'notin' operators, values set can't be empty");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return about("values set must be empty for exists and does not exist");
            }
            Operator::GreaterThan | Operator::LessThan => {
                if let Some(value) = values.iter().find(|value| value.parse::<i64>().is_err()) {
                    let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                    return Err(invalid("values[0]", value, why));
                }
            }
            _ => {}
        }
        for (at, value) in values.iter().enumerate() {
            let wrong = name::label_value(value);
            if !wrong.is_empty() {
                let field = format!("values[{at}][{key}]");
                return Err(invalid(&field, value, &wrong.join("; ")));
            }
        }
        Ok(Requirement {
            key: key.into(),
            operator,
            values,
        })
    }

    /// True if a label with this value satisfies it; `None` stands for a missing label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.iter().any(|one| one == value));
        let numbers = || {
            let ours = self.values.first()?.parse::<i64>().ok()?;
            Some((value?.parse::<i64>().ok()?, ours))
        };
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => listed(),
            Operator::NotEquals | Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => numbers().is_some_and(|(value, ours)| ours < value),
            Operator::LessThan => numbers().is_some_and(|(value, ours)| value < ours),
        }
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A label selector: all requirements must hold; one without requirements matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// The conditions, sorted by key.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Parses the query form, such as `a=b,c in (d,e),!f`.
    pub fn parse(text: &str) -> Result<LabelSelector, Error> {
        parse::labels(text).map(LabelSelector::sorted)
    }

    /// Reads a LabelSelector object (`matchLabels`, `matchExpressions`). An empty one selects
    /// everything; the caller decides what a missing one selects.
    pub fn from_object(selector: &Value) -> Result<LabelSelector, Error> {
        let mut requirements = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
        }
        for expression in object::items(selector, &["matchExpressions"]) {
            let operator = match object::text(expression, &["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let text = format!("{other:?} is not a valid label selector operator");
                    return Err(Error(text));
                }
            };
            let values = object::items(expression, &["values"]).iter();
            let values = values
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let key = object::text(expression, &["key"]);
            requirements.push(Requirement::new(key, operator, values)?);
        }
        Ok(LabelSelector::sorted(requirements))
    }

    /// Makes a selector from a plain map of labels, as in services and replication controllers.
    pub fn from_map(labels: &Map<String, Value>) -> LabelSelector {
        let equal = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        };
        LabelSelector::sorted(labels.iter().map(equal).collect())
    }

    /// True if the labels satisfy it.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.matches_by(|key| labels?.get(key)?.as_str())
    }

    /// Whether labels satisfy it that are looked up by key.
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let mut all = self.requirements.iter();
        all.all(|one| one.matches(label(&one.key)))
    }

    /// True if it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    fn sorted(mut requirements: Vec<Requirement>) -> LabelSelector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements }
    }
}

impl std::fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> = self.requirements.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(","))
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
    /// Parses the query form, such as `spec.nodeName=a,status.phase!=Failed`.
    pub fn parse(text: &str) -> Result<FieldSelector, Error> {
        let requirements = parse::fields(text)?;
        Ok(FieldSelector { requirements })
    }

    /// True if an object satisfies it; `value` returns the text of a field.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Cow<'a, str>) -> bool {
        let mut all = self.requirements.iter();
        all.all(|one| (value(&one.field) == one.value.as_str()) != one.negated)
    }

    /// The value that the selector requires of this field, if any.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let mut all = self.requirements.iter();
        all.find(|one| one.field == field && !one.negated)
            .map(|one| one.value.as_str())
    }

    /// True if it selects only objects with this value of a field.
    pub fn requires(&self, field: &str, value: &str) -> bool {
        let mut all = self.requirements.iter();
        all.any(|one| one.field == field && one.value == value && !one.negated)
    }

    /// True if it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl std::fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, one) in self.requirements.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let sign = if one.negated { "!=" } else { "=" };
            write!(f, "{comma}{}{sign}{}", one.field, parse::escape(&one.value))?;
        }
        Ok(())
    }
}

fn invalid(field: &str, value: &str, why: &str) -> Error {
    let value = Value::from(value);
    Error(format!("{field}: Invalid value: {value}: {why}"))
}
