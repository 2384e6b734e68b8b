//! The paths of printer columns: Kubernetes' JSONPath, as far as one path leads to values.

mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde_json::Value;

/// Upper bound of the values that the paths of one row may look at. Steps that branch multiply
/// them, unions and filters look at the same ones again and again, and there may be many columns.
pub(crate) const LOOKS_MAX: usize = 1_000_000;

/// A path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Step>);

/// One step of a path, from some values to others.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `.key` or `['key']`.
    Field(String),
    /// `.*`: all values in lists and maps.
    Wildcard,
    /// `..`: each list and map, and those in it.
    Descend,
    /// `[0]`, `[-1:]` or `[*]`.
    Slice(Slice),
    /// `[0,2]`: what each of the paths leads to.
    Union(Vec<Vec<Step>>),
    /// `[?(@.key=="value")]`.
    Filter(Filter),
    /// A quoted text, in place of all values.
    Text(Value),
    /// A number, `true` or `false`, in place of each value.
    Scalar(Value),
    /// A word that means nothing in a path. As in Kubernetes, the path can be read, but leads
    /// nowhere.
    Word,
}

/// The items of a list from one place to another. Negative places count from the end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slice {
    from: i64,
    to: To,
    step: i64,
}

/// Where a slice ends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum To {
    /// After its first item.
    First,
    /// Before this place.
    Before(i64),
    /// With the list.
    End,
}

/// The items of a list for which a condition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Filter {
    left: Vec<Step>,
    /// The operator and what is compared; without it there has to be a value on the left.
    compared: Option<(String, Vec<Step>)>,
}

impl JsonPath {
    /// Reads a path; the error says what cannot be read.
    pub(crate) fn parse(text: &str) -> Result<JsonPath, String> {
        parse::path(text).map(JsonPath)
    }

    /// The first value that the path leads to. None if a step does not fit the values before it, or
    /// more would have to be looked at than is left of [`LOOKS_MAX`].
    pub(crate) fn first<'a>(&'a self, object: &'a Value, looks: &mut usize) -> Option<&'a Value> {
        let found = walk(&self.0, vec![object], looks)?;
        // A filter that could not look any further has left out the rest.
        found.first().copied().filter(|_| *looks > 0)
    }
}

/// What steps lead to. None if one does not fit, or nothing more may be looked at.
fn walk<'a>(steps: &'a [Step], from: Vec<&'a Value>, looks: &mut usize) -> Option<Vec<&'a Value>> {
    steps.iter().try_fold(from, |values, step| {
        look(values.len() + 1, looks)?;
        step.of(values, looks)
    })
}

/// Counts values that are looked at. None if there are too many.
fn look(count: usize, looks: &mut usize) -> Option<()> {
    *looks = looks.saturating_sub(count);
    (*looks > 0).then_some(())
}

impl Step {
    fn of<'a>(&'a self, values: Vec<&'a Value>, looks: &mut usize) -> Option<Vec<&'a Value>> {
        let mut found: Vec<&'a Value> = Vec::new();
        match self {
            Step::Field(key) => {
                found.extend(values.into_iter().filter_map(|value| value.get(key)));
            }
            Step::Wildcard => {
                for value in values {
                    let inner = inner(value);
                    look(inner.len(), looks)?;
                    found.extend(inner);
                }
            }
            Step::Descend => {
                for value in values {
                    descend(value, &mut found, looks)?;
                }
            }
            Step::Slice(slice) => {
                for value in values.into_iter().filter(|value| !value.is_null()) {
                    let items = slice.of(value.as_array()?)?;
                    // As in Kubernetes, an empty list also hides what comes after it.
                    if items.is_empty() {
                        break;
                    }
                    look(items.len(), looks)?;
                    found.extend(items);
                }
            }
            Step::Union(paths) => {
                for path in paths {
                    found.extend(walk(path, values.clone(), looks)?);
                }
            }
            Step::Filter(filter) => {
                for value in values {
                    for item in value.as_array()? {
                        look(1, looks)?;
                        if filter.passes(item, looks)? {
                            found.push(item);
                        }
                    }
                }
            }
            Step::Text(text) => found.push(text),
            Step::Scalar(scalar) => found.extend(values.iter().map(|_| scalar)),
            Step::Word => return None,
        }
        Some(found)
    }
}

impl Slice {
    /// The items. None if the list does not have these places.
    fn of<'a>(&self, list: &'a [Value]) -> Option<Vec<&'a Value>> {
        let length = i64::try_from(list.len()).ok()?;
        let counted = |place: i64| if place < 0 { place + length } else { place };
        let from = counted(self.from);
        let to = match self.to {
            To::First => from.saturating_add(1),
            To::Before(place) => counted(place),
            To::End => length,
        };
        if from == to {
            return Some(Vec::new());
        }
        let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
        let step = usize::try_from(self.step).ok().filter(|step| *step > 0)?;
        Some(list.get(from..to)?.iter().step_by(step).collect())
    }
}

impl Filter {
    /// None if the values cannot be compared.
    fn passes<'a>(&'a self, item: &'a Value, looks: &mut usize) -> Option<bool> {
        let left = walk(&self.left, vec![item], looks);
        let Some((operator, right)) = &self.compared else {
            return Some(left.is_some_and(|values| !values.is_empty()));
        };
        match (&left?[..], &walk(right, vec![item], looks)?[..]) {
            ([], _) | (_, []) => Some(false),
            ([left], [right]) => holds(operator, left, right),
            _ => None,
        }
    }
}

/// The values in a list or a map.
fn inner(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

/// Adds a list or a map, and those in it, unless they are empty. None if there are too many.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>, looks: &mut usize) -> Option<()> {
    let inner = inner(value);
    if inner.is_empty() {
        return Some(());
    }
    look(inner.len(), looks)?;
    found.push(value);
    for one in inner {
        descend(one, found, looks)?;
    }
    Some(())
}

/// Compares two values. None if they are of different types, or the operator is none of theirs.
fn holds(operator: &str, left: &Value, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) if ["==", "!="].contains(&operator) => {
            left.cmp(right)
        }
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(_), Value::Number(_)) => order(left, right)?,
        _ => return None,
    };
    match operator {
        "==" => Some(order.is_eq()),
        "!=" => Some(order.is_ne()),
        "<" => Some(order.is_lt()),
        "<=" => Some(order.is_le()),
        ">" => Some(order.is_gt()),
        ">=" => Some(order.is_ge()),
        _ => None,
    }
}

/// The order of two numbers. As in Kubernetes, an integer and a float cannot be compared.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    if left.is_f64() && right.is_f64() {
        return left.as_f64()?.partial_cmp(&right.as_f64()?);
    }
    let integer = |value: &Value| {
        let signed = value.as_i64().map(i128::from);
        signed.or_else(|| value.as_u64().map(i128::from))
    };
    Some(integer(left)?.cmp(&integer(right)?))
}
