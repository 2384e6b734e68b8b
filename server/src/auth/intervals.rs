//! The permissions of a user as a set of key intervals.
//!
//! A red-black tree in which each node has the largest end of its subtree, as in the textbook
//! (Cormen et al., chapters 13 and 14), because etcd uses the same. Clients may send a range that
//! ends before it begins; the result of such a search depends on the shape of the tree. Members
//! with different trees would diverge.

use std::cmp::Ordering;

/// Nodes are indices; `NIL` is no node.
const NIL: usize = usize::MAX;

/// Keys from `begin` (included) to `end` (excluded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    begin: Vec<u8>,
    end: Vec<u8>,
}

impl Interval {
    /// From a permission's or request's range: an empty end means the single key, an end of one
    /// zero byte means no upper bound.
    pub(super) fn of(key: &[u8], range_end: &[u8]) -> Interval {
        let end = match range_end {
            [] => [key, &[0]].concat(),
            // The empty end sorts after all others.
            [0] => Vec::new(),
            end => end.to_vec(),
        };
        let begin = key.to_vec();
        Interval { begin, end }
    }

    /// Whether this interval is left of, right of, or overlapping the other.
    fn side_of(&self, begin: &[u8], end: &[u8]) -> Ordering {
        if order(&self.begin, begin).is_lt() && order(&self.end, begin).is_le() {
            return Ordering::Less;
        }
        match order(&self.begin, end) {
            Ordering::Less => Ordering::Equal,
            _ => Ordering::Greater,
        }
    }
}

/// The empty key sorts last: as an end it means no bound.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.cmp(b),
    }
}

#[derive(Clone, Debug)]
struct Node {
    interval: Interval,
    /// The largest end in this subtree.
    max: Vec<u8>,
    left: usize,
    right: usize,
    parent: usize,
    is_red: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Intervals {
    nodes: Vec<Node>,
    root: usize,
}

impl Default for Intervals {
    fn default() -> Intervals {
        Intervals {
            nodes: Vec::new(),
            root: NIL,
        }
    }
}

impl Intervals {
    pub(super) fn insert(&mut self, interval: Interval) {
        let (mut parent, mut at, mut goes_left) = (NIL, self.root, false);
        while at != NIL {
            parent = at;
            let other = &self.nodes[at].interval;
            let by_begin = order(&interval.begin, &other.begin);
            goes_left = by_begin
                .then_with(|| order(&interval.end, &other.end))
                .is_lt();
            at = self.child(at, goes_left);
        }
        let new = self.nodes.len();
        self.nodes.push(Node {
            max: interval.end.clone(),
            interval,
            left: NIL,
            right: NIL,
            parent,
            is_red: true,
        });
        match parent {
            NIL => self.root = new,
            parent => *self.child_mut(parent, goes_left) = new,
        }
        let mut above = parent;
        while above != NIL {
            self.note_max(above);
            above = self.nodes[above].parent;
        }
        self.balance(new);
    }

    /// The largest end of the intervals that have this key, so that one of them has every key from
    /// this one up to the end. The empty end is no bound; `None`: no interval has the key.
    pub(super) fn end_from(&self, key: &[u8]) -> Option<&[u8]> {
        let mut largest: Option<&[u8]> = None;
        let mut at = self.root;
        while at != NIL {
            let node = &self.nodes[at];
            if order(&node.interval.begin, key).is_gt() {
                at = node.left;
                continue;
            }
            // All to the left begin no later than this one, so one that ends behind the key has it.
            let left = (node.left != NIL).then(|| &self.nodes[node.left].max[..]);
            for end in left.into_iter().chain([&node.interval.end[..]]) {
                if order(end, largest.unwrap_or(key)).is_gt() {
                    largest = Some(end);
                }
            }
            at = node.right;
        }
        largest
    }

    /// True if the intervals together cover this one.
    pub(super) fn contains(&self, interval: &Interval) -> bool {
        let mut covered: Option<(&[u8], &[u8])> = None;
        let mut has_gap = false;
        self.visit(self.root, interval, &mut |found| {
            let Some((_, end)) = &mut covered else {
                covered = Some((&found.begin, &found.end));
                return true;
            };
            if order(end, &found.begin).is_lt() {
                has_gap = true;
                return false;
            }
            if order(&found.end, end).is_gt() {
                *end = &found.end;
            }
            true
        });
        let Some((begin, end)) = covered else {
            return false;
        };
        !has_gap && order(end, &interval.end).is_ge() && order(begin, &interval.begin).is_le()
    }

