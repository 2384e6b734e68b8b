//! Sorts a role's permissions by key only, unstably. The order of two ranges with the same key
//! decides what a later grant changes. So the order must equal that of Go's sort: a
//! pattern-defeating quicksort (Orson Peters) with Go's constants and pivots.

use etcd_api::authpb::Permission;

/// Shorter pieces use insertion sort.
const INSERTION_MAX: usize = 12;
/// Pieces of at least this length use a median of medians as pivot.
const NINTHER_MIN: usize = 50;
/// In pieces of at least this length that are nearly sorted, up to this many elements are moved.
const SHIFTING_MIN: usize = 50;
const SHIFTS_MAX: usize = 5;
/// If all comparisons of a median of medians swapped, the piece is in descending order.
const SWAPS_MAX: usize = 12;

pub(super) fn sort(permissions: &mut [Permission]) {
    let (end, mut sorting) = (permissions.len(), Sorting(permissions));
    if end > 1 {
        let limit = usize::BITS - end.leading_zeros();
        sorting.quick(0, end, limit);
    }
}

struct Sorting<'a>(&'a mut [Permission]);

#[derive(PartialEq)]
enum Hint {
    Ascending,
    Descending,
    Unknown,
}

impl Sorting<'_> {
    fn less(&self, a: usize, b: usize) -> bool {
        self.0[a].key < self.0[b].key
    }

    fn quick(&mut self, mut begin: usize, mut end: usize, mut limit: u32) {
        let (mut was_balanced, mut was_partitioned) = (true, true);
        loop {
            let length = end - begin;
            if length <= INSERTION_MAX {
                return self.insert(begin, end);
            }
            if limit == 0 {
                return self.heap(begin, end);
            }
            if !was_balanced {
                self.scatter(begin, end);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.pivot(begin, end);
            if hint == Hint::Descending {
                self.0[begin..end].reverse();
                pivot = (end - 1) - (pivot - begin);
                hint = Hint::Ascending;
            }
            let seems_sorted = was_balanced && was_partitioned && hint == Hint::Ascending;
            if seems_sorted && self.mend(begin, end) {
                return;
            }
            // The pivot equals the element before the piece, so the piece has none smaller: split
            // off the equal ones.
            if begin > 0 && !self.less(begin - 1, pivot) {
                begin = self.split_equal(begin, end, pivot);
                continue;
            }
            let (middle, had_order) = self.split(begin, end, pivot);
            was_partitioned = had_order;
            let (left, right) = (middle - begin, end - middle);
            was_balanced = left.min(right) >= length / 8;
            if left < right {
                self.quick(begin, middle, limit);
                begin = middle + 1;
            } else {
                self.quick(middle + 1, end, limit);
                end = middle;
            }
        }
    }

    fn insert(&mut self, begin: usize, end: usize) {
        for next in begin + 1..end {
            self.sink(next, begin);
        }
    }

    /// Moves an element left while it is less than its predecessor, but not before `first`.
    fn sink(&mut self, mut at: usize, first: usize) {
        while at > first && self.less(at, at - 1) {
            self.0.swap(at, at - 1);
            at -= 1;
        }
    }

    fn heap(&mut self, begin: usize, end: usize) {
        let length = end - begin;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift(root, length, begin);
        }
        for last in (0..length).rev() {
            self.0.swap(begin, begin + last);
            self.sift(0, last, begin);
        }
    }

    fn sift(&mut self, mut root: usize, end: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.0.swap(first + root, first + child);
            root = child;
        }
    }

    /// Swaps three elements, to break patterns that would make the sort slow.
    fn scatter(&mut self, begin: usize, end: usize) {
        let length = end - begin;
        let mut random = length as u64;
        let mask = (1u64 << (usize::BITS - length.leading_zeros())) - 1;
        let middle = begin + length / 4 * 2;
        for at in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let mut other = (random & mask) as usize;
            if other >= length {
                other -= length;
            }
            self.0.swap(at, begin + other);
        }
    }

    fn pivot(&self, begin: usize, end: usize) -> (usize, Hint) {
        let (length, mut swaps) = (end - begin, 0);
        let mut places = [1, 2, 3].map(|quarter| begin + length / 4 * quarter);
        if length >= NINTHER_MIN {
            places = places.map(|at| self.median([at - 1, at, at + 1], &mut swaps));
        }
        let pivot = self.median(places, &mut swaps);
        let hint = match swaps {
            0 => Hint::Ascending,
            SWAPS_MAX => Hint::Descending,
            _ => Hint::Unknown,
        };
        (pivot, hint)
    }

    fn median(&self, mut places: [usize; 3], swaps: &mut usize) -> usize {
        for left in [0, 1, 0] {
            if self.less(places[left + 1], places[left]) {
                places.swap(left, left + 1);
                *swaps += 1;
            }
        }
        places[1]
    }

    /// Tries to finish a nearly sorted piece. Returns true if it is sorted now.
    fn mend(&mut self, begin: usize, end: usize) -> bool {
        let mut at = begin + 1;
        for _ in 0..SHIFTS_MAX {
            while at < end && !self.less(at, at - 1) {
                at += 1;
            }
            if at == end {
                return true;
            }
            if end - begin < SHIFTING_MIN {
                return false;
            }
            self.0.swap(at, at - 1);
            if at - begin >= 2 {
                self.sink(at - 1, 0);
            }
            if end - at >= 2 {
                let mut right = at + 1;
                while right < end && self.less(right, right - 1) {
                    self.0.swap(right, right - 1);
                    right += 1;
                }
            }
        }
        false
    }

    /// Partitions: elements less than the pivot to the left, the rest to the right. Returns the
    /// pivot's place, and whether the piece was partitioned already.
    fn split(&mut self, begin: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.0.swap(begin, pivot);
        let (mut left, mut right, mut had_order) = (begin + 1, end - 1, true);
        loop {
            while left <= right && self.less(left, begin) {
                left += 1;
            }
            while left <= right && !self.less(right, begin) {
                right -= 1;
            }
            if left > right {
                self.0.swap(right, begin);
                return (right, had_order);
            }
            self.0.swap(left, right);
            had_order = false;
            left += 1;
            right -= 1;
        }
    }

    /// Partitions: elements equal to the pivot to the left of greater ones. Returns where the
    /// greater ones begin.
    fn split_equal(&mut self, begin: usize, end: usize, pivot: usize) -> usize {
        self.0.swap(begin, pivot);
        let (mut left, mut right) = (begin + 1, end - 1);
        loop {
            while left <= right && !self.less(begin, left) {
                left += 1;
            }
            while left <= right && self.less(begin, right) {
                right -= 1;
            }
            if left > right {
                return left;
            }
            self.0.swap(left, right);
            left += 1;
            right -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_up_in_order() {
        arbtest::arbtest(|u| {
            let count = u.int_in_range(0..=200)?;
            let mut permissions = Vec::new();
            for end in 0..count {
                permissions.push(Permission {
                    key: vec![u.int_in_range(0..=9)?].into(),
                    range_end: vec![end as u8].into(),
                    ..Permission::default()
                });
            }
            let mut expected = permissions.clone();
            sort(&mut permissions);
            assert!(permissions.is_sorted_by(|a, b| a.key <= b.key));
            let by_end = |a: &Permission, b: &Permission| a.range_end.cmp(&b.range_end);
            expected.sort_by(by_end);
            permissions.sort_by(by_end);
            assert_eq!(permissions, expected, "the same ones");
            Ok(())
        });
    }

    /// The result of etcd 3.7 for thirteen permissions, the last of them new.
    #[test]
    fn equal_keys_come_as_from_go() {
        let ranges = [
            ("a", "d"),
            ("ab", "\0"),
            ("af", "b"),
            ("b", "f"),
            ("b", ""),
            ("bb", ""),
            ("bd", ""),
            ("bf", ""),
            ("c", ""),
            ("cb", ""),
            ("ed", ""),
            ("ef", "f"),
            ("a", "da"),
        ];
        let mut permissions = ranges.map(|(key, end)| Permission {
            key: key.into(),
            range_end: end.into(),
            ..Permission::default()
        });
        sort(&mut permissions);
        let first = permissions.iter().take(2).map(|p| &p.range_end[..]);
        assert_eq!(first.collect::<Vec<_>>(), [&b"da"[..], b"d"]);
    }
}
