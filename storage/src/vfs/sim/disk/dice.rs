//! The choices of what survives.

use crate::vfs::sim::rng::Rng;

/// What a power cut or a failed sync leaves; depends on the seed alone.
#[derive(Debug)]
pub(super) struct Dice {
    pub(super) rng: Rng,
    /// Of 100.
    pub(super) odds: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice {
            rng: Rng(seed),
            odds: 50,
        }
    }

    /// All, none, few, many: each finds bugs the others do not.
    pub(super) fn choose_odds(&mut self) {
        let all = [0, 10, 50, 50, 90, 100];
        self.odds = all[self.rng.below(all.len() as u64) as usize];
    }

    pub(super) fn survives(&mut self) -> bool {
        self.rng.below(100) < self.odds
    }
}