    /// Calls `f` for each overlapping interval, in the order of their begins, until `f` returns
    /// false.
    fn visit<'a>(
        &'a self,
        at: usize,
        interval: &Interval,
        f: &mut impl FnMut(&'a Interval) -> bool,
    ) -> bool {
        if at == NIL {
            return true;
        }
        let node = &self.nodes[at];
        let own = &node.interval;
        match interval.side_of(&own.begin, &own.end) {
            Ordering::Less => self.visit(node.left, interval, f),
            Ordering::Greater => {
                let subtree = Interval {
                    begin: own.begin.clone(),
                    end: node.max.clone(),
                };
                // Compare from the subtree's side, as etcd does. For a range that ends before it
                // begins the two sides give different results.
                if subtree.side_of(&interval.begin, &interval.end).is_ne() {
                    return true;
                }
                self.visit(node.left, interval, f) && self.visit(node.right, interval, f)
            }
            Ordering::Equal => {
                self.visit(node.left, interval, f) && f(own) && self.visit(node.right, interval, f)
            }
        }
    }

    fn child(&self, at: usize, left: bool) -> usize {
        if left {
            self.nodes[at].left
        } else {
            self.nodes[at].right
        }
    }

    fn child_mut(&mut self, at: usize, left: bool) -> &mut usize {
        if left {
            &mut self.nodes[at].left
        } else {
            &mut self.nodes[at].right
        }
    }

    fn is_red(&self, at: usize) -> bool {
        at != NIL && self.nodes[at].is_red
    }

    fn note_max(&mut self, at: usize) {
        let node = &self.nodes[at];
        let children = [node.left, node.right].into_iter();
        let ends = children
            .filter(|child| *child != NIL)
            .map(|child| &self.nodes[child].max);
        let own = &node.interval.end;
        let max = ends.fold(own, |a, b| if order(b, a).is_gt() { b } else { a });
        self.nodes[at].max = max.clone();
    }

    /// Restores the invariants: no red node has a red parent, and every path has the same number of
    /// black nodes.
    fn balance(&mut self, mut at: usize) {
        loop {
            let parent = self.nodes[at].parent;
            if !self.is_red(parent) {
                break;
            }
            // The parent is red, so it is not the root.
            let above = self.nodes[parent].parent;
            let on_left = parent == self.nodes[above].left;
            let uncle = self.child(above, !on_left);
            if self.is_red(uncle) {
                self.nodes[uncle].is_red = false;
                self.nodes[parent].is_red = false;
                self.nodes[above].is_red = true;
                at = above;
                continue;
            }
            if at == self.child(parent, !on_left) {
                at = parent;
                self.rotate(at, on_left);
            }
            let parent = self.nodes[at].parent;
            let above = self.nodes[parent].parent;
            self.nodes[parent].is_red = false;
            self.nodes[above].is_red = true;
            self.rotate(above, !on_left);
        }
        let root = self.root;
        self.nodes[root].is_red = false;
    }

