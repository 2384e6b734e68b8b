//! An actor's inbox: any number of senders, one receiver that takes all there is.
//!
//! Senders never wait, and the receiver never spins: on a small machine spinning would take CPU
//! from the threads it waits for. The queue is not bounded here; see [`crate::member::event`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The receiver is gone; the event was not delivered.
#[derive(Debug)]
pub(crate) struct Closed;

#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

#[derive(Debug)]
pub(crate) struct Inbox<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    queue: Mutex<Queue<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct Queue<T> {
    events: Vec<T>,
    /// The receiver sleeps; the next sender must wake it.
    asleep: bool,
    closed: bool,
}

pub(crate) fn inbox<T>() -> (Sender<T>, Inbox<T>) {
    let shared = Arc::new(Shared {
        queue: Mutex::new(Queue {
            events: Vec::new(),
            asleep: false,
            closed: false,
        }),
        filled: Condvar::new(),
    });
    (Sender(Arc::clone(&shared)), Inbox(shared))
}

/// A pending wake-up of a sleeping receiver, sent on drop. A sender with more events can hold it,
/// so that the receiver finds them all at once.
#[must_use]
#[derive(Debug)]
pub(crate) struct WakeUp<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    pub(crate) fn send(&self, event: T) -> Result<(), Closed> {
        self.post(event).map(drop)
    }

    /// Sends an event that can wait: it does not wake the receiver.
    pub(crate) fn send_quietly(&self, event: T) -> Result<(), Closed> {
        let mut queue = self.0.queue.lock();
        if queue.closed {
            return Err(Closed);
        }
        queue.events.push(event);
        Ok(())
    }

    /// Sends an event; returns the wake-up if the receiver sleeps and no other sender wakes it.
    pub(crate) fn post(&self, event: T) -> Result<Option<WakeUp<T>>, Closed> {
        let mut queue = self.0.queue.lock();
        if queue.closed {
            return Err(Closed);
        }
        queue.events.push(event);
        let owed = std::mem::take(&mut queue.asleep);
        Ok(owed.then(|| WakeUp(Arc::clone(&self.0))))
    }
}

impl<T> Drop for WakeUp<T> {
    fn drop(&mut self) {
        self.0.filled.notify_one();
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Inbox<T> {
    /// Waits up to `patience` for an event, then takes all queued events, so batching needs no
    /// timer. `events` must be empty; its buffer is reused by the senders.
    pub(crate) fn receive(&self, patience: Option<Duration>, events: &mut Vec<T>) {
        let mut queue = self.0.queue.lock();
        while queue.events.is_empty() {
            queue.asleep = true;
            match patience {
                None => self.0.filled.wait(&mut queue),
                Some(patience) => {
                    let timeout = self.0.filled.wait_for(&mut queue, patience);
                    if timeout.timed_out() {
                        break;
                    }
                }
            }
        }
        queue.asleep = false;
        std::mem::swap(&mut queue.events, events);
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.closed = true;
        // Dropping queued events also drops the reply slots of clients, which reports the failure.
        let events = std::mem::take(&mut queue.events);
        drop(queue);
        drop(events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_all_there_is_in_the_order_of_sending() {
        let (sender, inbox) = inbox();
        let mut events = Vec::new();
        for event in 0..3 {
            sender.send(event).unwrap();
        }
        inbox.receive(None, &mut events);
        assert_eq!(events, [0, 1, 2]);
    }

    #[test]
    fn wakes_a_receiver_that_sleeps() {
        let (sender, inbox) = inbox();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(move || {
                let mut seen = 0;
                let mut events: Vec<u32> = Vec::new();
                while seen < 1_000 {
                    events.clear();
                    inbox.receive(None, &mut events);
                    for event in &events {
                        assert_eq!(*event, seen);
                        seen += 1;
                    }
                }
            });
            for event in 0..1_000 {
                sender.send(event).unwrap();
            }
            receiver.join().unwrap();
        });
    }

    #[test]
    fn the_first_to_post_owes_the_wake_up() {
        let (sender, inbox) = inbox();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(move || {
                let mut events = Vec::new();
                inbox.receive(None, &mut events);
                events
            });
            while !sender.0.queue.lock().asleep {
                std::thread::yield_now();
            }
            let owed = sender.post(1).unwrap();
            assert!(owed.is_some());
            assert!(sender.post(2).unwrap().is_none());
            drop(owed);
            assert_eq!(receiver.join().unwrap(), [1, 2]);
        });
    }

    #[test]
    fn returns_with_nothing_when_patience_ends() {
        let (_sender, inbox) = inbox::<u32>();
        let mut events = Vec::new();
        inbox.receive(Some(Duration::ZERO), &mut events);
        assert!(events.is_empty());
    }

    #[test]
    fn senders_learn_that_the_receiver_has_gone() {
        let (sender, inbox) = inbox();
        let waiting = Arc::new(());
        sender.send(Arc::clone(&waiting)).unwrap();
        drop(inbox);
        assert_eq!(Arc::strong_count(&waiting), 1, "what waited is dropped");
        assert!(sender.send(waiting).is_err());
    }
}
