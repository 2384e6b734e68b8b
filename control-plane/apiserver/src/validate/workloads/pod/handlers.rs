//! Probes of a container, and its lifecycle hooks.

use machinery::status::Cause;

use super::Pod;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::words::port::{port_name, port_number};

/// The types of handlers, in the order of checks.
const PROBES: [(&str, Check); 4] = [
    ("exec", exec),
    ("httpGet", http_get),
    ("tcpSocket", port),
    ("grpc", port),
];
const HOOKS: [(&str, Check); 4] = [
    ("exec", exec),
    ("httpGet", http_get),
    ("tcpSocket", port),
    ("sleep", sleep),
];
const SCHEMES: [&str; 2] = ["HTTP", "HTTPS"];
const COUNTS: [&str; 5] = [
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
];
const GRACE: &str = "terminationGracePeriodSeconds";

/// Checks a handler; the number is the pod's grace period.
type Check = fn(&FieldValue, Option<i64>, &mut Causes);

pub(super) fn check(pod: &Pod, container: &FieldValue, causes: &mut Causes) {
    let grace = pod.spec.integer(GRACE);
    causes.below(container, "lifecycle", |causes, lifecycle| {
        for hook in ["postStart", "preStop"] {
            causes.below(lifecycle, hook, |causes, hook| {
                handler(hook, &HOOKS, grace, causes);
            });
        }
        if lifecycle.has("stopSignal") && !pod.spec.has("os") {
            let why = "may not be set for containers with empty `spec.os.name`";
            causes.forbidden(lifecycle, "stopSignal", why);
        }
    });
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        causes.below(container, key, |causes, probe| {
            handler(probe, &PROBES, grace, causes);
            for count in COUNTS {
                causes.not_negative(probe, count);
            }
            if probe.integer(GRACE).is_some_and(|seconds| seconds <= 0) {
                causes.wrong(probe, GRACE, "must be greater than 0");
            }
            if key == "readinessProbe" {
                if probe.has(GRACE) {
                    let why = "must not be set for readinessProbes";
                    causes.wrong(probe, GRACE, why);
                }
            } else if probe.number("successThreshold") != 1 {
                causes.wrong(probe, "successThreshold", "must be 1");
            }
        });
    }
}

fn handler(at: &FieldValue, known: &[(&str, Check)], grace: Option<i64>, causes: &mut Causes) {
    let mut found = false;
    for (key, check) in known {
        let Some(call) = at.child(key) else {
            continue;
        };
        if found {
            let why = "may not specify more than 1 handler type";
            causes.push(Cause::forbidden(&call.path, why));
            continue;
        }
        found = true;
        check(&call, grace, causes);
    }
    if !found {
        causes.push(Cause::required(&at.path, "must specify a handler type"));
    }
}

fn exec(call: &FieldValue, _: Option<i64>, causes: &mut Causes) {
    if call.items("command").is_empty() {
        causes.push(Cause::required(&call.path_of("command"), ""));
    }
}

fn http_get(call: &FieldValue, grace: Option<i64>, causes: &mut Causes) {
    causes.required(call, "path");
    port(call, grace, causes);
    if !SCHEMES.contains(&call.text("scheme")) {
        causes.unknown(call, "scheme", &SCHEMES);
    }
    let field = call.path_of("httpHeaders");
    causes.each(call, "httpHeaders", |causes, header| {
        let name = header.text("name");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            causes.push(Cause::invalid(&field, &name.into(), why));
        }
    });
}

/// A port, by number or by name.
fn port(call: &FieldValue, _: Option<i64>, causes: &mut Causes) {
    let field = call.path_of("port");
    match call.get("port").and_then(|port| port.as_str()) {
        Some(name) => causes.extend(crate::validate::named(&field, name, port_name(name))),
        None => causes.extend(port_number(&field, call.number("port"))),
    }
}

fn sleep(call: &FieldValue, grace: Option<i64>, causes: &mut Causes) {
    let seconds = call.number("seconds");
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let why =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        causes.push(Cause::invalid(&call.path, &seconds.into(), &why));
    }
}
