//! Labels of nodes that have other names now.

/// The old name, since when it is old, and the name now.
const OLD_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "v1.17",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "v1.17",
        "topology.kubernetes.io/zone",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "v1.17",
        "node.kubernetes.io/instance-type",
    ),
];

/// Since when a label has another name, and that name; `None` if it has not.
pub(crate) fn renamed(label: &str) -> Option<(&'static str, &'static str)> {
    let found = OLD_LABELS.iter().find(|(old, _, _)| *old == label);
    found.map(|(_, since, now)| (*since, *now))
}
