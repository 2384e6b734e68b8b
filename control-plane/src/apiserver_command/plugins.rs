//! The names of Kubernetes' admission plugins, and which of them are here.

use std::sync::Arc;

use apiserver::admission::plugins::node_restriction::{self, NodeRestriction};
use apiserver::admission::plugins::owner_references::{self, OwnerReferences};
use apiserver::admission::{self, PLUGINS, Plugin};

/// Those that Kubernetes runs for features that are off unless they are switched on. The kinds and
/// fields of these features are not served here, so there is nothing to decide.
const IDLE: [&str; 4] = [
    "ClusterTrustBundleAttest",
    "JobValidation",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
];

/// Those that run only if they are asked for, and that are missing here.
const OPTIONAL: [&str; 12] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// Refuses names that Kubernetes does not have, and plugins that are asked for and missing.
pub(super) fn check(enabled: &[String], disabled: &[String]) -> Result<(), String> {
    let is = |all: &[&str], name: &String| all.contains(&name.as_str());
    for (flag, names) in [("enable", enabled), ("disable", disabled)] {
        let all = [&PLUGINS[..], &admission::OPTIONAL, &IDLE, &OPTIONAL];
        let mut unknown = names
            .iter()
            .filter(|name| !all.iter().any(|some| is(some, name)));
        if let Some(name) = unknown.next() {
            return Err(format!(
                "{flag}-admission-plugins plugin {name:?} is unknown"
            ));
        }
    }
    let both: Vec<_> = enabled
        .iter()
        .filter(|name| disabled.contains(name))
        .cloned()
        .collect();
    if !both.is_empty() {
        let both = both.join(", ");
        return Err(format!(
            "{both} in enable-admission-plugins and disable-admission-plugins overlapped"
        ));
    }
    let here = [&PLUGINS[..], &admission::OPTIONAL, &IDLE];
    let is_here = |name: &String| here.iter().any(|some| is(some, name));
    if let Some(name) = enabled.iter().find(|name| !is_here(name)) {
        return Err(format!(
            "--enable-admission-plugins={name} is not supported: what it checks would not be checked; leave it out"
        ));
    }
    Ok(())
}

/// The plugins among these names that run only if they are asked for.
pub(super) fn asked_for(enabled: &[String]) -> Vec<Arc<dyn Plugin>> {
    let all: [(&str, Arc<dyn Plugin>); 2] = [
        (node_restriction::NAME, Arc::new(NodeRestriction)),
        (owner_references::NAME, Arc::new(OwnerReferences)),
    ];
    let wanted = all
        .into_iter()
        .filter(|(name, _)| enabled.iter().any(|one| one == name));
    wanted.map(|(_, plugin)| plugin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(enabled: &[&str], disabled: &[&str]) -> Result<(), String> {
        let own = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        check(&own(enabled), &own(disabled))
    }

    #[test]
    fn what_is_asked_for_is_there_or_refused() {
        asked(
            &["NamespaceLifecycle", "NodeRestriction"],
            &["ServiceAccount", "PodSecurity", "AlwaysAdmit"],
        )
        .unwrap();
        asked(&["PodGroupProtection"], &["ClusterTrustBundleAttest"]).unwrap();
        let unknown = asked(&[], &["Serviceaccount"]).unwrap_err();
        assert_eq!(
            unknown,
            "disable-admission-plugins plugin \"Serviceaccount\" is unknown"
        );
        let missing = asked(&["AlwaysDeny"], &[]).unwrap_err();
        assert!(missing.starts_with("--enable-admission-plugins=AlwaysDeny is not supported"));
        assert!(asked(&["Priority"], &["Priority"]).is_err());
        for name in admission::OPTIONAL {
            asked(&[name], &[]).unwrap();
            let [plugin] = &asked_for(&[name.to_owned()])[..] else {
                panic!("{name} has no plugin");
            };
            assert_eq!(plugin.name(), name);
        }
    }
}
