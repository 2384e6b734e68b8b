//! What of the host a pod reaches: namespaces, ports, addresses of probes, kernel parameters, and
//! processes.

use std::collections::BTreeSet;

use machinery::object;
use serde_json::Value;

use super::Violation;
use super::pod::{Pod, containers_named, context, flag, name, plural, present, quoted};

/// Parameters of the kernel that affect a pod alone, with the minor version since which they are
/// allowed.
const SYSCTLS: [(i64, &str); 12] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

/// Namespaces of the host.
pub(super) fn namespaces(pod: &Pod) -> Option<Violation> {
    let shared: Vec<_> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|key| flag(pod.spec, key))
        .map(|key| format!("{key}=true"))
        .collect();
    (!shared.is_empty()).then(|| Violation {
        reason: "host namespaces",
        detail: shared.join(", "),
    })
}

/// Ports of the host.
pub(super) fn ports(pod: &Pod) -> Option<Violation> {
    let mut forbidden = BTreeSet::new();
    let wrong = pod.containers_where(|container| {
        let ports = object::items(container, &["ports"]).iter();
        let used = ports
            .filter_map(|port| object::integer(port, &["hostPort"]))
            .filter(|port| *port != 0)
            .map(|port| port.to_string());
        let used: Vec<_> = used.collect();
        let is_wrong = !used.is_empty();
        forbidden.extend(used);
        is_wrong
    });
    if wrong.is_empty() {
        return None;
    }
    let verb = plural(wrong.len(), "uses", "use");
    let what = plural(forbidden.len(), "hostPort", "hostPorts");
    // They are sorted as texts.
    let forbidden: Vec<_> = forbidden.into_iter().collect();
    let (wrong, forbidden) = (containers_named(&wrong), forbidden.join(", "));
    Some(Violation {
        reason: "hostPort",
        detail: format!("{wrong} {verb} {what} {forbidden}"),
    })
}

/// Probes and handlers that name a host to connect to, which is done from the host.
pub(super) fn handlers(pod: &Pod) -> Option<Violation> {
    let mut hosts = BTreeSet::new();
    let mut wrong = BTreeSet::new();
    for container in pod.containers() {
        let lifecycle = container.get("lifecycle").unwrap_or(&Value::Null);
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"];
        let probes = probes.into_iter().filter_map(|key| present(container, key));
        let handlers = ["postStart", "preStop"];
        let handlers = handlers
            .into_iter()
            .filter_map(|key| present(lifecycle, key));
        for handler in probes.chain(handlers) {
            for key in ["httpGet", "tcpSocket"] {
                let host = object::text(handler, &[key, "host"]);
                if !host.is_empty() {
                    hosts.insert(host);
                    wrong.insert(name(container));
                }
            }
        }
    }
    if wrong.is_empty() {
        return None;
    }
    const REASON: &str = "probe or lifecycle host";
    let wrong: Vec<_> = wrong.into_iter().collect();
    let verb = plural(wrong.len(), "uses", "use");
    let what = plural(hosts.len(), REASON, "probe or lifecycle hosts");
    let (wrong, hosts) = (containers_named(&wrong), quoted(hosts));
    Some(Violation {
        reason: REASON,
        detail: format!("{wrong} {verb} {what} {hosts}"),
    })
}

/// Parameters of the kernel that affect more than the pod, as of a minor version.
pub(super) fn sysctls(pod: &Pod, minor: i64) -> Option<Violation> {
    let all = object::items(pod.spec, &["securityContext", "sysctls"]);
    let is_safe = |name: &str| {
        let mut all = SYSCTLS.iter();
        all.any(|(since, safe)| *safe == name && *since <= minor)
    };
    let forbidden: Vec<_> = all.iter().map(name).filter(|name| !is_safe(name)).collect();
    (!forbidden.is_empty()).then(|| Violation {
        reason: "forbidden sysctls",
        detail: forbidden.join(", "),
    })
}

/// Containers that are processes of a Windows host.
pub(super) fn processes(pod: &Pod) -> Option<Violation> {
    let is_wrong = |of: &Value| {
        let options = context(of).and_then(|context| context.get("windowsOptions"));
        options.is_some_and(|options| flag(options, "hostProcess"))
    };
    let mut setters = Vec::new();
    if is_wrong(pod.spec) {
        setters.push("pod".to_owned());
    }
    let wrong = pod.containers_where(is_wrong);
    if !wrong.is_empty() {
        setters.push(containers_named(&wrong));
    }
    if setters.is_empty() {
        return None;
    }
    let setters = setters.join(" and ");
    Some(Violation {
        reason: "hostProcess",
        detail: format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    })
}
