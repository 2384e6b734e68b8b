//! Checks a value against its type, and finds the items of lists.

use serde_json::{Map as Object, Value};

use super::fields::{Element, Path, Shown};
use super::typing::{Forms, Identity, List, Map, Scalar, Typing};
use super::value::in_go;
use crate::basics::budget::Room;

pub(super) const UNDECLARED: &str = "field not declared in schema";

/// A part of a value that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Where it is, such as `.spec.replicas`.
    pub path: String,
    /// What is wrong.
    pub why: String,
}

/// All that does not fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Misfits {
    /// Those that are told.
    pub told: Vec<Misfit>,
    /// How many there are besides.
    pub more: usize,
}

impl std::fmt::Display for Misfits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one = |misfit: &Misfit| match misfit.path.as_str() {
            "" => misfit.why.clone(),
            path => format!("{path}: {}", misfit.why),
        };
        match (self.told.as_slice(), self.more) {
            ([only], 0) => f.write_str(&one(only)),
            (told, more) => {
                f.write_str("errors:")?;
                for each in told {
                    write!(f, "\n  {}", one(each))?;
                }
                match more {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
        }
    }
}

impl std::error::Error for Misfits {}

/// Where an operation is in a value, and what it found wrong on its way.
#[derive(Default)]
pub(super) struct Trail {
    pub(super) path: Path,
    misfits: Misfits,
    room: Room,
}

impl Trail {
    pub(super) fn wrong(&mut self, why: impl Into<String>) {
        if !self.room.is_left() {
            self.misfits.more += 1;
            return;
        }
        let misfit = Misfit {
            path: Shown(&self.path).to_string(),
            why: why.into(),
        };
        self.room.take(misfit.path.len() + misfit.why.len());
        self.misfits.told.push(misfit);
    }

    /// How much was found wrong so far.
    pub(super) fn wrongs(&self) -> usize {
        self.misfits.told.len() + self.misfits.more
    }

    /// Runs `visit` one step deeper.
    pub(super) fn below<T>(&mut self, element: Element, visit: impl FnOnce(&mut Trail) -> T) -> T {
        self.path.push(element);
        let result = visit(self);
        self.path.pop();
        result
    }

    pub(super) fn result<T>(self, value: T) -> Result<T, Misfits> {
        if self.wrongs() == 0 {
            Ok(value)
        } else {
            Err(self.misfits)
        }
    }
}

/// The one form that decides about a value.
pub(super) enum Form<'a> {
    Map(Map<'a>),
    Scalar(Scalar),
    List(List<'a>),
    /// The type has no form at all.
    None,
}

/// The forms that a value may have, reduced to the one that it has. A null, a missing value and one
/// that fits no form leave all of them.
pub(super) fn deduced<'a>(forms: Forms<'a>, value: Option<&Value>) -> Forms<'a> {
    match value {
        Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if forms.scalar.is_some() => {
            Forms {
                scalar: forms.scalar,
                ..Forms::default()
            }
        }
        Some(Value::Array(_)) if forms.list.is_some() => Forms {
            list: forms.list,
            ..Forms::default()
        },
        Some(Value::Object(_)) if forms.map.is_some() => Forms {
            map: forms.map,
            ..Forms::default()
        },
        _ => forms,
    }
}

impl<'a> Forms<'a> {
    pub(super) fn deciding(self) -> Form<'a> {
        match (self.map, self.scalar, self.list) {
            (Some(map), _, _) => Form::Map(map),
            (None, Some(scalar), _) => Form::Scalar(scalar),
            (None, None, Some(list)) => Form::List(list),
            (None, None, None) => Form::None,
        }
    }

    /// Which forms there are.
    pub(super) fn kinds(&self) -> (bool, bool, bool) {
        (
            self.map.is_some(),
            self.scalar.is_some(),
            self.list.is_some(),
        )
    }
}

/// Checks a value. Lists may have several items with the same identity if `duplicates` is true.
pub(super) fn check(typing: &dyn Typing, value: &Value, duplicates: bool) -> Result<(), Misfits> {
    let mut trail = Trail::default();
    walk(typing, value, duplicates, &mut trail);
    trail.result(())
}

