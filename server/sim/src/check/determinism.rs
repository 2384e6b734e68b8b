//! The same seed gives the same trace, byte for byte: without that no failure could be replayed.

use super::Verdict;

/// Digests of two traces of one seed.
pub fn same(first: u64, second: u64) -> Verdict {
    if first == second {
        Ok(())
    } else {
        Err(format!(
            "one seed made two traces, with digests {first:x} and {second:x}"
        ))
    }
}
