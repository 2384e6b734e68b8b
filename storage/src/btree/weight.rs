//! Weights of a tree's entries. Branches keep the sums, so that two descents find the weight of any
//! range of keys.

use std::iter::Sum;
use std::ops::{Add, Sub};

/// Bits of each number in a branch entry.
const COUNT_BITS: u32 = 40;
const BYTES_BITS: u32 = 48;

/// A number of entries and of bytes. Sums wrap around, so that a difference is a weight, too. A
/// whole tree weighs less than a branch entry can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Weight {
    pub(crate) const NONE: Weight = Weight { count: 0, bytes: 0 };

    /// Cut to the bits of a branch entry: a sum that wrapped around comes out right again.
    pub(crate) fn cut(self) -> Weight {
        Weight {
            count: self.count & ((1 << COUNT_BITS) - 1),
            bytes: self.bytes & ((1 << BYTES_BITS) - 1),
        }
    }
}

impl Add for Weight {
    type Output = Weight;

    #[inline]
    fn add(self, other: Weight) -> Weight {
        Weight {
            count: self.count.wrapping_add(other.count),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

impl Sub for Weight {
    type Output = Weight;

    #[inline]
    fn sub(self, other: Weight) -> Weight {
        Weight {
            count: self.count.wrapping_sub(other.count),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Weight>>(weights: I) -> Weight {
        weights.fold(Weight::NONE, Add::add)
    }
}
