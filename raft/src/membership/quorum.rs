//! The arithmetic of majorities. Knows numbers only.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    Won,
    Lost,
    Open,
}

pub(crate) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// The largest value that a majority has reached; 0 without voters. Sorts its argument.
pub(crate) fn reached(values: &mut [u64]) -> u64 {
    if values.is_empty() {
        return 0;
    }
    values.sort_unstable();
    // `len - majority` members are behind the value at this place; a majority has reached it.
    values[values.len() - majority(values.len())]
}

/// The result of an election among `voters` so far.
pub(crate) fn tally(voters: usize, granted: usize, refused: usize) -> Tally {
    if granted >= majority(voters) {
        Tally::Won
    } else if granted + (voters - granted - refused) < majority(voters) {
        Tally::Lost
    } else {
        Tally::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::rng::Rng;

    /// The definition, word for word: try every value, count the members that reached it.
    fn reached_slowly(values: &[u64]) -> u64 {
        let mut best = 0;
        for &candidate in values {
            let count = values.iter().filter(|v| **v >= candidate).count();
            if 2 * count > values.len() && candidate > best {
                best = candidate;
            }
        }
        best
    }

    /// Plays out every outcome of the open votes.
    fn tally_slowly(voters: usize, granted: usize, refused: usize) -> Tally {
        let open = voters - granted - refused;
        let outcomes: Vec<bool> = (0..=open).map(|yes| 2 * (granted + yes) > voters).collect();
        match (outcomes[0], outcomes[open]) {
            (true, _) => Tally::Won,
            (_, false) => Tally::Lost,
            _ => Tally::Open,
        }
    }

    #[test]
    fn reached_agrees_with_the_definition() {
        let mut rng = Rng::new(7);
        for _ in 0..20_000 {
            let n = rng.below(10) as usize;
            let mut values: Vec<u64> = (0..n).map(|_| rng.below(12)).collect();
            let slow = reached_slowly(&values);
            assert_eq!(reached(&mut values), slow, "{values:?}");
        }
    }

    #[test]
    fn tally_agrees_with_playing_out_every_vote() {
        for voters in 1..=9 {
            for granted in 0..=voters {
                for refused in 0..=voters - granted {
                    assert_eq!(
                        tally(voters, granted, refused),
                        tally_slowly(voters, granted, refused),
                        "{voters} voters, {granted} granted, {refused} refused"
                    );
                }
            }
        }
    }

    #[test]
    fn any_two_majorities_meet() {
        for voters in 1..=9 {
            assert!(2 * majority(voters) > voters);
            assert!(2 * (majority(voters) - 1) <= voters);
        }
    }
}
