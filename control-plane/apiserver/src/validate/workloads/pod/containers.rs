//! The containers of a pod: regular, init and ephemeral containers.

use std::collections::BTreeSet;

use machinery::status::Cause;
use machinery::{name, object};
use serde_json::Value;

use super::{Kind, Pod, env, handlers, mounts, resources, security};
use crate::validate::words::field::FieldValue;
use crate::validate::words::port::{port_name, port_number};
use crate::validate::{Causes, named};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
/// Fields that only long-running containers may set (not init or ephemeral containers).
const OF_SERVICES: [&str; 4] = [
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
];
/// Fields that ephemeral containers must not set.
const NOT_OF_VISITORS: [&str; 8] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
];
const RESTART_ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
/// Upper bound of the exit codes that a rule about restarts names.
const EXIT_CODES_MAX: usize = 255;

pub(super) fn check(pod: &Pod, causes: &mut Causes) {
    let spec = &pod.spec;
    if spec.items("containers").is_empty() {
        causes.push(Cause::required(&spec.path_of("containers"), ""));
    }
    let mut names = BTreeSet::new();
    causes.each(spec, "containers", |causes, container| {
        common(pod, container, causes);
        unique(container, &mut names, causes);
        handlers::check(pod, container, causes);
        restarts(container, false, causes);
    });
    host_ports(spec, "containers", causes);
    causes.each(spec, "initContainers", |causes, container| {
        before(pod, container, &mut names, causes);
    });
    let others = names.clone();
    causes.each(spec, "ephemeralContainers", |causes, container| {
        common(pod, container, causes);
        trimmed_image(causes, container);
        unique(container, &mut names, causes);
        visitor(container, &others, causes);
    });
}

/// An init container, or a sidecar.
fn before<'a>(
    pod: &Pod,
    container: &FieldValue<'a>,
    names: &mut BTreeSet<&'a str>,
    causes: &mut Causes,
) {
    common(pod, container, causes);
    restarts(container, true, causes);
    unique(container, names, causes);
    // They run one after the other. Kubernetes reports each as if it were the first.
    let first = FieldValue::new(pod.spec.path_of("initContainers[0]"), container.value);
    unique_ports(&first, &mut BTreeSet::new(), causes);
    if container.text("restartPolicy") == "Always" {
        return handlers::check(pod, container, causes);
    }
    for key in OF_SERVICES {
        let why = "may not be set for init containers without restartPolicy=Always";
        causes.forbidden(container, key, why);
    }
    causes.each(container, "resizePolicy", |causes, policy| {
        if restarts_to_resize(policy.value) && !pod.exceptions.init_restarts {
            let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            causes.wrong(policy, "restartPolicy", why);
        }
    });
}

/// True if an init container restarts to get other resources.
pub(super) fn has_init_restarts(spec: &FieldValue) -> bool {
    let first = spec.items("initContainers").iter();
    let mut first = first.filter(|one| object::text(one, &["restartPolicy"]) != "Always");
    first.any(|one| {
        let mut policies = object::items(one, &["resizePolicy"]).iter();
        policies.any(restarts_to_resize)
    })
}

fn restarts_to_resize(policy: &Value) -> bool {
    object::text(policy, &["restartPolicy"]) == "RestartContainer"
}

/// An ephemeral container, added to a running pod.
fn visitor(container: &FieldValue, others: &BTreeSet<&str>, causes: &mut Causes) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let target = container.text("targetContainerName");
    if !target.is_empty() && !others.contains(target) {
        let field = container.path_of("targetContainerName");
        causes.push(Cause::not_found(&field, &target.into()));
    }
    for key in NOT_OF_VISITORS {
        // Go always writes `resources`, even if they are empty.
        let empty = container.map(key).is_some_and(|map| map.is_empty());
        if !(key == "resources" && empty) {
            causes.forbidden(container, key, WHY);
        }
    }
    causes.forbidden(container, "lifecycle", WHY);
    causes.each(container, "volumeMounts", |causes, mount| {
        causes.forbidden(mount, "subPath", WHY);
        causes.forbidden(mount, "subPathExpr", WHY);
    });
}

/// The rules for all containers.
fn common(pod: &Pod, container: &FieldValue, causes: &mut Causes) {
    causes.must_be_named(container, "name", name::dns1123_label);
    causes.required(container, "image");
    causes.choice(container, "terminationMessagePolicy", &MESSAGE_POLICIES);
    ports(container, causes);
    env::check(container, causes);
    mounts::check(pod, container, causes);
    causes.choice(container, "imagePullPolicy", &PULL_POLICIES);
    resources::of_container(pod, container, causes);
    resources::resize_policy(pod, container, causes);
    security::of_container(pod, container, causes);
}

