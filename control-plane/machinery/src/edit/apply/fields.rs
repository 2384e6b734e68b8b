//! Field sets: which fields of an object a manager owns.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};
use std::fmt;

use serde_json::Value;

use super::value;
use crate::basics::budget::Room;

/// One step from a value to a part of it.
///
/// The order is the one in which Kubernetes writes the elements of a set.
#[derive(Debug, Clone)]
pub enum Element {
    /// A field of an object.
    Field(String),
    /// The item of a list whose fields have these values; sorted by name.
    Key(Vec<(String, Value)>),
    /// The item of a set that equals this value.
    Value(Value),
    /// The item of a list at this index.
    Index(i64),
}

/// The way from an object to a part of it.
pub type Path = Vec<Element>;

/// A set of fields, as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    pub(super) members: BTreeSet<Element>,
    /// What is below an element. An element is not a member because it has something below.
    pub(super) children: BTreeMap<Element, Set>,
}

/// A path as messages show it, such as `.spec.containers[name="c"].image`.
pub(super) struct Shown<'a>(pub(super) &'a [Element]);

impl Element {
    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.cmp(b),
            (Element::Key(a), Element::Key(b)) => compare_keys(a, b),
            (Element::Value(a), Element::Value(b)) => value::compare(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl From<&str> for Element {
    fn from(name: &str) -> Element {
        Element::Field(name.to_owned())
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(fields) => {
                let shown = fields
                    .iter()
                    .map(|(name, one)| format!("{name}={}", value::shown(one)));
                write!(f, "[{}]", shown.collect::<Vec<_>>().join(","))
            }
            Element::Value(one) => write!(f, "[={}]", value::shown(one)),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl Set {
    /// The set of these paths of field names.
    pub fn of_names(paths: &[&[&str]]) -> Set {
        let mut set = Set::default();
        for path in paths {
            let path: Path = path.iter().copied().map(Element::from).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a path, without those that lead to it. The empty path is ignored: nobody owns a whole
    /// object.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => match self.children.get_mut(first) {
                Some(child) => child.insert(rest),
                None => self.children.entry(first.clone()).or_default().insert(rest),
            },
        }
    }

    /// Adds an element with what is below it. Large sets are built so: for each member,
    /// [`Set::insert`] compares all elements on the way to it once more.
    pub(super) fn put(&mut self, element: &Element, is_member: bool, below: Set) {
        if is_member {
            self.members.insert(element.clone());
        }
        if below.members.is_empty() && below.children.is_empty() {
            return;
        }
        match self.children.entry(element.clone()) {
            Entry::Occupied(mut own) => own.get_mut().add(&below),
            Entry::Vacant(vacant) => {
                vacant.insert(below);
            }
        }
    }

    /// Whether the path itself is a member.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.below(first).is_some_and(|child| child.has(rest)),
        }
    }

    /// What is below an element.
    pub fn below(&self, element: &Element) -> Option<&Set> {
        self.children.get(element)
    }

    /// True if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Set::is_empty)
    }

    /// The members of either set.
    #[must_use]
    pub fn union(mut self, other: &Set) -> Set {
        self.add(other);
        self
    }

    fn add(&mut self, other: &Set) {
        self.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            match self.children.get_mut(element) {
                Some(own) => own.add(child),
                None => drop(self.children.insert(element.clone(), child.clone())),
            }
        }
    }

    /// The members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Set) -> Set {
        let children = self.children.iter().filter_map(|(element, child)| {
            let both = child.intersection(other.below(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Set {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The members that are not in the other set. Being below a member of it does not matter.
    #[must_use]
    pub fn difference(&self, other: &Set) -> Set {
        let children =
            self.children
                .iter()
                .filter_map(|(element, child)| match other.below(element) {
                    None => Some((element.clone(), child.clone())),
                    Some(of_other) => {
                        let rest = child.difference(of_other);
                        (!rest.is_empty()).then(|| (element.clone(), rest))
                    }
                });
        Set {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The members that are neither in the other set nor below one of its members.
    #[must_use]
    pub fn without(&self, other: &Set) -> Set {
        let kept = self
            .children
            .iter()
            .filter(|(element, _)| !other.members.contains(element));
        let children = kept.filter_map(|(element, child)| match other.below(element) {
            None => Some((element.clone(), child.clone())),
            Some(of_other) => {
                let rest = child.without(of_other);
                (!rest.is_empty()).then(|| (element.clone(), rest))
            }
        });
        Set {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The members on the way to one of these patterns or below it. `None` in a pattern fits any
    /// element, a name fits that field.
    #[must_use]
    pub fn matching(&self, patterns: &[&[Option<&str>]]) -> Set {
        if patterns.iter().any(|pattern| pattern.is_empty()) {
            return self.clone();
        }
        let rests = |element: &Element| -> Vec<&[Option<&str>]> {
            let fits = |first: &Option<&str>| match (first, element) {
                (None, _) => true,
                (Some(name), Element::Field(field)) => name == field,
                (Some(_), _) => false,
            };
            let parts = patterns.iter().filter_map(|one| one.split_first());
            parts
                .filter(|(first, _)| fits(first))
                .map(|(_, rest)| rest)
                .collect()
        };
        let members = self.members.iter().filter(|one| !rests(one).is_empty());
        let children = self.children.iter().filter_map(|(element, child)| {
            let inner = child.matching(&rests(element));
            (!inner.is_empty()).then(|| (element.clone(), inner))
        });
        Set {
            members: members.cloned().collect(),
            children: children.collect(),
        }
    }

    /// How many members there are.
    pub(super) fn len(&self) -> usize {
        let below = self.children.values().map(Set::len);
        self.members.len() + below.sum::<usize>()
    }

    /// The paths of the members as messages show them, as many as there is room for; those of one
    /// level come before those below it.
    pub(super) fn shown(&self, room: &mut Room) -> Vec<String> {
        let mut all = Vec::new();
        self.show(&mut String::new(), room, &mut all);
        all
    }

    fn show(&self, at: &mut String, room: &mut Room, into: &mut Vec<String>) {
        let length = at.len();
        for member in &self.members {
            if !room.is_left() {
                return;
            }
            at.push_str(&member.to_string());
            room.take(at.len());
            into.push(at.clone());
            at.truncate(length);
        }
        for (element, child) in &self.children {
            if !room.is_left() {
                return;
            }
            at.push_str(&element.to_string());
            child.show(at, room, into);
            at.truncate(length);
        }
    }
}

fn compare_keys(a: &[(String, Value)], b: &[(String, Value)]) -> Ordering {
    let pairs = a.iter().zip(b);
    let mut orders = pairs.map(|((name, one), (of_b, other))| {
        name.cmp(of_b).then_with(|| value::compare(one, other))
    });
    let first = orders.find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}
