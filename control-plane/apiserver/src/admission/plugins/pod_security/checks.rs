//! The checks of the Pod Security Standards: which of them apply at which level and version, and
//! what a pod violates.
//!
//! The checks themselves are in `containers` (what containers may do), `host` (what of the host they
//! reach), `profiles` (AppArmor, seccomp, SELinux) and `volumes`.

mod containers;
mod host;
mod pod;
mod profiles;
#[cfg(test)]
mod tests;
mod volumes;

use super::level::{Level, Standard, Version};
pub(super) use pod::Pod;

/// What a pod violates.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Violations(Vec<Violation>);

/// How a pod violates one check.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    /// What is forbidden, such as `hostPort`.
    reason: &'static str,
    /// The parts of the pod that do it.
    detail: String,
}

/// A check of the standards.
struct Check {
    /// The level that it begins at.
    level: Level,
    /// Its revisions, each with the minor version that it begins at.
    revisions: &'static [(i64, Run)],
    /// The check of the baseline that this stricter one takes the place of.
    replaces: Option<&'static str>,
    /// Kubernetes' name of it. Violations are reported in the order of names, those of the baseline
    /// first.
    name: &'static str,
}

type Run = fn(&Pod) -> Option<Violation>;

/// All checks, in the order of reports.
static CHECKS: [Check; 19] = [
    Check::baseline("appArmorProfile", &[(0, profiles::app_armor)]),
    Check::baseline(
        "capabilities_baseline",
        &[(0, containers::added_capabilities)],
    ),
    Check::baseline("hostNamespaces", &[(0, host::namespaces)]),
    Check::baseline("hostPathVolumes", &[(0, volumes::host_path)]),
    Check::baseline("hostPorts", &[(0, host::ports)]),
    Check::baseline("hostProbesAndHostLifecycle", &[(34, host::handlers)]),
    Check::baseline("privileged", &[(0, containers::privileged)]),
    Check::baseline(
        "procMount",
        &[
            (0, containers::proc_mount),
            (35, |pod| pod.unless_user_namespace(containers::proc_mount)),
        ],
    ),
    Check::baseline(
        "seLinuxOptions",
        &[
            (0, |pod| profiles::se_linux(pod, false)),
            (31, |pod| profiles::se_linux(pod, true)),
        ],
    ),
    Check::baseline(
        "seccompProfile_baseline",
        &[(0, profiles::seccomp_annotations), (19, profiles::seccomp)],
    ),
    Check::baseline(
        "sysctls",
        &[
            (0, |pod| host::sysctls(pod, 0)),
            (27, |pod| host::sysctls(pod, 27)),
            (29, |pod| host::sysctls(pod, 29)),
            (32, |pod| host::sysctls(pod, 32)),
        ],
    ),
    Check::baseline("windowsHostProcess", &[(0, host::processes)]),
    Check::restricted(
        "allowPrivilegeEscalation",
        &[
            (8, containers::privilege_escalation),
            (25, |pod| {
                pod.unless_windows(containers::privilege_escalation)
            }),
        ],
    ),
    Check {
        replaces: Some("capabilities_baseline"),
        ..Check::restricted(
            "capabilities_restricted",
            &[
                (22, containers::dropped_capabilities),
                (25, |pod| {
                    pod.unless_windows(containers::dropped_capabilities)
                }),
            ],
        )
    },
    Check {
        replaces: Some("procMount"),
        ..Check::restricted("procMount_restricted", &[(35, containers::proc_mount)])
    },
    Check {
        replaces: Some("hostPathVolumes"),
        ..Check::restricted("restrictedVolumes", &[(0, volumes::restricted)])
    },
    Check::restricted(
        "runAsNonRoot",
        &[
            (0, containers::non_root),
            (35, |pod| pod.unless_user_namespace(containers::non_root)),
        ],
    ),
    Check::restricted(
        "runAsUser",
        &[
            (23, containers::root_user),
            (35, |pod| pod.unless_user_namespace(containers::root_user)),
        ],
    ),
    Check {
        replaces: Some("seccompProfile_baseline"),
        ..Check::restricted(
            "seccompProfile_restricted",
            &[
                (19, profiles::seccomp_required),
                (25, |pod| pod.unless_windows(profiles::seccomp_required)),
            ],
        )
    },
];

/// What a pod violates of a standard.
pub(super) fn evaluate(standard: Standard, pod: &Pod) -> Violations {
    let minor = match standard.version {
        Version::Minor(minor) => minor,
        // No check begins at a later version than all.
        Version::Latest => i64::MAX,
    };
    let applies = |check: &Check| check.level <= standard.level;
    let is_replaced = |name: &str| {
        let mut all = CHECKS.iter().filter(|check| applies(check));
        all.any(|check| check.replaces == Some(name) && check.at(minor).is_some())
    };
    let found = CHECKS
        .iter()
        .filter(|check| applies(check) && !is_replaced(check.name))
        .filter_map(|check| check.at(minor)?(pod));
    Violations(found.collect())
}

impl Check {
    const fn baseline(name: &'static str, revisions: &'static [(i64, Run)]) -> Check {
        Check {
            level: Level::Baseline,
            revisions,
            replaces: None,
            name,
        }
    }

    const fn restricted(name: &'static str, revisions: &'static [(i64, Run)]) -> Check {
        Check {
            level: Level::Restricted,
            ..Check::baseline(name, revisions)
        }
    }

    /// The revision for a minor version.
    fn at(&self, minor: i64) -> Option<Run> {
        let mut revisions = self.revisions.iter().rev();
        revisions
            .find(|(since, _)| *since <= minor)
            .map(|(_, run)| *run)
    }
}

impl Violations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is forbidden, without the parts of this pod that do it.
    pub(super) fn reasons(&self) -> String {
        let reasons: Vec<_> = self.0.iter().map(|one| one.reason).collect();
        reasons.join(", ")
    }

    /// What is forbidden, and the parts of the pod that do it.
    pub(super) fn details(&self) -> String {
        let details = self
            .0
            .iter()
            .map(|one| format!("{} ({})", one.reason, one.detail));
        details.collect::<Vec<_>>().join(", ")
    }
}
