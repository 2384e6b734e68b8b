//! Shuffle sharding: which queues the requests of a flow may join.

use super::Queuing;

/// The different queues in a flow's hand: each digit of the hash, written with falling bases,
/// chooses one of the queues that are left.
pub(super) fn deal(flow: u64, queuing: Queuing) -> impl Iterator<Item = u32> {
    /// No hash chooses more: a hand takes at most 60 bits.
    const HAND_MAX: usize = 60;
    let mut left = flow;
    let mut chosen = [0; HAND_MAX];
    let hand = (queuing.hand.min(queuing.queues) as usize).min(HAND_MAX);
    (0..hand).map(move |at| {
        let base = u64::from(queuing.queues) - at as u64;
        // Below the number of queues.
        let mut card = (left % base) as u32;
        left /= base;
        // Skips the queues that are gone, in ascending order.
        for taken in &chosen[..at] {
            if card >= *taken {
                card += 1;
            }
        }
        let place = chosen[..at].partition_point(|taken| *taken < card);
        chosen.copy_within(place..at, place + 1);
        chosen[place] = card;
        card
    })
}