    /// Rotates: `down` moves down to the given side, and its child of the other side moves up.
    fn rotate(&mut self, down: usize, to_left: bool) {
        let up = self.child(down, !to_left);
        let inner = self.child(up, to_left);
        *self.child_mut(down, !to_left) = inner;
        if inner != NIL {
            self.nodes[inner].parent = down;
        }
        let parent = self.nodes[down].parent;
        self.nodes[up].parent = parent;
        match parent {
            NIL => self.root = up,
            parent => {
                let was_left = self.nodes[parent].left == down;
                *self.child_mut(parent, was_left) = up;
            }
        }
        *self.child_mut(up, to_left) = down;
        self.nodes[down].parent = up;
        self.note_max(down);
        self.note_max(up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys in this test are short, so that each of them can be tried.
    fn covers_by_key(intervals: &[(Vec<u8>, Vec<u8>)], key: &[u8]) -> bool {
        intervals.iter().any(|(begin, end)| match &end[..] {
            [] => key == begin,
            [0] => key >= &begin[..],
            end => key >= &begin[..] && key < end,
        })
    }

    fn short_key(
        u: &mut arbtest::arbitrary::Unstructured<'_>,
    ) -> arbtest::arbitrary::Result<Vec<u8>> {
        let len = u.int_in_range(1..=2)?;
        (0..len)
            .map(|_| Ok(b'a' + u.int_in_range(0..=5)?))
            .collect()
    }

    /// Only such as may be granted, if they are to be valid.
    fn some_ranges(
        u: &mut arbtest::arbitrary::Unstructured<'_>,
        are_valid: bool,
    ) -> arbtest::arbitrary::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut ranges = Vec::new();
        for _ in 0..u.int_in_range(0..=20)? {
            let begin = short_key(u)?;
            let end = match u.int_in_range(0..=5)? {
                0 => Vec::new(),
                1 => vec![0],
                _ => short_key(u)?,
            };
            let is_valid = end.is_empty() || end == [0] || begin < end;
            if is_valid || !are_valid {
                ranges.push((begin, end));
            }
        }
        Ok(ranges)
    }

    /// Also where rows of an old store have ranges that end before they begin: they have no key.
    #[test]
    fn a_key_is_had_up_to_the_largest_end_of_the_intervals_that_have_it() {
        arbtest::arbtest(|u| {
            let mut ranges = some_ranges(u, false)?;
            if u.int_in_range(0..=4)? == 0 {
                ranges.push((Vec::new(), vec![0]));
            }
            let mut tree = Intervals::default();
            for (begin, end) in &ranges {
                tree.insert(Interval::of(begin, end));
            }
            let mut keys = vec![short_key(u)?, Vec::new(), vec![0], b"zz".to_vec()];
            for (begin, end) in &ranges {
                for key in [begin, end] {
                    keys.push(key.clone());
                    keys.push([&key[..], &[0]].concat());
                }
            }
            for key in keys {
                let mut having = ranges.clone();
                // The empty key is in no range, and a range from it has no key.
                having.retain(|range| {
                    let range = std::slice::from_ref(range);
                    !key.is_empty() && !range[0].0.is_empty() && covers_by_key(range, &key)
                });
                let ends = having.iter().map(|(begin, end)| match &end[..] {
                    [] => [&begin[..], &[0]].concat(),
                    [0] => Vec::new(),
                    end => end.to_vec(),
                });
                let largest = ends.max_by(|a, b| order(a, b));
                assert_eq!(
                    tree.end_from(&key),
                    largest.as_deref(),
                    "{ranges:?} {key:?}"
                );
            }
            Ok(())
        });
    }

    #[test]
    fn a_range_is_contained_when_each_of_its_keys_is() {
        arbtest::arbtest(|u| {
            let all = some_ranges(u, true)?;
            let mut tree = Intervals::default();
            for (begin, end) in &all {
                tree.insert(Interval::of(begin, end));
            }
            let (begin, end) = (short_key(u)?, short_key(u)?);
            if begin < end {
                // The result can change only at an interval's border; there is a key exactly at
                // each border and one directly after it.
                let mut keys: Vec<Vec<u8>> = vec![begin.clone(), [&begin[..], &[0]].concat()];
                for (from, to) in &all {
                    for key in [from, to] {
                        keys.push(key.clone());
                        keys.push([&key[..], &[0]].concat());
                    }
                }
                let inside = keys.iter().filter(|key| **key >= begin && **key < end);
                let expected = inside.into_iter().all(|key| covers_by_key(&all, key));
                assert_eq!(
                    tree.contains(&Interval::of(&begin, &end)),
                    expected,
                    "{all:?} {begin:?} {end:?}"
                );
            }
            Ok(())
        });
    }

    #[test]
    fn neighbours_are_one_range_and_a_gap_is_none() {
        let mut tree = Intervals::default();
        tree.insert(Interval::of(b"q1", b"q3"));
        tree.insert(Interval::of(b"q3", b"q5"));
        assert!(tree.contains(&Interval::of(b"q1", b"q5")));
        tree.insert(Interval::of(b"q6", b"\0"));
        assert!(!tree.contains(&Interval::of(b"q1", b"q7")));
        assert!(tree.contains(&Interval::of(b"z", b"\0")));
        assert!(!tree.contains(&Interval::of(b"q5", b"\0")));
    }

    /// The results of etcd's own tree, for two shapes.
    #[test]
    fn a_range_that_ends_before_it_begins_depends_on_the_shape() {
        let mut tree = Intervals::default();
        tree.insert(Interval::of(b"d", b"f"));
        let backwards = Interval::of(b"e", b"a");
        assert!(tree.contains(&backwards));
        let mut tree = Intervals::default();
        tree.insert(Interval::of(b"a", b"c"));
        tree.insert(Interval::of(b"d", b"f"));
        assert!(!tree.contains(&backwards));
    }
}
