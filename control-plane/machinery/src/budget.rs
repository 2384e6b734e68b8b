//! What one body may become in memory. Three bytes of a body can name an object that takes
//! hundreds, so both decoders count what they make, not what they read.

/// A hundred thousand objects: some ten times what fits into the largest value a store takes by
/// default, if each of them says anything.
const COST_MAX: usize = 1_000_000;
/// A map takes room for eleven entries as soon as it has one.
const OBJECT_COST: usize = 10;

/// What is left for one body.
pub(crate) struct Budget(usize);

impl Default for Budget {
    fn default() -> Budget {
        Budget(COST_MAX)
    }
}

impl Budget {
    /// One more object; whether there may be one.
    pub(crate) fn object(&mut self) -> bool {
        self.spend(OBJECT_COST)
    }

    /// One more item of a list.
    pub(crate) fn item(&mut self) -> bool {
        self.spend(1)
    }

    fn spend(&mut self, cost: usize) -> bool {
        let left = self.0.checked_sub(cost);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}
