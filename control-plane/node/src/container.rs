//! The state machine of one container: waiting, running, terminated, restarted.
//!
//! The state is the container's status in the pod; nothing else is stored.

#[cfg(test)]
mod tests;

use std::time::Duration;

use machinery::object;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::hints::Exit;

/// Delay before the second restart of a container; it doubles with each further restart. The first
/// restart has no delay.
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// The longest delay.
const BACKOFF_LONGEST: Duration = Duration::from_secs(300);
/// The exit code of a container that was killed, or of which no run is known.
const KILLED: i64 = 137;
/// Delay between the end of a container and the restart of all containers of its pod. It does not
/// grow: a kubelet, which takes about as long, forgets the earlier runs.
const RESTART_ALL_AFTER: Duration = Duration::from_secs(2);
/// The action of a rule that restarts all containers of the pod.
const RESTART_ALL: &str = "RestartAllContainers";
/// The reason of a container that is restarted with all others.
const RESTARTING_ALL: &str = "RestartingAllContainers";

/// When a container that ended is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    /// Reads a restart policy; the default is `Always`.
    pub fn read(policy: &str) -> Restart {
        match policy {
            "OnFailure" => Restart::OnFailure,
            "Never" => Restart::Never,
            _ => Restart::Always,
        }
    }
}

/// The constant properties of a container.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    pub spec: &'a Value,
    /// The pod's uid; container IDs are made from it.
    pub pod: &'a str,
    pub restart: Restart,
    /// It runs before others: when it has succeeded it is done.
    pub once: bool,
    pub exit: Option<Exit>,
    /// Whether it is ready while it runs.
    pub ready: bool,
}

/// The containers of a pod and their states.
#[derive(Debug, Clone)]
pub struct Containers {
    pub init: Vec<Value>,
    pub main: Vec<Value>,
    /// Every init container has succeeded, or is a sidecar that runs.
    pub initialized: bool,
    /// The state of each container in `main`.
    pub states: Vec<State>,
    /// An init container failed for good.
    pub init_failed: bool,
    /// One of them ended so that all are restarted.
    pub restarting: bool,
    /// When one of them changes next.
    pub again: Option<Timestamp>,
}

/// A container's status after all changes due at a time.
#[derive(Debug, Clone)]
pub struct Turn {
    pub status: Value,
    /// When the next change is due.
    pub again: Option<Timestamp>,
}

/// The state of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not started yet.
    Fresh,
    Running,
    /// Ended with this exit code, for good.
    Ended(i64),
    /// Ended with this exit code, and waiting for its restart.
    Resting(i64),
}

/// The container's state, from its status.
pub fn state(plan: &Plan<'_>, status: &Value) -> State {
    let code = |at: &[&str]| object::integer(status, at);
    if object::at(status, &["state", "running"]).is_some() {
        return State::Running;
    }
    match code(&["state", "terminated", "exitCode"]) {
        Some(code) if again(plan, code) => State::Resting(code),
        Some(code) => State::Ended(code),
        None if object::text(status, &["state", "waiting", "reason"]) == RESTARTING_ALL => {
            State::Fresh
        }
        None => match code(&["lastState", "terminated", "exitCode"]) {
            Some(code) => State::Resting(code),
            None => State::Fresh,
        },
    }
}

/// The status of a container that waits for `reason`.
pub fn waiting(plan: &Plan<'_>, reason: &str) -> Value {
    base(plan, 0, json!({"waiting": {"reason": reason}}))
}

/// Makes all changes due by `now`: starts the container, ends it, restarts it. The loop terminates
/// even if the container ends at once, because only the first restart has no delay.
pub fn advance(plan: &Plan<'_>, status: &Value, now: Timestamp) -> Turn {
    let mut turn = changed(plan, status.clone(), now);
    set_resources(plan, &mut turn.status);
    turn
}

