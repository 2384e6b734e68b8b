//! The age of the oldest view of the store. The store has no clock: it knows the view's generation,
//! the span between the begins of two checkpoints. This module notes when each began.

use std::collections::VecDeque;
use std::time::Duration;

use raft::Now;
use storage::mvcc::Stats;

#[derive(Debug, Default)]
pub(super) struct Views {
    /// Generations of the open views and later, with the time each was first seen, ascending.
    begun: VecDeque<(u64, Now)>,
}

impl Views {
    /// A lower bound for the age of the oldest view: it was taken before the generation after its
    /// own began. Zero for views of the newest generation, which hold nothing back.
    pub(super) fn note(&mut self, now: Now, stats: &Stats) -> Duration {
        if self
            .begun
            .back()
            .is_none_or(|(newest, _)| *newest < stats.checkpoint)
        {
            self.begun.push_back((stats.checkpoint, now));
        }
        while self
            .begun
            .front()
            .is_some_and(|(begun, _)| *begun <= stats.oldest_view)
        {
            self.begun.pop_front();
        }
        let after = self.begun.front().filter(|_| stats.views > 0);
        after.map_or(Duration::ZERO, |(_, since)| now - *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_view_is_as_old_as_the_checkpoint_after_it() {
        let mut views = Views::default();
        let mut age = |at, checkpoint, oldest_view, open| {
            let stats = Stats {
                checkpoint,
                oldest_view,
                views: open,
                ..Stats::default()
            };
            views.note(Now::from_secs(at), &stats).as_secs()
        };
        assert_eq!(age(1, 7, 7, 0), 0);
        // Taken in generation 7, at some time before 10.
        assert_eq!(age(10, 8, 7, 1), 0);
        assert_eq!(age(15, 8, 7, 1), 5);
        assert_eq!(age(20, 10, 7, 2), 10);
        // That view is gone. The oldest one is of generation 8.
        assert_eq!(age(25, 10, 8, 1), 5);
        assert_eq!(age(30, 10, 10, 0), 0);
    }
}
