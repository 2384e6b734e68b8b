//! Ranges of costs and sizes, and the costs that Kubernetes gives to making and reading values.

/// The cost of making a list, a map and a message.
pub(crate) const LIST_COST: u64 = 10;
pub(crate) const MAP_COST: u64 = 30;
pub(crate) const MESSAGE_COST: u64 = 40;
/// The cost of looking at one character.
pub(crate) const TEXT_FACTOR: f64 = 0.1;
/// The cost of one character of a regular expression per character of text.
pub(crate) const REGEX_FACTOR: f64 = 0.25;

/// A range of costs or sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Range {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Range {
    pub(crate) const UNKNOWN: Range = Range {
        min: 0,
        max: u64::MAX,
    };

    pub(crate) fn of(both: u64) -> Range {
        Range {
            min: both,
            max: both,
        }
    }

    pub(crate) fn plus(self, other: Range) -> Range {
        Range {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(crate) fn times(self, other: Range) -> Range {
        Range {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// The product, rounded up.
    pub(crate) fn scaled(self, factor: f64) -> Range {
        Range {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }

    pub(crate) fn union(self, other: Range) -> Range {
        Range {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// A count times a factor, rounded up; at most the largest integer.
pub(crate) fn scaled(count: u64, factor: f64) -> u64 {
    // The conversion saturates.
    (count as f64 * factor).ceil() as u64
}