fn walk(typing: &dyn Typing, value: &Value, duplicates: bool, trail: &mut Trail) {
    match deduced(typing.forms(), Some(value)).deciding() {
        Form::Map(map) => match as_map(value) {
            Ok(None) => {}
            Ok(Some(fields)) => walk_fields(typing, map, fields, duplicates, trail),
            Err(why) => trail.wrong(why),
        },
        Form::List(list) => match as_list(value) {
            Ok(items) => walk_items(&list, items, duplicates, trail),
            Err(why) => trail.wrong(why),
        },
        Form::Scalar(scalar) => {
            if let Some(why) = misfit(scalar, Some(value)) {
                trail.wrong(why);
            }
        }
        Form::None => trail.wrong("schema error: invalid atom: inlined"),
    }
}

/// Like Kubernetes, it looks no further than the first field that is not declared. Which one is first
/// is chance there, and the order of the names here.
fn walk_fields(
    typing: &dyn Typing,
    map: Map<'_>,
    fields: &Object<String, Value>,
    duplicates: bool,
    trail: &mut Trail,
) {
    for (name, value) in fields {
        let member = typing.field(name).map(|member| member.typing);
        let member = member.or(map.other);
        trail.below(Element::from(name.as_str()), |trail| match member {
            Some(typing) => walk(typing, value, duplicates, trail),
            None => trail.wrong(UNDECLARED),
        });
        if member.is_none() {
            return;
        }
    }
}

fn walk_items(list: &List<'_>, items: &[Value], duplicates: bool, trail: &mut Trail) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = match &list.identity {
            Identity::Atomic => Element::Index(i64::try_from(index).unwrap_or(i64::MAX)),
            _ => match element_of(list, item) {
                Ok(element) => element,
                Err(why) => return trail.wrong(format!("element {index}: {why}")),
            },
        };
        if !duplicates && list.identity != Identity::Atomic && !seen.insert(element.clone()) {
            trail.wrong(format!("duplicate entries for key {element}"));
        }
        trail.below(element, |trail| walk(list.item, item, duplicates, trail));
    }
}

/// Why a value is not of this plain type. Null and missing values are of any.
pub(super) fn misfit(scalar: Scalar, value: Option<&Value>) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let (fits, expected) = match scalar {
        Scalar::Number => (value.is_number(), "numeric (int or float)"),
        Scalar::Text => (value.is_string(), "string"),
        Scalar::Boolean => (value.is_boolean(), "boolean"),
        Scalar::Any => (!value.is_array() && !value.is_object(), "any scalar"),
    };
    let found = match (scalar, value) {
        (Scalar::Number, Value::String(_)) => "string".to_owned(),
        (Scalar::Number, Value::Bool(_)) => "bool".to_owned(),
        (Scalar::Number, Value::Array(_)) => "[]interface {}".to_owned(),
        (Scalar::Number, _) => "map[string]interface {}".to_owned(),
        (Scalar::Text, value) => {
            format!("&value.valueUnstructured{{Value:{}}}", typed_in_go(value))
        }
        (_, value) => format!("&{{{}}}", in_go(value)),
    };
    (!fits).then(|| format!("expected {expected}, got {found}"))
}

/// A value with its type, as Go prints it.
fn typed_in_go(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(typed_in_go).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(key, value)| format!("{key:?}:{}", typed_in_go(value)));
            let fields: Vec<String> = fields.collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::String(text) => format!("{text:?}"),
        plain => in_go(plain),
    }
}

/// The fields of a map; `None` for null.
pub(super) fn as_map(value: &Value) -> Result<Option<&Object<String, Value>>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Object(fields) => Ok(Some(fields)),
        other => Err(format!("expected map, got &{{{}}}", in_go(other))),
    }
}

/// The items of a list; none for null.
pub(super) fn as_list(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        other => Err(format!("expected list, got &{{{}}}", in_go(other))),
    }
}

/// What identifies an item of a list.
pub(super) fn element_of(list: &List<'_>, item: &Value) -> Result<Element, String> {
    match &list.identity {
        Identity::Atomic => Err("invalid indexing of non-associative list".into()),
        Identity::Value => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            plain => Ok(Element::Value(plain.clone())),
        },
        Identity::Keys(keys) => keyed(list, keys, item),
    }
}

fn keyed(list: &List<'_>, keys: &[&str], item: &Value) -> Result<Element, String> {
    let fields = match item {
        Value::Null => {
            return Err("associative list with keys may not have a null element".into());
        }
        Value::Object(fields) => fields,
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let mut key = Vec::with_capacity(keys.len());
    for name in keys {
        let value = fields.get(*name).cloned().or_else(|| {
            let member = list.item.field(name)?;
            member.default.filter(|one| !one.is_null()).cloned()
        });
        key.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    if key.is_empty() && !keys.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    key.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Element::Key(key))
}
