//! Brings answers back to the tasks that wait for them.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::member::event::{Reply, ReplySlot};
use crate::net::workers::Workers;

/// Answers of one batch.
type Replies = Vec<(ReplySlot, Reply)>;

/// One task per worker hands out that worker's share of a batch. So a batch wakes a worker thread
/// once, however many clients wait there.
#[derive(Clone)]
pub(super) struct Deliveries(Vec<UnboundedSender<Replies>>);

impl Deliveries {
    pub(super) fn start(workers: &Workers) -> Deliveries {
        let start = |worker| {
            let (sender, batches) = unbounded_channel();
            workers.spawn(worker, deliver(batches));
            sender
        };
        Deliveries((0..workers.count()).map(start).collect())
    }

    /// Sends all `replies` and leaves the vector empty.
    pub(super) fn send(&self, replies: &mut Replies) {
        if replies.is_empty() {
            return;
        }
        if let [only] = self.0.as_slice() {
            // Fails only when the workers have ended; then no client is left.
            let _ = only.send(std::mem::take(replies));
            return;
        }
        let mut parts: Vec<Replies> = self.0.iter().map(|_| Vec::new()).collect();
        for (slot, reply) in replies.drain(..) {
            parts[slot.home()].push((slot, reply));
        }
        for (worker, part) in self.0.iter().zip(parts) {
            if !part.is_empty() {
                let _ = worker.send(part);
            }
        }
    }
}

async fn deliver(mut batches: UnboundedReceiver<Replies>) {
    while let Some(batch) = batches.recv().await {
        for (slot, reply) in batch {
            slot.send(reply);
        }
    }
}
