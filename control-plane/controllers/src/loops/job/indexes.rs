//! Sets of completion indexes, kept and written as intervals, such as `0,2-5,7`.

use std::fmt;

/// A set of indexes: intervals in ascending order that do not touch, first and last included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads the indexes below `completions`. What is no interval is skipped.
    pub(super) fn parse(text: &str, completions: i32) -> Indexes {
        let intervals = text.split(',').filter_map(|interval| {
            let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
            let first = first.parse().ok()?;
            let last: i32 = last.parse().ok()?;
            Some((first, last.min(completions - 1)))
        });
        let within = intervals.filter(|(first, last)| *first < completions && first <= last);
        within.collect::<Vec<_>>().into()
    }

    /// The indexes of both sets.
    pub(super) fn with(&self, other: &Indexes) -> Indexes {
        [&self.0[..], &other.0[..]].concat().into()
    }

    /// How many they are.
    pub(super) fn count(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, index: i32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// How many indexes both sets have.
    pub(super) fn common(&self, other: &Indexes) -> i32 {
        let overlaps = self.0.iter().map(|(first, last)| {
            let from = other.0.partition_point(|(_, end)| end < first);
            let of = other.0[from..].iter();
            of.take_while(|(start, _)| start <= last)
                .map(|(start, end)| last.min(end) - first.max(start) + 1)
                .sum::<i32>()
        });
        overlaps.sum()
    }

    /// The first `count` indexes below `completions` that are missing here.
    pub(super) fn missing(&self, completions: i32, count: usize) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut next = 0;
        for (first, last) in self.0.iter().chain([&(completions, completions)]) {
            let room = count - missing.len();
            missing.extend((next..(*first).min(completions)).take(room));
            next = last.saturating_add(1);
        }
        missing
    }
}

impl From<Vec<(i32, i32)>> for Indexes {
    fn from(intervals: Vec<(i32, i32)>) -> Indexes {
        let mut sorted = intervals;
        sorted.sort_unstable();
        let mut merged: Vec<(i32, i32)> = Vec::new();
        for (first, last) in sorted {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => merged.push((first, last)),
            }
        }
        Indexes(merged)
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Indexes {
        let indexes = indexes.into_iter().map(|index| (index, index));
        indexes.collect::<Vec<_>>().into()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last - first {
                0 => write!(to, "{comma}{first}")?,
                1 => write!(to, "{comma}{first},{last}")?,
                _ => write!(to, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Indexes {
        Indexes::parse(text, 20)
    }

    #[test]
    fn indexes_are_written_as_intervals() {
        for text in ["", "3", "1,2", "0-2,4,7-9", "18,19"] {
            assert_eq!(read(text).to_string(), text);
        }
        // Neighbours are joined, what is no number or not an index of the job is left out.
        assert_eq!(read("1,2,3,x,5-,18-30,40").to_string(), "1-3,18,19");
        assert_eq!((2..6).chain([0]).collect::<Indexes>().to_string(), "0,2-5");
    }

    #[test]
    fn sets_are_joined_counted_and_compared() {
        let (some, others) = (read("0-2,6,10-12"), read("2-7,12-14"));
        assert_eq!(some.with(&others).to_string(), "0-7,10-14");
        assert_eq!((some.count(), some.common(&others)), (7, 3));
        assert!(some.contains(6) && some.contains(12) && !some.contains(7));
        assert!(read("").is_empty() && !read("").contains(0));
    }

    #[test]
    fn the_first_missing_ones_are_found() {
        assert_eq!(read("0,2-4,6").missing(9, 3), [1, 5, 7]);
        assert_eq!(read("0,2-4,6").missing(8, 9), [1, 5, 7]);
        assert_eq!(read("").missing(3, 2), [0, 1]);
        assert!(read("0-19").missing(20, 5).is_empty());
        // A pod may say that it has any index.
        let beyond: Indexes = [i32::MAX, 0].into_iter().collect();
        assert_eq!(beyond.missing(3, 5), [1, 2]);
        assert_eq!(beyond.with(&beyond).to_string(), "0,2147483647");
    }
}
