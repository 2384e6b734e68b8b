//! Random numbers from a seed, in the types that tests choose with.

/// A failing test prints its seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(testkit::Rng);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(testkit::Rng::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        if high <= low {
            low
        } else {
            low + self.below((high - low + 1) as usize) as i64
        }
    }

    /// True `percent` times in a hundred.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}
