//! Finds the watchers of a key.
//!
//! Watchers of the same span share a group. Groups of single keys are found by hash. Groups of
//! ranges are found by an interval tree in a sorted array, plus a short unsorted list of new groups
//! that is merged into the array when it has grown.

use std::collections::HashMap;
use std::sync::Arc;

use storage::mvcc::{End, KeyRange};

/// New groups are scanned one by one: at most these, or an eighth of the sorted ones.
const FRESH_MAX: usize = 64;

/// The keys that a watcher asked for, owned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Span {
    Key(Arc<[u8]>),
    /// From the first key (included) to the second (excluded).
    Range(Arc<[u8]>, Arc<[u8]>),
    /// From this key on, without end.
    From(Arc<[u8]>),
}

impl Span {
    /// `None` if the range is empty.
    pub(super) fn from_wire(key: &[u8], range_end: &[u8]) -> Option<Span> {
        // etcd treats an empty key as the smallest one.
        let key = if key.is_empty() { b"\0" } else { key };
        let range = KeyRange::from_wire(key, range_end);
        match range.end {
            End::Single => Some(Span::Key(key.into())),
            End::Unbounded => Some(Span::From(key.into())),
            End::Before(end) if key < end => Some(Span::Range(key.into(), end.into())),
            End::Before(_) => None,
        }
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.start() <= key && self.ends_after(key)
    }

    fn start(&self) -> &[u8] {
        match self {
            Span::Key(key) | Span::Range(key, _) | Span::From(key) => key,
        }
    }

    /// True if the span's end is after `key`.
    fn ends_after(&self, key: &[u8]) -> bool {
        match self {
            Span::Key(start) => **start >= *key,
            Span::Range(_, end) => **end > *key,
            Span::From(_) => true,
        }
    }

    /// True if this range extends at least as far as the other.
    fn reaches(&self, other: &Span) -> bool {
        match (self, other) {
            (Span::From(_), _) => true,
            (_, Span::From(_)) => false,
            (Span::Range(_, a), Span::Range(_, b)) => a >= b,
            _ => unreachable!("only ranges are compared"),
        }
    }
}

/// Members are numbers chosen by the owner, each used once; they should be dense.
#[derive(Debug, Default)]
pub(super) struct Index {
    groups: Vec<Group>,
    by_key: HashMap<Arc<[u8]>, u32>,
    by_range: HashMap<Span, u32>,
    /// Unused group numbers.
    free: Vec<u32>,
    /// Position of each member: its group, and its index in the group.
    places: Vec<Option<(u32, u32)>>,
    /// Groups of ranges, sorted by start.
    sorted: Vec<u32>,
    /// For the middle of each stretch of `sorted` that a binary search can reach: the group of that
    /// stretch whose range extends furthest.
    furthest: Vec<u32>,
    /// Groups of ranges that are not in `sorted` yet.
    fresh: Vec<u32>,
    /// Number of groups in `sorted` without members. They stay until the next merge.
    hollow: usize,
}

#[derive(Debug)]
struct Group {
    span: Span,
    members: Vec<u32>,
    is_sorted: bool,
}

