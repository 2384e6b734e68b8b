//! The names of Kubernetes' admission plugins, and which of them are here.

use apiserver::admission::{self, PLUGINS};

/// Those that Kubernetes runs unless they are switched off, and that are missing here.
const MISSING: [&str; 5] = [
    "ClusterTrustBundleAttest",
    "NodeDeclaredFeatureValidator",
    "PodGroupProtection",
    "PodResizeValidator",
    "PodTopologyLabels",
];

/// Those that run only if they are asked for, and that are missing here.
const OPTIONAL: [&str; 15] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "JobValidation",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PodGroupWorkloadExists",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// Refuses names that Kubernetes does not have, and plugins that are asked for and missing; says
/// in the log which of the usual ones are missing.
pub(super) fn check(enabled: &[String], disabled: &[String]) -> Result<(), String> {
    let is = |all: &[&str], name: &String| all.contains(&name.as_str());
    for (flag, names) in [("enable", enabled), ("disable", disabled)] {
        let all = [&PLUGINS[..], &admission::OPTIONAL, &MISSING, &OPTIONAL];
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
    let is_here = |name: &String| is(&PLUGINS, name) || is(&admission::OPTIONAL, name);
    if let Some(name) = enabled.iter().find(|name| !is_here(name)) {
        return Err(format!(
            "--enable-admission-plugins={name} is not supported: what it checks would not be checked; leave it out"
        ));
    }
    let missing = MISSING
        .iter()
        .filter(|name| !disabled.iter().any(|one| one == *name));
    let missing: Vec<&str> = missing.copied().collect();
    if !missing.is_empty() {
        tracing::warn!(
            "these admission plugins of Kubernetes are missing here: {}",
            missing.join(", ")
        );
    }
    Ok(())
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
        let unknown = asked(&[], &["Serviceaccount"]).unwrap_err();
        assert_eq!(
            unknown,
            "disable-admission-plugins plugin \"Serviceaccount\" is unknown"
        );
        let missing = asked(&["AlwaysDeny"], &[]).unwrap_err();
        assert!(missing.starts_with("--enable-admission-plugins=AlwaysDeny is not supported"));
        assert!(asked(&["Priority"], &["Priority"]).is_err());
    }
}
