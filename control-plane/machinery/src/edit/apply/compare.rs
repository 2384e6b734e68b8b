//! Compares two values of one type: which fields the second adds, changes and removes.

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value};

use super::check::{Form, Misfits, Trail, as_list, as_map, deduced, element_of, misfit};
use super::fields::{Element, Set};
use super::typing::{Forms, Identity, List, Map, Typing};
use super::value::equal;

/// How the second of two values differs from the first. No field is in two of the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields of the second that the first does not have.
    pub added: Set,
    /// Fields of both with different values.
    pub modified: Set,
    /// Fields of the first that the second does not have.
    pub removed: Set,
}

impl Comparison {
    /// Applies a filter to each of the sets.
    #[must_use]
    pub(super) fn filtered(&self, filter: impl Fn(&Set) -> Set) -> Comparison {
        Comparison {
            added: filter(&self.added),
            modified: filter(&self.modified),
            removed: filter(&self.removed),
        }
    }
}

/// The fields of a map.
type Fields = Object<String, Value>;

/// Compares two values of a type.
pub fn compare(typing: &dyn Typing, old: &Value, new: &Value) -> Result<Comparison, Misfits> {
    let mut walker = Walker::default();
    walker.walk(typing, Some(old), Some(new));
    walker.trail.result(walker.found.below)
}

#[derive(Default)]
struct Walker {
    trail: Trail,
    /// What is found at the end of the trail.
    found: Found,
}

/// How a value and its parts differ.
#[derive(Default)]
struct Found {
    added: bool,
    modified: bool,
    removed: bool,
    below: Comparison,
}

impl Walker {
    fn walk(&mut self, typing: &dyn Typing, old: Option<&Value>, new: Option<&Value>) {
        let of_old = deduced(typing.forms(), old);
        let of_new = deduced(typing.forms(), new);
        let is_leaf = if new.is_none() {
            self.form(typing, of_old, old, new)
        } else if old.is_none() || of_old.kinds() == of_new.kinds() {
            self.form(typing, of_new, old, new)
        } else {
            self.form(typing, of_old, old, new);
            self.form(typing, of_new, old, new)
        };
        if is_leaf {
            return;
        }
        if old.is_none() {
            self.found.added = true;
        } else if new.is_none() {
            self.found.removed = true;
        }
    }

    /// Compares two values in one form. Returns true if they are leaves, which nobody owns a part
    /// of.
    fn form(
        &mut self,
        typing: &dyn Typing,
        forms: Forms<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> bool {
        match forms.deciding() {
            Form::Map(map) => self.maps(typing, map, old, new),
            Form::List(list) => self.lists(&list, old, new),
            Form::Scalar(scalar) => match (misfit(scalar, old), misfit(scalar, new)) {
                (Some(of_old), Some(of_new)) => {
                    self.trail.wrong(format!("lhs: {of_old}"));
                    self.trail.wrong(format!("rhs: {of_new}"));
                    false
                }
                _ => self.leaf(old, new),
            },
            Form::None => {
                self.trail.wrong("schema error: invalid atom: inlined");
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        let into = match (old, new) {
            (None, _) => &mut self.found.added,
            (_, None) => &mut self.found.removed,
            (Some(old), Some(new)) if equal(old, new) => return true,
            _ => &mut self.found.modified,
        };
        *into = true;
        true
    }

    fn maps(
        &mut self,
        typing: &dyn Typing,
        map: Map<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> bool {
        // A value that is no map counts as an empty one: the check of the value reports it.
        let of_old = old.and_then(|one| as_map(one).ok().flatten());
        let of_new = new.and_then(|one| as_map(one).ok().flatten());
        let nulls = match (of_old, of_new) {
            (None, None) => Vec::new(),
            _ => typing.nulls(),
        };
        let is_empty = |fields: Option<&Fields>| {
            fields.is_none_or(|fields| fields.is_empty() && nulls.is_empty())
        };
        if map.atomic || is_empty(of_old) && is_empty(of_new) {
            return self.leaf(old, new);
        }
        let keys = [of_old, of_new]
            .into_iter()
            .flatten()
            .flat_map(Object::keys);
        let mut keys: Vec<&str> = keys.map(String::as_str).collect();
        // A null that both sides read makes no difference.
        if of_old.is_none() || of_new.is_none() {
            keys.extend(&nulls);
        }
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            self.field(typing, map, key, &nulls, (of_old, of_new));
        }
        false
    }

    fn field(
        &mut self,
        typing: &dyn Typing,
        map: Map<'_>,
        key: &str,
        nulls: &[&str],
        (old, new): (Option<&Fields>, Option<&Fields>),
    ) {
        const NULL: &Value = &Value::Null;
        let null = || nulls.contains(&key).then_some(NULL);
        let old = old.and_then(|fields| fields.get(key).or_else(null));
        let new = new.and_then(|fields| fields.get(key).or_else(null));
        // Most of an object stays as it is.
        if old.is_some() && old == new {
            return;
        }
        let member = typing.field(key).map(|member| member.typing);
        self.below(Element::from(key), |walker| match member.or(map.other) {
            Some(typing) => walker.walk(typing, old, new),
            None => walker.trail.wrong("schema error: invalid atom: inlined"),
        });
    }

    fn lists(&mut self, list: &List<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        let of_old = old.and_then(|one| as_list(one).ok()).unwrap_or_default();
        let of_new = new.and_then(|one| as_list(one).ok()).unwrap_or_default();
        if list.identity == Identity::Atomic || of_old.is_empty() && of_new.is_empty() {
            return self.leaf(old, new);
        }
        let mut both: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (index, item) in of_old.iter().enumerate() {
            if let Some(element) = self.element(list, index, item) {
                both.entry(element).or_default().0.push(item);
            }
        }
        for (index, item) in of_new.iter().enumerate() {
            if let Some(element) = self.element(list, index, item) {
                both.entry(element).or_default().1.push(item);
            }
        }
        for (element, (old, new)) in both {
            self.below(element, |walker| walker.items(list, &old, &new));
        }
        false
    }

    fn element(&mut self, list: &List<'_>, index: usize, item: &Value) -> Option<Element> {
        match element_of(list, item) {
            Ok(element) => Some(element),
            Err(why) => {
                self.trail.wrong(format!("element {index}: {why}"));
                None
            }
        }
    }

    /// Compares the items with one identity. Several of them are one value.
    fn items(&mut self, list: &List<'_>, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => {
                self.walk(list.item, old.first().copied(), new.first().copied());
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| equal(a, b));
                if !same {
                    self.found.modified = true;
                }
            }
            ([_, _, ..], _) => {
                if let Some(first) = new.first() {
                    self.walk(list.item, None, Some(first));
                }
                self.found.removed = true;
            }
            (_, _) => {
                if let Some(first) = old.first() {
                    self.walk(list.item, Some(first), None);
                }
                self.found.added = true;
            }
        }
    }

    /// Runs `compare` one step deeper.
    fn below(&mut self, element: Element, compare: impl FnOnce(&mut Walker)) {
        let around = std::mem::take(&mut self.found);
        self.trail.path.push(element);
        compare(self);
        let found = std::mem::replace(&mut self.found, around);
        if let Some(element) = self.trail.path.pop() {
            let (all, below) = (&mut self.found.below, found.below);
            all.added.put(&element, found.added, below.added);
            all.modified.put(&element, found.modified, below.modified);
            all.removed.put(&element, found.removed, below.removed);
        }
    }
}
