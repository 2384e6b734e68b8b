//! How long a stream waits for its client. Meanwhile it holds a view, whose pages cannot be reused.
//! So the limit is on total progress, not on each piece: a client that takes a piece now and then
//! could otherwise hold the view for ever. And the more the views hold back, the sooner a client
//! that takes nothing is given up.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::config;
use crate::runtime::etcd_server::EtcdServer;
use crate::state::held_back::HeldBack;

/// Longest single wait, and longest total wait beyond the time that progress has earned.
const TOTAL: Duration = Duration::from_secs(120);

/// A client this fast may take as long as it needs. At this rate ten gigabytes take two days; a
/// slower client has no use for the data.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Longest single wait while views hold back much of the file. A backup may stand still for seconds
/// while its own disk is busy, and must not be lost for that; puts as fast as they can be rewrite
/// some hundred megabytes meanwhile.
const WAIT_WHEN_MUCH_IS_HELD: Duration = Duration::from_secs(10);

/// The same while clients are refused for want of the space. A wait then counts
/// [`TIMES_WHEN_NEEDED`] times: a client that takes less than about two megabytes a second is
/// given up after a few seconds.
const WAIT_WHEN_NEEDED: Duration = Duration::from_secs(1);
const TIMES_WHEN_NEEDED: u32 = 32;

/// Time between two looks at what is held back.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    left: Duration,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { left: TOTAL }
    }

    /// Waits until the client makes `progress`. `None`: it is given up.
    pub(crate) async fn wait<T>(
        &mut self,
        server: &EtcdServer,
        progress: impl Future<Output = T>,
    ) -> Option<T> {
        let mut progress = pin!(progress);
        let since = Instant::now();
        loop {
            let done = tokio::time::timeout(LOOK_EVERY, &mut progress).await;
            let (waited, held) = (since.elapsed(), server.held_back());
            if let Ok(done) = done {
                self.waited(waited, held);
                return Some(done);
            }
            if waited >= self.longest_wait(held) {
                let waited = config::duration(waited);
                let text = "gave up a client that reads too slowly; its view held space back";
                tracing::warn!(waited, ?held, "{text}");
                return None;
            }
        }
    }

    /// Records that `bytes` are on their way to the client.
    pub(crate) fn gave(&mut self, bytes: u64) {
        let earned = Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND);
        self.left = (self.left + earned).min(TOTAL);
    }

    fn longest_wait(&self, held: HeldBack) -> Duration {
        match held {
            HeldBack::Little => self.left,
            HeldBack::Much => self.left.min(WAIT_WHEN_MUCH_IS_HELD),
            HeldBack::Needed => (self.left / TIMES_WHEN_NEEDED).min(WAIT_WHEN_NEEDED),
        }
    }

    /// Records that the client took a piece after `waited`.
    fn waited(&mut self, waited: Duration, held: HeldBack) {
        let times = match held {
            HeldBack::Needed => TIMES_WHEN_NEEDED,
            _ => 1,
        };
        self.left = self.left.saturating_sub(waited * times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 32 << 10;
    const SECOND: Duration = Duration::from_secs(1);

    /// How long a client is served that takes a piece each `pause`; `None`: until all pieces are
    /// sent.
    fn borne(pause: Duration, pieces: u32, held: HeldBack) -> Option<Duration> {
        let mut patience = Patience::new();
        for taken in 0..pieces {
            if pause > patience.longest_wait(held) {
                return Some(pause * taken + patience.longest_wait(held));
            }
            patience.waited(pause, held);
            patience.gave(PIECE);
        }
        None
    }

    #[test]
    fn a_client_is_waited_for_as_long_as_it_gets_on() {
        // First a client at exactly the minimum rate, then one that takes nothing for a while.
        assert_eq!(borne(SECOND / 2, 100_000, HeldBack::Little), None);
        assert_eq!(borne(SECOND / 2, 100_000, HeldBack::Much), None);
        let mut patience = Patience::new();
        patience.waited(SECOND * 119, HeldBack::Little);
        for _ in 0..1000 {
            patience.gave(PIECE);
        }
        assert_eq!(patience.left, TOTAL);
    }

    #[test]
    fn a_client_that_takes_a_piece_now_and_then_is_not_waited_for_without_end() {
        assert_eq!(borne(SECOND * 121, 1, HeldBack::Little), Some(TOTAL));
        for seconds in [1, 10, 60, 119] {
            let borne = borne(SECOND * seconds, 100_000, HeldBack::Little).unwrap();
            assert!(borne <= 3 * TOTAL, "{seconds}: {borne:?}");
        }
    }

    #[test]
    fn the_more_is_held_back_the_sooner_a_client_is_given_up() {
        assert_eq!(borne(SECOND * 11, 1, HeldBack::Much), Some(SECOND * 10));
        assert_eq!(borne(SECOND * 2, 1, HeldBack::Needed), Some(SECOND));
        // A client that gets on slowly is borne when space is only held back, and not when it is
        // needed.
        let slowly = borne(SECOND / 2, 100_000, HeldBack::Needed).unwrap();
        assert!(slowly < SECOND * 10, "{slowly:?}");
        let fast = SECOND / 65;
        assert_eq!(borne(fast, 100_000, HeldBack::Needed), None);
    }
}
