//! The scheduling queue.
//!
//! A pod is *active* (ready, by priority and then by age), *backing off* after a failure, or
//! *unschedulable*: no node fits it, and it waits for an event that could change that.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::filters;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::refusal::Filter;

/// Back-off after a pod's first failure; it doubles with each further one.
pub const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest back-off.
pub const BACKOFF_LONGEST: Duration = Duration::from_secs(10);
/// How long a pod stays unschedulable if no event wakes it. If the rules for events miss a case, this
/// limit keeps a pod from waiting forever.
pub const PARKED_LONGEST: Duration = Duration::from_secs(300);

/// An event that may let unschedulable pods fit.
#[derive(Debug)]
pub enum Event<'a> {
    /// A node is new or changed.
    Node(&'a NodeInfo),
    /// A node is gone, and with it perhaps a domain and the pods in it.
    NodeGone,
    /// A pod left its node.
    PodGone(&'a PodInfo),
    /// A pod was placed on a node, or its labels changed there.
    PodPlaced(&'a PodInfo),
    /// A pod on a node has other labels than before: those that are gone may have kept others away.
    PodRelabelled,
    /// A pod on a node asks for less than before.
    PodShrunk,
    /// The labels of a namespace changed.
    Namespace,
    /// A claim, or what it depends on, changed.
    Claim,
}

/// The pods that need a node.
#[derive(Debug, Default)]
pub struct Queue {
    pods: HashMap<String, Entry>,
    active: BTreeSet<Turn>,
    backing_off: BTreeSet<(Duration, String)>,
    /// By when they are tried again if no event wakes them.
    unschedulable: BTreeSet<(Duration, String)>,
}

/// The order of active pods: higher priority first, then the longer wait, then the uid.
type Turn = (Reverse<i32>, Duration, String);

#[derive(Debug)]
struct Entry {
    pod: Arc<PodInfo>,
    /// The number of failed attempts.
    failures: u32,
    /// When it was added, last failed, or was last looked at while it waits.
    since: Duration,
    /// It waits for its claims, which is no failure.
    waits: bool,
    /// When it has waited long enough for its volumes; `None` if it does not wait for them.
    waits_until: Option<Duration>,
    /// The filters that refused it in the last attempt.
    refused_by: BTreeSet<Filter>,
    /// It stays unschedulable until [`Queue::release`]; whether something happened meanwhile that
    /// would have woken it.
    held: Option<Woken>,
    state: State,
}

type Woken = bool;

/// The state of a pod. Invariant: the pod is in exactly the set named, under the key given.
#[derive(Debug, Clone)]
enum State {
    Active(Turn),
    BackingOff(Duration),
    Unschedulable(Duration),
    /// It has scheduling gates.
    Gated,
    /// Returned by [`Queue::pop`]; its result is not known yet.
    InFlight,
}

impl Queue {
    /// Adds or updates a pod without a node.
    pub fn set(&mut self, pod: Arc<PodInfo>, now: Duration) {
        let uid = pod.uid.clone();
        let Some(entry) = self.pods.get_mut(&uid) else {
            let entry = Entry {
                failures: 0,
                since: now,
                waits: false,
                waits_until: None,
                refused_by: BTreeSet::new(),
                held: None,
                state: State::Gated,
                pod,
            };
            self.pods.insert(uid.clone(), entry);
            return self.line_up(&uid, now);
        };
        let old = std::mem::replace(&mut entry.pod, pod);
        let changed = entry.pod.differs_for_scheduling(&old);
        match entry.state {
            State::Gated => self.line_up(&uid, now),
            State::Active(_) | State::Unschedulable(_) if changed => self.wake_one(&uid, now),
            _ => {}
        }
    }

    /// Notes the newest state of a pod whose result is not known yet.
    pub fn note(&mut self, pod: Arc<PodInfo>) {
        if let Some(entry) = self.pods.get_mut(&pod.uid) {
            entry.pod = pod;
        }
    }

    /// The newest state of a pod.
    pub fn pod(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.pods.get(uid).map(|entry| &entry.pod)
    }

    /// The newest state of a pod that waits; `None` also while its result is not known yet.
    pub fn waiting(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        let entry = self.pods.get(uid)?;
        (!matches!(entry.state, State::InFlight)).then_some(&entry.pod)
    }

    /// Removes a pod.
    pub fn remove(&mut self, uid: &str) {
        self.take_out(uid);
        self.pods.remove(uid);
    }

    /// Takes the next active pod. The caller must report the result with one of the calls below.
    pub fn pop(&mut self, now: Duration) -> Option<Arc<PodInfo>> {
        self.promote(now);
        let (_, _, uid) = self.active.pop_first()?;
        let entry = self.pods.get_mut(&uid).expect("who is in line is known");
        entry.state = State::InFlight;
        Some(entry.pod.clone())
    }

    /// Parks a pod that no node fits.
    pub fn park(&mut self, uid: &str, refused_by: BTreeSet<Filter>, now: Duration) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.failures += 1;
            entry.waits = false;
            entry.waits_until = None;
        }
        self.set_aside(uid, refused_by, now);
    }

    /// Parks a pod that waits for its claims. However often it is looked at in vain, it backs off
    /// no longer than after a first failure: it can go as soon as the last of them is bound. It is
    /// looked at again at `until` at the latest.
    pub fn wait(
        &mut self,
        uid: &str,
        refused_by: BTreeSet<Filter>,
        until: Option<Duration>,
        now: Duration,
    ) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.waits = true;
            entry.waits_until = until;
        }
        self.set_aside(uid, refused_by, now);
    }

    /// The `until` of the last [`wait`](Self::wait), if the pod did nothing else since.
    pub fn waits_until(&self, uid: &str) -> Option<Duration> {
        self.pods.get(uid)?.waits_until
    }

    /// Retries a pod after its back-off, because something else failed.
    pub fn retry(&mut self, uid: &str, now: Duration) {
        self.take_out(uid);
        let Some(entry) = self.pods.get_mut(uid) else {
            return;
        };
        entry.failures += 1;
        entry.since = now;
        entry.waits = false;
        entry.waits_until = None;
        let until = now + backoff(entry.failures);
        entry.state = State::BackingOff(until);
        self.backing_off.insert((until, uid.to_owned()));
    }

    /// Requeues the unschedulable pods that the event could help.
    pub fn wake(&mut self, event: &Event<'_>, now: Duration) {
        let unschedulable = self.unschedulable.iter();
        let helped = unschedulable.filter(|(_, uid)| could_help(event, &self.pods[uid]));
        let helped: Vec<String> = helped.map(|(_, uid)| uid.clone()).collect();
        for uid in helped {
            self.wake_one(&uid, now);
        }
    }

    /// Keeps a parked pod from being tried again while others are being deleted for it.
    pub fn hold(&mut self, uid: &str) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.held = Some(false);
        }
    }

    /// Ends that. The pod is tried again if it was woken meanwhile, or `anyway`.
    pub fn release(&mut self, uid: &str, anyway: bool, now: Duration) {
        let Some(entry) = self.pods.get_mut(uid) else {
            return;
        };
        let woken = entry.held.take().unwrap_or(false);
        if (woken || anyway) && matches!(entry.state, State::Unschedulable(_)) {
            self.line_up(uid, now);
        }
    }

    /// When [`pop`](Self::pop) may return a pod even if nothing happens.
    pub fn wake_at(&self) -> Option<Duration> {
        let backing_off = self.backing_off.first().map(|(until, _)| *until);
        let unschedulable = self.unschedulable.first().map(|(until, _)| *until);
        let now = self.active.first().map(|_| Duration::ZERO);
        [now, backing_off, unschedulable]
            .into_iter()
            .flatten()
            .min()
    }

    /// The uids of all pods, in any state.
    pub fn uids(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// The numbers of active, backing-off and unschedulable pods.
    pub fn lengths(&self) -> (usize, usize, usize) {
        (
            self.active.len(),
            self.backing_off.len(),
            self.unschedulable.len(),
        )
    }

    fn set_aside(&mut self, uid: &str, refused_by: BTreeSet<Filter>, now: Duration) {
        let Some(entry) = self.pods.get_mut(uid) else {
            return;
        };
        entry.since = now;
        entry.refused_by = refused_by;
        let longest = now + PARKED_LONGEST;
        let until = entry
            .waits_until
            .map_or(longest, |until| until.min(longest));
        entry.state = State::Unschedulable(until);
        self.unschedulable.insert((until, uid.to_owned()));
    }

    fn promote(&mut self, now: Duration) {
        while let Some((until, uid)) = self.backing_off.first().cloned()
            && until <= now
        {
            self.line_up(&uid, now);
        }
        while let Some((until, uid)) = self.unschedulable.first().cloned()
            && until <= now
        {
            self.line_up(&uid, now);
        }
    }

    fn wake_one(&mut self, uid: &str, now: Duration) {
        match self.pods.get_mut(uid).and_then(|one| one.held.as_mut()) {
            Some(woken) => *woken = true,
            None => self.line_up(uid, now),
        }
    }

    /// Makes a pod active, or lets it back off first if its last failure was recent.
    fn line_up(&mut self, uid: &str, now: Duration) {
        self.take_out(uid);
        let entry = self.pods.get_mut(uid).expect("callers found it");
        if entry.pod.gated {
            entry.state = State::Gated;
            return;
        }
        let failures = if entry.waits { 1 } else { entry.failures };
        let until = entry.since + backoff(failures);
        if until > now {
            entry.state = State::BackingOff(until);
            self.backing_off.insert((until, uid.to_owned()));
            return;
        }
        let turn = (Reverse(entry.pod.priority), entry.since, uid.to_owned());
        entry.state = State::Active(turn.clone());
        self.active.insert(turn);
    }

    fn take_out(&mut self, uid: &str) {
        let Some(entry) = self.pods.get_mut(uid) else {
            return;
        };
        match std::mem::replace(&mut entry.state, State::InFlight) {
            State::Active(turn) => self.active.remove(&turn),
            State::BackingOff(until) => self.backing_off.remove(&(until, uid.to_owned())),
            State::Unschedulable(until) => self.unschedulable.remove(&(until, uid.to_owned())),
            State::Gated | State::InFlight => true,
        };
    }
}

