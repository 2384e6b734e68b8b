//! A node's decisions about a pod: a pure function of the pod and the time.
//!
//! The first decision makes a pod Pending, with its containers being created; the next starts them
//! once the pod's claims are bound: init containers one after the other, then the others. Later
//! decisions end and restart containers. For a pod that is being deleted they stop its containers,
//! write the status, and delete the pod.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use machinery::api::{Call, DeleteOptions, PatchForm};
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::address::PodAddresses;
use crate::container::{self, Containers, Plan, Restart, State};
use crate::{hints, status};

/// The annotation of a claim that is bound to its volume.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// A decision about a pod.
#[derive(Clone, Default)]
pub struct Decision {
    /// The calls to make, in order.
    pub calls: Vec<Call>,
    /// When to decide again even if nothing happens.
    pub again: Option<Timestamp>,
}

/// Decides about a pod on this node.
pub fn decide(pod: &Object, now: Timestamp, addresses: PodAddresses<'_>) -> Decision {
    let phase = object::text(pod, &["status", "phase"]);
    let finished = phase == "Succeeded" || phase == "Failed";
    if object::is_deleting(pod) {
        return finish(pod, finished, now, addresses);
    }
    if finished {
        return Decision::default();
    }
    if object::at(pod, &["status", "startTime"]).is_none() {
        let new = status::of(pod, &created(pod), "Pending", None, now, addresses);
        return write(pod, new, None);
    }
    let deadline = deadline(pod);
    let containers = run(pod, now);
    if deadline.is_some_and(|deadline| deadline <= now) {
        let stopped = stop(pod, &containers, now, true);
        let mut new = status::of(pod, &stopped, "Failed", None, now, addresses);
        new["reason"] = "DeadlineExceeded".into();
        new["message"] = "Pod was active on the node longer than the specified deadline".into();
        return write(pod, new, None);
    }
    let phase = status::phase(&containers);
    let containers = match phase {
        // Sidecars end together with the main containers.
        "Succeeded" | "Failed" => without_sidecars(pod, containers, now),
        _ => containers,
    };
    let again = [containers.again, deadline].into_iter().flatten().min();
    let again = again.filter(|_| phase != "Succeeded" && phase != "Failed");
    let new = status::of(pod, &containers, phase, Some(addresses.pod), now, addresses);
    let mut decision = write(pod, new, again);
    if !decision.calls.is_empty() && !status::has_started(pod) {
        decision.calls.splice(0..0, claims(pod));
    }
    decision
}

/// The answer to a call that reads a claim of a pod; an error if the scheduler does not count the
/// claim as bound. The calls after it are made later then.
pub fn bound(answer: Result<Object, Status>) -> Result<Object, Status> {
    // The pod is there, whatever the claim is.
    let claim = answer.map_err(|error| Status::unavailable(error.message))?;
    let has_volume = !object::text(&claim, &["spec", "volumeName"]).is_empty();
    let is_bound = has_volume && object::annotation(&claim, BIND_COMPLETED).is_some();
    if is_bound && object::text(&claim, &["status", "phase"]) != "Lost" {
        return Ok(claim);
    }
    let name = object::name(&claim);
    Err(Status::unavailable(format!(
        "the claim {name:?} is not bound"
    )))
}

/// A pod that is being deleted: its containers stop within the grace period, then it is deleted.
fn finish(pod: &Object, finished: bool, now: Timestamp, addresses: PodAddresses<'_>) -> Decision {
    let grace = object::deletion_grace_seconds(pod).unwrap_or(0).max(0);
    let grace = Duration::from_secs(grace.unsigned_abs());
    let stop_after = hints::stop_after(pod);
    let mut decision = Decision::default();
    if !finished {
        // `deletionTimestamp` is the end of the grace period, counted from the delete call.
        let end = object::deletion_timestamp(pod).and_then(Timestamp::parse);
        let left = grace.saturating_sub(stop_after);
        if let Some(end) = end
            && end.since(now) > left
        {
            decision.again = Some(now.plus(end.since(now) - left));
            return decision;
        }
        let containers = read(pod);
        let stopped = stop(pod, &containers, now, stop_after > grace);
        let phase = status::phase_when_stopped(&stopped);
        let ip = object::at(pod, &["status", "podIP"]).map(|_| addresses.pod);
        let new = status::of(pod, &stopped, phase, ip, now, addresses);
        decision = write(pod, new, None);
    }
    // A pod with a grace period of 0 is deleted already; only finalizers still hold it.
    if !grace.is_zero() {
        decision.calls.push(Call::Delete {
            kind: pods(),
            namespace: object::namespace(pod).into(),
            name: object::name(pod).into(),
            options: DeleteOptions {
                uid: object::uid(pod).into(),
                grace_seconds: Some(0),
                ..DeleteOptions::default()
            },
        });
    }
    decision
}

