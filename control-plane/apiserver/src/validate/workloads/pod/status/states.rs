//! The states of a pod's containers: which may follow which, and what they say of users and devices.

use std::collections::{BTreeMap, BTreeSet};

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::workloads::pod::security::ids;

/// The lists of states, and those of the containers that they are about.
const LISTS: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    (VISITORS, "ephemeralContainers"),
];
/// Ephemeral containers are never restarted, and have no resources.
const VISITORS: &str = "ephemeralContainerStatuses";

const RESTART_ALL: &str = "RestartAllContainers";

const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
/// Upper bound of a text about a device, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// A container that has ended runs again only if its pod lets it.
pub(super) fn transitions(
    spec: &FieldValue,
    before: &FieldValue,
    status: &FieldValue,
    causes: &mut Causes,
) {
    let restarts_all = ["initContainers", "containers"].into_iter().any(|list| {
        let mut rules = spec
            .each(list)
            .flat_map(|one| one.each("restartPolicyRules"));
        rules.any(|rule| rule.text("action") == RESTART_ALL)
    });
    for (list, containers) in LISTS {
        if restarts_all && list != VISITORS {
            continue;
        }
        let containers = by_name(spec, containers);
        let alive = status.items(list).iter().filter(|one| ended(one).is_none());
        let alive: BTreeSet<&str> = alive.map(|one| object::text(one, &["name"])).collect();
        causes.each(before, list, |causes, old| {
            let Some(exit_code) = ended(old.value) else {
                return;
            };
            let name = old.text("name");
            let container = containers.get(name).filter(|_| list != VISITORS);
            let may_restart = container.is_some_and(|one| restarts(spec, one, exit_code));
            if !may_restart && alive.contains(name) {
                let why = "may not be transitioned to non-terminated state";
                causes.push(Cause::forbidden(&old.path_of("state"), why));
            }
        });
    }
}

/// The containers of a list by their names; of two with one name, the first one counts.
fn by_name<'a>(spec: &FieldValue<'a>, list: &str) -> BTreeMap<&'a str, &'a Value> {
    let mut all = BTreeMap::new();
    for one in spec.items(list) {
        all.entry(object::text(one, &["name"])).or_insert(one);
    }
    all
}

/// The exit code of a container that has ended.
fn ended(state: &Value) -> Option<i64> {
    let ended = object::at(state, &["state", "terminated"])?;
    (!ended.is_null()).then(|| object::integer(ended, &["exitCode"]).unwrap_or(0))
}

/// True if a container starts again after it has ended with this code: its rules come first, then
/// its own policy, then the pod's.
fn restarts(spec: &FieldValue, container: &Value, exit_code: i64) -> bool {
    let container = FieldValue::new("", container);
    let own = container.text("restartPolicy");
    let applies = |rule: &FieldValue| {
        let Some(codes) = rule.child("exitCodes") else {
            return false;
        };
        let listed = codes.items("values").iter();
        let is_listed = listed
            .filter_map(|code| code.as_i64())
            .any(|code| code == exit_code);
        match codes.text("operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    let rule = container.each("restartPolicyRules").find(applies);
    if !own.is_empty()
        && rule.is_some_and(|rule| ["Restart", RESTART_ALL].contains(&rule.text("action")))
    {
        return true;
    }
    let policy = if own.is_empty() {
        spec.text("restartPolicy")
    } else {
        own
    };
    match policy {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

/// The users that the containers' processes run as.
pub(super) fn users(spec: &FieldValue, status: &FieldValue, causes: &mut Causes) {
    let system = object::text(spec.value, &["os", "name"]);
    for (list, _) in LISTS {
        causes.each(status, list, |causes, one| {
            causes.below(one, "user", |causes, user| match system {
                "windows" => causes.forbidden(user, "linux", "cannot be set for a windows pod"),
                "linux" | "" => causes.below(user, "linux", |causes, linux| {
                    ids(linux, &["uid", "gid"], causes);
                }),
                _ => {}
            });
        });
    }
}

/// The health of devices: of those that the container has requested.
pub(super) fn resources(spec: &FieldValue, status: &FieldValue, causes: &mut Causes) {
    const KEY: &str = "allocatedResourcesStatus";
    for (list, containers) in LISTS {
        let containers = by_name(spec, containers);
        let claims = claims_of(&containers);
        causes.each(status, list, |causes, one| {
            if list == VISITORS {
                return causes.forbidden(one, KEY, "must not be specified in container status");
            }
            let name = one.text("name");
            causes.each(one, KEY, |causes, resource| {
                // Kubernetes' agents of nodes may report containers that the spec does not have.
                if let Some(container) = containers.get(name) {
                    let is_claimed = |what: &str| claims.contains(&(name, what.to_owned()));
                    allocated(container, is_claimed, resource, causes);
                }
                devices(resource, causes);
            });
        });
    }
}

/// The claims that containers name, as their status calls them, each with the container's name.
fn claims_of<'a>(containers: &BTreeMap<&'a str, &'a Value>) -> BTreeSet<(&'a str, String)> {
    let called = |claim: &Value| {
        let [name, request] = ["name", "request"].map(|key| object::text(claim, &[key]));
        match request {
            "" => format!("claim:{name}"),
            request => format!("claim:{name}/{request}"),
        }
    };
    let claims = containers.iter().flat_map(|(name, container)| {
        let claims = object::items(container, &["resources", "claims"]).iter();
        claims.map(move |claim| (*name, called(claim)))
    });
    claims.collect()
}

fn allocated(
    container: &Value,
    is_claimed: impl Fn(&str) -> bool,
    resource: &FieldValue,
    causes: &mut Causes,
) {
    let name = resource.text("name");
    let (found, why) = if name.starts_with("claim:") {
        let why = "must match one of the container's resource claims in a format \
                   'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
        (is_claimed(name), why)
    } else {
        let requested = object::at(container, &["resources", "requests", name]);
        let why = "must match one of the container's resource requests";
        (requested.is_some(), why)
    };
    if !found {
        causes.wrong_text(resource, "name", why);
    }
}

fn devices(resource: &FieldValue, causes: &mut Causes) {
    let mut ids = BTreeSet::new();
    causes.each(resource, "resources", |causes, device| {
        if !HEALTH.contains(&device.text("health")) {
            causes.unknown(device, "health", &HEALTH);
        }
        if device.has("message") && device.text("message").is_empty() {
            let why = "must be non-empty if specified";
            causes.push(Cause::required(&device.path_of("message"), why));
        }
        causes.at_most(device, "message", MESSAGE_BYTES_MAX);
        let id = device.text("resourceID");
        if !ids.insert(id) {
            causes.push(Cause::duplicate(&device.path_of("resourceID"), &id.into()));
        }
    });
}