/// The back-off after this many failures.
pub fn backoff(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => BACKOFF_LONGEST.min(BACKOFF_FIRST * 2_u32.saturating_pow(failures - 1)),
    }
}

/// True if the event may change the result of the filters that refused the pod.
fn could_help(event: &Event<'_>, entry: &Entry) -> bool {
    let by = |filter| entry.refused_by.contains(&filter);
    let pod = &entry.pod;
    // The filters that look beyond one node.
    let domains = by(Filter::PodTopologySpread) || by(Filter::InterPodAffinity);
    match event {
        // If another filter refuses the node now, the pod waits for events of that filter.
        Event::Node(node) => match filters::local(pod, node) {
            Ok(()) => true,
            Err(refusal) => domains || !by(refusal.filter),
        },
        Event::NodeGone => domains,
        Event::PodGone(gone) => {
            let ports = by(Filter::NodePorts) && !gone.ports.is_empty();
            let by_volumes = by(Filter::VolumeRestrictions) || by(Filter::NodeVolumeLimits);
            let has_volumes = !gone.volume_claims.is_empty() || !gone.disks.is_empty();
            let volumes = by_volumes && has_volumes;
            by(Filter::NodeResourcesFit) || ports || volumes || domains
        }
        Event::PodPlaced(_) => {
            let near = by(Filter::InterPodAffinity) && !pod.affinity.is_empty();
            // One more pod in the emptiest domain lets the other domains take more.
            near || by(Filter::PodTopologySpread)
        }
        Event::PodRelabelled => domains,
        Event::PodShrunk => by(Filter::NodeResourcesFit),
        Event::Namespace => by(Filter::InterPodAffinity),
        Event::Claim => {
            by(Filter::NodeVolumeLimits)
                || by(Filter::VolumeBinding)
                || by(Filter::VolumeZone)
                || by(Filter::DynamicResources)
        }
    }
}
