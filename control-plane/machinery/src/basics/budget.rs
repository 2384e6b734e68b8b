//! Limits the memory that one decoded body may take. Three bytes of a body can name an object that
//! takes hundreds, so both decoders count what they allocate, not what they read.

/// 100,000 objects: about ten times the number of non-empty objects in the largest value that a
/// store takes by default.
const COST_MAX: usize = 1_000_000;
/// Cost of an object: a map allocates room for eleven entries with its first one.
const OBJECT_COST: usize = 10;

/// The cost that one body may still add.
pub(crate) struct Budget(usize);

impl Default for Budget {
    fn default() -> Budget {
        Budget(COST_MAX)
    }
}

impl Budget {
    /// Counts one more object; false when the budget is used up.
    pub(crate) fn object(&mut self) -> bool {
        self.spend(OBJECT_COST)
    }

    /// Counts one more item of a list; false when the budget is used up.
    pub(crate) fn item(&mut self) -> bool {
        self.spend(1)
    }

    fn spend(&mut self, cost: usize) -> bool {
        let left = self.0.checked_sub(cost);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}