fn unique<'a>(container: &FieldValue<'a>, names: &mut BTreeSet<&'a str>, causes: &mut Causes) {
    let its_name = container.text("name");
    if !names.insert(its_name) {
        causes.push(Cause::duplicate(
            &container.path_of("name"),
            &its_name.into(),
        ));
    }
}

/// This applies only to pods: images in templates may have another form.
pub(super) fn trimmed_image(causes: &mut Causes, container: &FieldValue) {
    let image = container.text("image");
    if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        causes.wrong(container, "image", why);
    }
}

/// The restart policy and its rules. Those of a container that runs before others mean nothing
/// without the policy.
fn restarts(container: &FieldValue, runs_before: bool, causes: &mut Causes) {
    const RULES: &str = "restartPolicyRules";
    const RULES_MAX: usize = 20;
    let rules = container.items(RULES).len();
    let policy = container.text("restartPolicy");
    if policy.is_empty() {
        if rules > 0 {
            let why = "must specify restartPolicy when restart rules are used";
            let field = container.path_of("restartPolicy");
            causes.push(Cause::required(&field, why));
        }
        if runs_before {
            return;
        }
    }
    causes.word(container, "restartPolicy", &RESTART_POLICIES);
    if rules > RULES_MAX {
        let field = container.path_of(RULES);
        causes.push(Cause::too_many(&field, rules, RULES_MAX));
    }
    causes.each(container, RULES, |causes, rule| {
        if !RESTART_ACTIONS.contains(&rule.text("action")) {
            causes.unknown(rule, "action", &RESTART_ACTIONS);
        }
        let Some(codes) = rule.child("exitCodes") else {
            let field = rule.path_of("exitCodes");
            return causes.push(Cause::required(&field, "must be specified"));
        };
        if !["In", "NotIn"].contains(&codes.text("operator")) {
            causes.unknown(&codes, "operator", &["In", "NotIn"]);
        }
        let values = codes.items("values").len();
        if values > EXIT_CODES_MAX {
            let field = codes.path_of("values");
            causes.push(Cause::too_many(&field, values, EXIT_CODES_MAX));
        }
    });
}

fn ports(container: &FieldValue, causes: &mut Causes) {
    let mut names = BTreeSet::new();
    causes.each(container, "ports", |causes, port| {
        let its_name = port.text("name");
        if !its_name.is_empty() {
            let wrong = port_name(its_name);
            if wrong.is_empty() && !names.insert(its_name) {
                causes.push(Cause::duplicate(&port.path_of("name"), &its_name.into()));
            }
            causes.extend(named(&port.path_of("name"), its_name, wrong));
        }
        match port.number("containerPort") {
            0 => causes.push(Cause::required(&port.path_of("containerPort"), "")),
            number => causes.extend(port_number(&port.path_of("containerPort"), number)),
        }
        match port.number("hostPort") {
            0 => {}
            number => causes.extend(port_number(&port.path_of("hostPort"), number)),
        }
        causes.choice(port, "protocol", &PROTOCOLS);
    });
}

/// Each host port is used once in the list.
fn host_ports(spec: &FieldValue, list: &str, causes: &mut Causes) {
    let mut taken = BTreeSet::new();
    causes.each(spec, list, |causes, container| {
        unique_ports(container, &mut taken, causes);
    });
}

fn unique_ports<'a>(
    container: &FieldValue<'a>,
    taken: &mut BTreeSet<(&'a str, &'a str, i64)>,
    causes: &mut Causes,
) {
    causes.each(container, "ports", |causes, port| {
        let (protocol, ip) = (port.text("protocol"), port.text("hostIP"));
        let number = port.number("hostPort");
        if number != 0 && !taken.insert((protocol, ip, number)) {
            let shown = format!("{protocol}/{ip}/{number}");
            causes.push(Cause::duplicate(&port.path_of("hostPort"), &shown.into()));
        }
    });
}

/// In the host's network, a container port is also the host port.
pub(super) fn host_network(pod: &Pod, causes: &mut Causes) {
    if !pod.host_network() {
        return;
    }
    causes.each(&pod.spec, "containers", |causes, container| {
        causes.each(container, "ports", |causes, port| {
            let (host, own) = (port.number("hostPort"), port.number("containerPort"));
            // In a template, missing host ports are valid: they are set in its pods.
            if host != own && (host != 0 || pod.kind == Kind::Pod) {
                let why = "must match `containerPort` when `hostNetwork` is true";
                let field = port.path_of("hostPort");
                causes.push(Cause::invalid(&field, &host.into(), why));
            }
        });
    });
}