/// The calls that read the claims of a pod.
fn claims(pod: &Object) -> Vec<Call> {
    let volumes = object::items(pod, &["spec", "volumes"]).iter();
    let names = volumes.filter_map(|volume| {
        if volume.get("ephemeral").is_some() {
            let volume = object::text(volume, &["name"]);
            return Some(format!("{}-{volume}", object::name(pod)));
        }
        let claim = object::text(volume, &["persistentVolumeClaim", "claimName"]);
        (!claim.is_empty()).then(|| claim.to_owned())
    });
    let kind = schema::kind("", "v1", "PersistentVolumeClaim").expect("the table has claims");
    let call = |name| Call::Get {
        kind: Arc::clone(kind),
        namespace: object::namespace(pod).to_owned(),
        name,
    };
    names.map(call).collect()
}

/// The call that writes the pod's status, if it differs.
fn write(pod: &Object, new: Value, again: Option<Timestamp>) -> Decision {
    let calls = if status::differs(pod, &new) {
        let mut patch = new;
        for list in ["podIPs", "hostIPs"] {
            status::replace(&mut patch, list);
        }
        vec![Call::Patch {
            kind: pods(),
            namespace: object::namespace(pod).into(),
            name: object::name(pod).into(),
            subresource: "status",
            form: PatchForm::Strategic,
            patch: json!({"metadata": {"uid": object::uid(pod)}, "status": patch}),
        }]
    } else {
        Vec::new()
    };
    Decision { calls, again }
}

/// The containers after all changes due by `now`.
fn run(pod: &Object, now: Timestamp) -> Containers {
    let mut all = read(pod);
    if restart_all_at(pod, &all).is_some_and(|due| due <= now) {
        reset(pod, &mut all);
    }
    let (mut open, mut again) = (true, None);
    for (spec, status) in specs(pod, "initContainers").iter().zip(&mut all.init) {
        if !open {
            break;
        }
        let plan = plan(pod, spec, true);
        let turn = container::advance(&plan, status, now);
        *status = turn.status;
        again = earlier(again, turn.again);
        let state = container::state(&plan, status);
        if state == State::Ended(0) {
            status["ready"] = true.into();
        }
        let sidecar = is_sidecar(spec);
        open = state == State::Ended(0) || (sidecar && state == State::Running);
        all.init_failed = !sidecar && matches!(state, State::Ended(code) if code != 0);
    }
    all.initialized = open;
    for (at, spec) in specs(pod, "containers").iter().enumerate() {
        let plan = plan(pod, spec, false);
        if open {
            let turn = container::advance(&plan, &all.main[at], now);
            all.main[at] = turn.status;
            again = earlier(again, turn.again);
        }
        all.states[at] = container::state(&plan, &all.main[at]);
    }
    let restart = restart_all_at(pod, &all);
    all.restarting = restart.is_some();
    all.init_failed &= !all.restarting;
    all.again = earlier(again, restart);
    all
}

/// When all containers are restarted because one of them ended; `None` if they are not.
fn restart_all_at(pod: &Object, all: &Containers) -> Option<Timestamp> {
    let init = specs(pod, "initContainers").iter().zip(&all.init);
    let main = specs(pod, "containers").iter().zip(&all.main);
    let times = init.chain(main);
    let times = times.filter_map(|(spec, status)| container::restarts_all_at(spec, status));
    times.min()
}

/// Makes all containers wait for their first start again.
fn reset(pod: &Object, all: &mut Containers) {
    for (spec, status) in specs(pod, "initContainers").iter().zip(&mut all.init) {
        *status = container::reset(&plan(pod, spec, true), status);
    }
    for (spec, status) in specs(pod, "containers").iter().zip(&mut all.main) {
        *status = container::reset(&plan(pod, spec, false), status);
    }
}