impl Index {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }

    pub(super) fn insert(&mut self, member: u32, span: &Span) {
        let known = match span {
            Span::Key(key) => self.by_key.get(key),
            Span::Range(..) | Span::From(_) => self.by_range.get(span),
        };
        let number = known.copied().unwrap_or_else(|| self.add_group(span));
        let group = &mut self.groups[number as usize];
        if group.is_sorted && group.members.is_empty() {
            self.hollow -= 1;
        }
        let place = (number, group.members.len() as u32);
        group.members.push(member);
        if self.places.len() <= member as usize {
            self.places.resize(member as usize + 1, None);
        }
        let before = self.places[member as usize].replace(place);
        assert!(before.is_none(), "member {member} is in the index already");
    }

    pub(super) fn remove(&mut self, member: u32) {
        let place = self.places[member as usize].take();
        let (number, position) = place.expect("the member is in the index");
        let group = &mut self.groups[number as usize];
        group.members.swap_remove(position as usize);
        if let Some(moved) = group.members.get(position as usize) {
            self.places[*moved as usize] = Some((number, position));
        }
        if !group.members.is_empty() {
            return;
        }
        if group.is_sorted {
            self.hollow += 1;
            if self.hollow > FRESH_MAX.max(self.sorted.len() / 2) {
                self.merge();
            }
        } else {
            self.fresh.retain(|fresh| *fresh != number);
            self.drop_group(number);
        }
    }

    /// Calls `f` for every member whose span contains `key`.
    pub(super) fn find(&self, key: &[u8], mut f: impl FnMut(u32)) {
        let mut each = |number: u32| {
            for member in &self.groups[number as usize].members {
                f(*member);
            }
        };
        if let Some(number) = self.by_key.get(key) {
            each(*number);
        }
        for number in &self.fresh {
            if self.groups[*number as usize].span.contains(key) {
                each(*number);
            }
        }
        self.stab(0, self.sorted.len(), key, &mut each);
    }

    fn stab(&self, from: usize, to: usize, key: &[u8], each: &mut impl FnMut(u32)) {
        if from == to {
            return;
        }
        let middle = from.midpoint(to);
        let furthest = self.furthest[middle];
        if !self.groups[furthest as usize].span.ends_after(key) {
            return;
        }
        self.stab(from, middle, key, each);
        let number = self.sorted[middle];
        let span = &self.groups[number as usize].span;
        if span.start() <= key {
            if span.ends_after(key) {
                each(number);
            }
            self.stab(middle + 1, to, key, each);
        }
    }

    fn add_group(&mut self, span: &Span) -> u32 {
        let group = Group {
            span: span.clone(),
            members: Vec::new(),
            is_sorted: false,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.groups[number as usize] = group;
                number
            }
            None => {
                self.groups.push(group);
                (self.groups.len() - 1) as u32
            }
        };
        if let Span::Key(key) = span {
            self.by_key.insert(key.clone(), number);
            return number;
        }
        self.by_range.insert(span.clone(), number);
        self.fresh.push(number);
        if self.fresh.len() > FRESH_MAX.max(self.sorted.len() / 8) {
            self.merge();
        }
        number
    }

    fn drop_group(&mut self, number: u32) {
        match &self.groups[number as usize].span {
            Span::Key(key) => self.by_key.remove(key),
            range => self.by_range.remove(range),
        };
        self.free.push(number);
    }

    /// Moves new groups into the sorted array and removes empty groups from it. The group just
    /// being added is empty too, but it is in `fresh`, so it is kept.
    fn merge(&mut self) {
        let mut sorted = std::mem::take(&mut self.sorted);
        sorted.retain(|number| {
            let keep = !self.groups[*number as usize].members.is_empty();
            if !keep {
                self.drop_group(*number);
            }
            keep
        });
        let first_fresh = sorted.len();
        sorted.append(&mut self.fresh);
        self.hollow = 0;
        for number in &sorted[first_fresh..] {
            let group = &mut self.groups[*number as usize];
            group.is_sorted = true;
            self.hollow += usize::from(group.members.is_empty());
        }
        sorted.sort_by(|a, b| {
            let start = |number: &u32| self.groups[*number as usize].span.start();
            start(a).cmp(start(b))
        });
        self.furthest = vec![0; sorted.len()];
        self.sorted = sorted;
        self.measure(0, self.sorted.len());
    }

    fn measure(&mut self, from: usize, to: usize) -> Option<u32> {
        if from == to {
            return None;
        }
        let middle = from.midpoint(to);
        let mut furthest = self.sorted[middle];
        for side in [self.measure(from, middle), self.measure(middle + 1, to)] {
            if let Some(other) = side
                && self.groups[other as usize]
                    .span
                    .reaches(&self.groups[furthest as usize].span)
            {
                furthest = other;
            }
        }
        self.furthest[middle] = furthest;
        Some(furthest)
    }
}
