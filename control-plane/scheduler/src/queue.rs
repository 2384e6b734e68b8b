//! Which pod is next.
//!
//! A pod is *active* (in line, by priority and then by age), *backing off* after a failure, or
//! *parked*: no node took it, and it waits until something happens that could change that.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::filters::{self, Filter};
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// How long a pod backs off after its first failure; twice as long after each further one.
pub const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest a pod backs off.
pub const BACKOFF_LONGEST: Duration = Duration::from_secs(10);
/// How long a pod stays parked when nothing happens. What wakes pods is chosen with care, but a
/// hint that is missing must not leave one waiting for ever.
pub const PARKED_LONGEST: Duration = Duration::from_secs(300);

/// Something that may make room for pods that are parked.
#[derive(Debug)]
pub enum Event<'a> {
    /// A node is new or changed.
    Node(&'a NodeInfo),
    /// A node is gone, and with it perhaps a domain and whoever was in it.
    NodeGone,
    /// A pod left its node.
    PodGone(&'a PodInfo),
    /// A pod came to a node, or its labels changed there.
    PodPlaced(&'a PodInfo),
    /// The labels of a namespace changed.
    Namespace,
}

/// The pods that want a node.
#[derive(Debug, Default)]
pub struct Queue {
    pods: HashMap<String, Entry>,
    active: BTreeSet<Turn>,
    backing_off: BTreeSet<(Duration, String)>,
    parked: BTreeSet<(Duration, String)>,
}

/// Place in the line: higher priority first, then who waits longer, then by uid.
type Turn = (Reverse<i32>, Duration, String);

#[derive(Debug)]
struct Entry {
    pod: Arc<PodInfo>,
    /// Tries that failed.
    failures: u32,
    /// When it came, or last failed.
    since: Duration,
    /// The filters that refused it last.
    refused_by: BTreeSet<Filter>,
    place: Place,
}

/// Where a pod is. Invariant: exactly in the set named, under the key given.
#[derive(Debug, Clone)]
enum Place {
    Active(Turn),
    BackingOff(Duration),
    Parked(Duration),
    /// Held back by its gates.
    Gated,
    /// Taken out by [`Queue::pop`], and not yet heard of again.
    Out,
}

impl Queue {
    /// Takes a pod that has no node, new or changed.
    pub fn set(&mut self, pod: Arc<PodInfo>, now: Duration) {
        let uid = pod.uid.clone();
        let Some(entry) = self.pods.get_mut(&uid) else {
            let entry = Entry {
                failures: 0,
                since: now,
                refused_by: BTreeSet::new(),
                place: Place::Gated,
                pod,
            };
            self.pods.insert(uid.clone(), entry);
            return self.line_up(&uid, now);
        };
        let old = std::mem::replace(&mut entry.pod, pod);
        let changed = entry.pod.differs_for_scheduling(&old);
        match entry.place {
            Place::Gated => self.line_up(&uid, now),
            Place::Active(_) | Place::Parked(_) if changed => self.line_up(&uid, now),
            _ => {}
        }
    }

    /// Forgets a pod.
    pub fn remove(&mut self, uid: &str) {
        self.take_out(uid);
        self.pods.remove(uid);
    }

    /// The pod whose turn it is. It is out of line until one of the calls below.
    pub fn pop(&mut self, now: Duration) -> Option<Arc<PodInfo>> {
        self.promote(now);
        let (_, _, uid) = self.active.pop_first()?;
        let entry = self.pods.get_mut(&uid).expect("who is in line is known");
        entry.place = Place::Out;
        Some(entry.pod.clone())
    }

    /// No node took the pod; it is parked.
    pub fn park(&mut self, uid: &str, refused_by: BTreeSet<Filter>, now: Duration) {
        let Some(entry) = self.pods.get_mut(uid) else {
            return;
        };
        entry.failures += 1;
        entry.since = now;
        entry.refused_by = refused_by;
        entry.place = Place::Parked(now);
        self.parked.insert((now, uid.to_owned()));
    }

    /// Something else went wrong; the pod is tried again after a while.
    pub fn retry(&mut self, uid: &str, now: Duration) {
        let Some(entry) = self.pods.get_mut(uid) else {
            return;
        };
        entry.failures += 1;
        entry.since = now;
        let until = now + backoff(entry.failures);
        entry.place = Place::BackingOff(until);
        self.backing_off.insert((until, uid.to_owned()));
    }

    /// Lets parked pods try again whom the event could help.
    pub fn wake(&mut self, event: &Event<'_>, now: Duration) {
        let parked = self.parked.iter();
        let helped = parked.filter(|(_, uid)| could_help(event, &self.pods[uid]));
        let helped: Vec<String> = helped.map(|(_, uid)| uid.clone()).collect();
        for uid in helped {
            self.line_up(&uid, now);
        }
    }

    /// When a pod's turn may come without anything happening.
    pub fn wake_at(&self) -> Option<Duration> {
        let backing_off = self.backing_off.first().map(|(until, _)| *until);
        let parked = self
            .parked
            .first()
            .map(|(since, _)| *since + PARKED_LONGEST);
        let now = self.active.first().map(|_| Duration::ZERO);
        [now, backing_off, parked].into_iter().flatten().min()
    }

    /// Everybody here, whatever they do.
    pub fn uids(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// How many are in line, back off, and are parked.
    pub fn lengths(&self) -> (usize, usize, usize) {
        (self.active.len(), self.backing_off.len(), self.parked.len())
    }

    fn promote(&mut self, now: Duration) {
        while let Some((until, uid)) = self.backing_off.first().cloned()
            && until <= now
        {
            self.line_up(&uid, now);
        }
        while let Some((since, uid)) = self.parked.first().cloned()
            && since + PARKED_LONGEST <= now
        {
            self.line_up(&uid, now);
        }
    }

    /// Puts a pod into the line, or lets it back off first if it failed just now.
    fn line_up(&mut self, uid: &str, now: Duration) {
        self.take_out(uid);
        let entry = self.pods.get_mut(uid).expect("callers found it");
        if entry.pod.gated {
            entry.place = Place::Gated;
            return;
        }
        let until = entry.since + backoff(entry.failures);
        if until > now {
            entry.place = Place::BackingOff(until);
            self.backing_off.insert((until, uid.to_owned()));
            return;
        }
        let turn = (Reverse(entry.pod.priority), entry.since, uid.to_owned());
        entry.place = Place::Active(turn.clone());
        self.active.insert(turn);
    }

    fn take_out(&mut self, uid: &str) {
        let Some(entry) = self.pods.get_mut(uid) else {
            return;
        };
        match std::mem::replace(&mut entry.place, Place::Out) {
            Place::Active(turn) => self.active.remove(&turn),
            Place::BackingOff(until) => self.backing_off.remove(&(until, uid.to_owned())),
            Place::Parked(since) => self.parked.remove(&(since, uid.to_owned())),
            Place::Gated | Place::Out => true,
        };
    }
}

/// How long to wait after so many failures.
pub fn backoff(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => BACKOFF_LONGEST.min(BACKOFF_FIRST * 2_u32.saturating_pow(failures - 1)),
    }
}

/// Whether the event may have changed what the filters said that refused the pod.
fn could_help(event: &Event<'_>, entry: &Entry) -> bool {
    let by = |filter| entry.refused_by.contains(&filter);
    let pod = &entry.pod;
    // Of the filters that look beyond one node.
    let domains = by(Filter::PodTopologySpread) || by(Filter::InterPodAffinity);
    match event {
        // Refused for another reason than before, it waits for other things from now on.
        Event::Node(node) => match filters::local(pod, node) {
            Ok(()) => true,
            Err(refusal) => domains || !by(refusal.filter),
        },
        Event::NodeGone => domains,
        Event::PodGone(gone) => {
            let ports = by(Filter::NodePorts) && !gone.ports.is_empty();
            by(Filter::NodeResourcesFit) || ports || domains
        }
        Event::PodPlaced(_) => {
            let near = by(Filter::InterPodAffinity) && !pod.affinity.is_empty();
            // A pod in the emptiest domain lets the others have more.
            near || by(Filter::PodTopologySpread)
        }
        Event::Namespace => by(Filter::InterPodAffinity),
    }
}