/// The containers after a stop, whatever state they were in.
fn stop(pod: &Object, containers: &Containers, now: Timestamp, killed: bool) -> Containers {
    let mut all = containers.clone();
    for (spec, status) in specs(pod, "initContainers").iter().zip(&mut all.init) {
        *status = container::stop(&plan(pod, spec, true), status, now, killed);
    }
    for (at, spec) in specs(pod, "containers").iter().enumerate() {
        let plan = plan(pod, spec, false);
        all.main[at] = container::stop(&plan, &all.main[at], now, killed);
        all.states[at] = container::state(&plan, &all.main[at]);
    }
    all
}

/// The containers with the sidecars stopped.
fn without_sidecars(pod: &Object, containers: Containers, now: Timestamp) -> Containers {
    let mut all = containers;
    for (spec, status) in specs(pod, "initContainers").iter().zip(&mut all.init) {
        if is_sidecar(spec) {
            *status = container::stop(&plan(pod, spec, true), status, now, false);
        }
    }
    all
}

/// The containers, from the pod's status.
fn read(pod: &Object) -> Containers {
    let read = |specs: &[Value], list: &str, init: bool| -> Vec<Value> {
        let there = object::items(pod, &["status", list]);
        let of = |spec: &Value| {
            let name = object::text(spec, &["name"]);
            let has = there
                .iter()
                .find(|one| object::text(one, &["name"]) == name);
            let first = waiting_reason(pod, init);
            has.cloned()
                .unwrap_or_else(|| container::waiting(&plan(pod, spec, init), first))
        };
        specs.iter().map(of).collect()
    };
    let init = read(specs(pod, "initContainers"), "initContainerStatuses", true);
    let main = read(specs(pod, "containers"), "containerStatuses", false);
    let states = specs(pod, "containers").iter().zip(&main);
    let states = states.map(|(spec, status)| container::state(&plan(pod, spec, false), status));
    Containers {
        initialized: init.is_empty(),
        states: states.collect(),
        init,
        main,
        init_failed: false,
        restarting: false,
        again: None,
    }
}

/// The containers of a new pod.
fn created(pod: &Object) -> Containers {
    let mut all = read(pod);
    for (spec, status) in specs(pod, "initContainers").iter().zip(&mut all.init) {
        *status = container::waiting(&plan(pod, spec, true), waiting_reason(pod, true));
    }
    for (spec, status) in specs(pod, "containers").iter().zip(&mut all.main) {
        *status = container::waiting(&plan(pod, spec, false), waiting_reason(pod, false));
    }
    all
}

/// Why containers wait: for init containers, if there are any, else for their creation.
fn waiting_reason(pod: &Object, init: bool) -> &'static str {
    match init || specs(pod, "initContainers").is_empty() {
        false => "PodInitializing",
        true if init => "PodInitializing",
        true => "ContainerCreating",
    }
}

fn plan<'a>(pod: &'a Object, spec: &'a Value, init: bool) -> Plan<'a> {
    let policy = match object::text(spec, &["restartPolicy"]) {
        "" => object::text(pod, &["spec", "restartPolicy"]),
        own => own,
    };
    let exit = if init && is_sidecar(spec) {
        None
    } else {
        hints::exit(pod, spec, init)
    };
    Plan {
        spec,
        pod: object::uid(pod),
        restart: Restart::read(policy),
        once: init && !is_sidecar(spec),
        exit,
        ready: (!init || is_sidecar(spec)) && hints::may_be_ready(pod),
    }
}

/// When the pod exceeds its `activeDeadlineSeconds`.
fn deadline(pod: &Object) -> Option<Timestamp> {
    let seconds = object::integer(pod, &["spec", "activeDeadlineSeconds"])?;
    let start = Timestamp::parse(object::text(pod, &["status", "startTime"]))?;
    Some(start.plus(Duration::from_secs(u64::try_from(seconds).ok()?)))
}

fn is_sidecar(spec: &Value) -> bool {
    object::text(spec, &["restartPolicy"]) == "Always"
}

fn specs<'a>(pod: &'a Object, list: &str) -> &'a [Value] {
    object::items(pod, &["spec", list])
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

fn pods() -> Arc<Kind> {
    schema::kind("", "v1", "Pod")
        .expect("the table has pods")
        .clone()
}
