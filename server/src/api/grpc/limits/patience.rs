//! How long a stream waits for its client. Meanwhile it holds a view, whose pages cannot be reused.
//! So the limit is on total progress, not on each piece: a client that takes a piece now and then
//! could otherwise hold the view for ever.

use std::time::Duration;

/// Longest single wait, and longest total wait beyond the time that progress has earned.
const TOTAL: Duration = Duration::from_secs(120);

/// A client this fast may take as long as it needs. At this rate ten gigabytes take two days; a
/// slower client has no use for the data.
const BYTES_PER_SECOND: u64 = 64 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    left: Duration,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { left: TOTAL }
    }

    /// Time left for the next piece.
    pub(crate) fn left(&self) -> Duration {
        self.left
    }

    /// Records that the client took a piece after `waited`.
    pub(crate) fn waited(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }

    /// Records that `bytes` are on their way to the client.
    pub(crate) fn gave(&mut self, bytes: u64) {
        let earned = Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND);
        self.left = (self.left + earned).min(TOTAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 32 << 10;

    /// How long a client is served that takes a piece each `pause`; `None`: until all pieces are
    /// sent.
    fn borne(pause: Duration, pieces: u32) -> Option<Duration> {
        let mut patience = Patience::new();
        for taken in 0..pieces {
            if pause > patience.left() {
                return Some(pause * taken + patience.left());
            }
            patience.waited(pause);
            patience.gave(PIECE);
        }
        None
    }

    #[test]
    fn a_client_is_waited_for_as_long_as_it_gets_on() {
        // First a client at exactly the minimum rate, then one that takes nothing for a while.
        assert_eq!(borne(Duration::from_millis(500), 100_000), None);
        let mut patience = Patience::new();
        patience.waited(Duration::from_secs(119));
        for _ in 0..1000 {
            patience.gave(PIECE);
        }
        assert_eq!(patience.left(), TOTAL);
    }

    #[test]
    fn a_client_that_takes_a_piece_now_and_then_is_not_waited_for_without_end() {
        assert_eq!(borne(Duration::from_secs(121), 1), Some(TOTAL));
        for seconds in [1, 10, 60, 119] {
            let borne = borne(Duration::from_secs(seconds), 100_000).unwrap();
            assert!(borne <= 3 * TOTAL, "{seconds}: {borne:?}");
        }
    }
}