fn changed(plan: &Plan<'_>, mut status: Value, now: Timestamp) -> Turn {
    loop {
        status = match state(plan, &status) {
            State::Fresh => {
                let restarts = object::integer(&status, &["restartCount"]).unwrap_or(0);
                start(plan, restarts, last(&status), now)
            }
            State::Running => {
                let begun = time(&status, &["state", "running", "startedAt"]).unwrap_or(now);
                match plan.exit {
                    Some(exit) if begun.plus(exit.after) <= now => {
                        end(plan, &status, begun, begun.plus(exit.after), exit.code)
                    }
                    Some(exit) => return turn(status, Some(begun.plus(exit.after))),
                    None => return turn(status, None),
                }
            }
            State::Ended(_) => return turn(status, None),
            State::Resting(_) => {
                let restarts = object::integer(&status, &["restartCount"]).unwrap_or(0);
                let last = last(&status);
                let ended = time(&last, &["finishedAt"]).unwrap_or(now);
                let due = ended.plus(rest(restarts));
                if due > now {
                    return turn(crash_loop(plan, restarts, &last), Some(due));
                }
                start(plan, restarts + 1, last, now)
            }
        };
    }
}

/// When all containers of the pod are restarted because this one ended; `None` if they are not.
pub fn restarts_all_at(spec: &Value, status: &Value) -> Option<Timestamp> {
    let code = object::integer(status, &["state", "terminated", "exitCode"])?;
    let ended = time(status, &["state", "terminated", "finishedAt"])?;
    action(spec, code)
        .filter(|action| *action == RESTART_ALL)
        .map(|_| ended.plus(RESTART_ALL_AFTER))
}

/// True if a rule of the container may restart all containers of the pod.
pub fn may_restart_all(spec: &Value) -> bool {
    let mut rules = object::items(spec, &["restartPolicyRules"]).iter();
    rules.any(|rule| object::text(rule, &["action"]) == RESTART_ALL)
}

/// The status of a container that is restarted with all others, in whatever state it was.
pub fn reset(plan: &Plan<'_>, status: &Value) -> Value {
    if state(plan, status) == State::Fresh {
        return status.clone();
    }
    let message = "The container is removed because RestartAllContainers in place";
    let restarts = object::integer(status, &["restartCount"]).unwrap_or(0);
    let waiting = json!({"waiting": {"reason": RESTARTING_ALL, "message": message}});
    let mut reset = base(plan, restarts + 1, waiting);
    reset["lastState"] = json!({"terminated": {
        "exitCode": KILLED, "reason": RESTARTING_ALL, "message": message,
    }});
    reset
}

/// Stops the container from outside: exit code 0 or 137 if it ran; 137 if it never did.
pub fn stop(plan: &Plan<'_>, status: &Value, now: Timestamp, killed: bool) -> Value {
    let mut stopped = match state(plan, status) {
        State::Running => {
            let begun = time(status, &["state", "running", "startedAt"]).unwrap_or(now);
            let code = if killed { KILLED } else { 0 };
            end(plan, status, begun, now, code)
        }
        State::Ended(_) => status.clone(),
        State::Resting(_) => {
            let restarts = object::integer(status, &["restartCount"]).unwrap_or(0);
            base(plan, restarts, json!({"terminated": last(status)}))
        }
        State::Fresh => {
            let terminated = json!({
                "exitCode": KILLED, "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the pod was terminated",
            });
            base(plan, 0, json!({"terminated": terminated}))
        }
    };
    set_resources(plan, &mut stopped);
    stopped
}

/// The delay before restart number `restarts + 1`.
fn rest(restarts: i64) -> Duration {
    match restarts {
        0 => Duration::ZERO,
        n => {
            let doubled = u32::try_from(n - 1).unwrap_or(u32::MAX).min(16);
            (BACKOFF_FIRST * 2_u32.pow(doubled)).min(BACKOFF_LONGEST)
        }
    }
}

