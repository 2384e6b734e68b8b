//! Random numbers from a seed, the same on every machine (SplitMix64). A failing test prints its
//! seed.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A generator of its own for something that must not shift the choices made elsewhere.
    pub fn fork(&mut self) -> Rng {
        Rng(self.next() ^ 0x5851_f42d_4c95_7f2d)
    }

    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, and is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// At least `low`, less than `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// True so many times in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Around `mean`, now and then several times as much.
    pub fn about(&mut self, mean: u64) -> u64 {
        let spread = self.between(1, 1000);
        mean / 4 + mean * (1000 - spread) / 1000 + if spread < 50 { 4 * mean } else { 0 }
    }
}
