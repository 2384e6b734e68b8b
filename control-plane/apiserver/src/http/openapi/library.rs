//! The versions that Kubernetes' libraries know, also such as are not served any more. All of them have
//! the requests and events that are common to all kinds, and its documents say so.

/// Groups, each with versions.
type Groups = &'static [(&'static str, &'static [&'static str])];

/// The versions that clients know; in a document of custom resources.
const OF_CLIENTS: Groups = &[
    ("", &["v1"]),
    (
        "admissionregistration.k8s.io",
        &["v1", "v1alpha1", "v1beta1"],
    ),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    (
        "flowcontrol.apiserver.k8s.io",
        &["v1", "v1beta1", "v1beta2", "v1beta3"],
    ),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1beta1"]),
];
/// Those that only servers know; all together are in the document with everything.
const OF_SERVERS: Groups = &[
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
];

/// The groups and versions in the document of a custom resource.
pub(super) fn of_clients() -> impl Iterator<Item = (&'static str, &'static str)> {
    each(OF_CLIENTS)
}

/// Those in the document with everything, in its order.
pub(super) fn of_all() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> = of_clients().chain(each(OF_SERVERS)).collect();
    all.sort_unstable();
    all
}

fn each(groups: Groups) -> impl Iterator<Item = (&'static str, &'static str)> {
    let versions = |(group, versions): &(&'static str, &'static [&'static str])| {
        let group = *group;
        versions.iter().map(move |version| (group, *version))
    };
    groups.iter().flat_map(versions)
}