/// True if a container that ended with this code is restarted alone: by a rule of its own, or else
/// by the policy.
fn again(plan: &Plan<'_>, code: i64) -> bool {
    match (action(plan.spec, code), plan.restart) {
        (Some(RESTART_ALL), _) => false,
        _ if plan.once && code == 0 => false,
        (Some("Restart"), _) | (_, Restart::Always) => true,
        (_, Restart::OnFailure) => code != 0,
        (_, Restart::Never) => false,
    }
}

/// What the first rule of a container about an exit code says.
fn action(spec: &Value, code: i64) -> Option<&str> {
    let mut rules = object::items(spec, &["restartPolicyRules"]).iter();
    let rule = rules.find(|rule| {
        let listed = object::items(rule, &["exitCodes", "values"]).contains(&code.into());
        match object::text(rule, &["exitCodes", "operator"]) {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    });
    rule.map(|rule| object::text(rule, &["action"]))
}

fn start(plan: &Plan<'_>, restarts: i64, last: Value, now: Timestamp) -> Value {
    let running = json!({"running": {"startedAt": now.to_seconds()}});
    let mut status = base(plan, restarts, running);
    status["containerID"] = run_name(plan, restarts).into();
    status["ready"] = plan.ready.into();
    status["started"] = true.into();
    if !last.is_null() {
        status["lastState"] = json!({"terminated": last});
    }
    status
}

fn end(plan: &Plan<'_>, status: &Value, begun: Timestamp, now: Timestamp, code: i64) -> Value {
    let restarts = object::integer(status, &["restartCount"]).unwrap_or(0);
    let name = run_name(plan, restarts);
    let terminated = json!({
        "exitCode": code,
        "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": begun.to_seconds(),
        "finishedAt": now.to_seconds(),
        "containerID": name,
    });
    let mut ended = base(plan, restarts, json!({"terminated": terminated}));
    ended["containerID"] = name.into();
    if let Some(last) = status.get("lastState") {
        ended["lastState"] = last.clone();
    }
    ended
}

fn crash_loop(plan: &Plan<'_>, restarts: i64, last: &Value) -> Value {
    let name = object::text(plan.spec, &["name"]);
    let wait = rest(restarts).as_secs();
    let message = format!("back-off {wait}s restarting failed container={name}");
    let reason = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
    let mut status = base(plan, restarts, reason);
    status["containerID"] = run_name(plan, restarts).into();
    status["lastState"] = json!({"terminated": last});
    status
}

fn base(plan: &Plan<'_>, restarts: i64, state: Value) -> Value {
    let image = object::text(plan.spec, &["image"]);
    json!({
        "name": object::text(plan.spec, &["name"]),
        "image": image,
        "imageID": if state.get("waiting").is_some() && restarts == 0 { "" } else { image },
        "ready": false,
        "started": false,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    })
}

/// Sets what a container that has run has, and what is set aside for it. A resize changes both at
/// once.
fn set_resources(plan: &Plan<'_>, status: &mut Value) {
    if status.get("containerID").is_none() {
        return;
    }
    let given = object::at(plan.spec, &["resources"]).cloned();
    let given = given.unwrap_or_else(|| json!({}));
    match given
        .get("requests")
        .filter(|requests| **requests != json!({}))
    {
        Some(requests) => object::set(status, &["allocatedResources"], requests.clone()),
        None => drop(object::remove(status, &["allocatedResources"])),
    }
    object::set(status, &["resources"], given);
}

/// The container ID of a run. The same run always has the same ID.
fn run_name(plan: &Plan<'_>, restarts: i64) -> String {
    let name = object::text(plan.spec, &["name"]);
    format!("hollow://{}/{name}/{restarts}", plan.pod)
}

/// The terminated state of the last run.
fn last(status: &Value) -> Value {
    let now = object::at(status, &["state", "terminated"]);
    let before = object::at(status, &["lastState", "terminated"]);
    now.or(before).cloned().unwrap_or(Value::Null)
}

fn time(value: &Value, path: &[&str]) -> Option<Timestamp> {
    Timestamp::parse(object::text(value, path))
}

fn turn(status: Value, again: Option<Timestamp>) -> Turn {
    Turn { status, again }
}
