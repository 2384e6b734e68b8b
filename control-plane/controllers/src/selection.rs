//! Which loops run, written as for kube-controller-manager.

use crate::loops;

/// What Kubernetes adds to the name of a loop.
const SUFFIX: &str = "-controller";

/// The loops that `*` does not choose, as in Kubernetes.
const OFF: [&str; 2] = ["bootstrap-signer", "token-cleaner"];

/// The loops of Kubernetes 1.36 that were renamed, each with its older name, which it still takes.
const RENAMED: [(&str, &str); 42] = [
    ("bootstrap-signer", "bootstrapsigner"),
    ("certificatesigningrequest-approving", "csrapproving"),
    ("certificatesigningrequest-cleaner", "csrcleaner"),
    ("certificatesigningrequest-signing", "csrsigning"),
    ("cloud-node-lifecycle", "cloud-node-lifecycle"),
    ("clusterrole-aggregation", "clusterrole-aggregation"),
    ("cronjob", "cronjob"),
    ("daemonset", "daemonset"),
    ("deployment", "deployment"),
    ("disruption", "disruption"),
    ("endpoints", "endpoint"),
    ("endpointslice", "endpointslice"),
    ("endpointslice-mirroring", "endpointslicemirroring"),
    ("ephemeral-volume", "ephemeral-volume"),
    ("garbage-collector", "garbagecollector"),
    ("horizontal-pod-autoscaler", "horizontalpodautoscaling"),
    ("job", "job"),
    (
        "legacy-serviceaccount-token-cleaner",
        "legacy-service-account-token-cleaner",
    ),
    ("namespace", "namespace"),
    ("node-ipam", "nodeipam"),
    ("node-lifecycle", "nodelifecycle"),
    ("node-route", "route"),
    ("persistentvolume-attach-detach", "attachdetach"),
    ("persistentvolume-binder", "persistentvolume-binder"),
    ("persistentvolume-expander", "persistentvolume-expander"),
    ("persistentvolume-protection", "pv-protection"),
    ("persistentvolumeclaim-protection", "pvc-protection"),
    ("pod-garbage-collector", "podgc"),
    ("replicaset", "replicaset"),
    ("replicationcontroller", "replicationcontroller"),
    ("resourceclaim", "resource-claim-controller"),
    ("resourcequota", "resourcequota"),
    ("root-ca-certificate-publisher", "root-ca-cert-publisher"),
    ("service-lb", "service"),
    ("serviceaccount", "serviceaccount"),
    ("serviceaccount-token", "serviceaccount-token"),
    ("statefulset", "statefulset"),
    ("storage-version-migrator", "svm"),
    ("storageversion-garbage-collector", "storage-version-gc"),
    ("token-cleaner", "tokencleaner"),
    ("ttl", "ttl"),
    ("ttl-after-finished", "ttl-after-finished"),
];

/// The other loops of Kubernetes 1.36.
const NEVER_RENAMED: [&str; 10] = [
    "device-taint-eviction",
    "kube-apiserver-serving-clustertrustbundle-publisher",
    "podcertificaterequest-cleaner",
    "podgroup-protection",
    "resourcepoolstatusrequest",
    "selinux-warning",
    "service-cidr",
    "taint-eviction",
    "validatingadmissionpolicy-status",
    "volumeattributesclass-protection",
];

/// A choice of loops: `*` is all of them that are on by default, `foo` one, `-foo` all but one.
#[derive(Debug, Clone)]
pub struct Selection(Vec<Word>);

#[derive(Debug, Clone, Copy)]
enum Word {
    Defaults,
    With(&'static str),
    Without(&'static str),
}

impl Default for Selection {
    fn default() -> Selection {
        Selection(vec![Word::Defaults])
    }
}

impl Selection {
    /// Reads names such as `garbage-collector-controller` or, as they were once,
    /// `garbagecollector`. A name that no loop of Kubernetes has is refused.
    pub fn parse(words: &[String]) -> Result<Selection, String> {
        let words: Result<Vec<Word>, String> = words.iter().map(|word| Word::parse(word)).collect();
        words.map(Selection)
    }

    /// The named loops of Kubernetes that do not run because they do not exist here.
    pub fn lacking(&self) -> Vec<String> {
        let named = self.0.iter().filter_map(|word| match word {
            Word::With(name) => Some(*name),
            Word::Defaults | Word::Without(_) => None,
        });
        let lacking = named.filter(|name| loops::names().all(|one| one != *name));
        lacking.map(whole).collect()
    }

    /// True if the loop of this name runs.
    pub(crate) fn has(&self, name: &str) -> bool {
        let mut by_default = false;
        for word in &self.0 {
            match word {
                Word::With(one) if *one == name => return true,
                Word::Without(one) if *one == name => return false,
                Word::Defaults => by_default = true,
                Word::With(_) | Word::Without(_) => {}
            }
        }
        by_default && !OFF.contains(&name)
    }
}

impl Word {
    fn parse(word: &str) -> Result<Word, String> {
        if word == "*" {
            return Ok(Word::Defaults);
        }
        let name = word.strip_prefix('-').unwrap_or(word);
        let Some(found) = of_kubernetes(name) else {
            let known: Vec<String> = loops::names().map(whole).collect();
            let known = known.join(", ");
            return Err(format!(
                "{name:?} is not in the list of known controllers: {known}"
            ));
        };
        Ok(if name == word {
            Word::With(found)
        } else {
            Word::Without(found)
        })
    }
}

/// The loop of Kubernetes that has this name, or had it once.
fn of_kubernetes(word: &str) -> Option<&'static str> {
    let mut renamed = RENAMED.into_iter();
    if let Some((name, _)) = renamed.find(|(_, older)| *older == word) {
        return Some(name);
    }
    let word = word.strip_suffix(SUFFIX)?;
    let renamed = RENAMED.into_iter().map(|(name, _)| name);
    renamed.chain(NEVER_RENAMED).find(|name| *name == word)
}

fn whole(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Selection, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Selection::parse(&words)
    }

    fn chosen(words: &[&str]) -> Vec<&'static str> {
        let selection = parse(words).unwrap();
        loops::names().filter(|name| selection.has(name)).collect()
    }

    #[test]
    fn a_name_chooses_a_loop_and_a_minus_leaves_it_out() {
        assert_eq!(chosen(&["*"]).len() + OFF.len(), loops::names().count());
        assert!(!chosen(&["*"]).contains(&"token-cleaner"));
        let more = chosen(&["*", "token-cleaner-controller"]);
        assert!(more.contains(&"token-cleaner") && more.contains(&"namespace"));
        assert_eq!(chosen(&["namespace-controller"]), ["namespace"]);
        assert!(chosen(&[]).is_empty());
        let most = chosen(&["*", "-deployment-controller"]);
        assert!(most.contains(&"replicaset") && !most.contains(&"deployment"));
    }

    #[test]
    fn older_names_choose_the_same_loops() {
        for (name, older) in RENAMED {
            let now = chosen(&[whole(name).as_str()]);
            assert_eq!(chosen(&[older]), now, "{older}");
            let without = chosen(&["*", format!("-{older}").as_str()]);
            assert!(!without.contains(&name), "{older}");
        }
        assert_eq!(chosen(&["podgc"]), ["pod-garbage-collector"]);
        assert_eq!(chosen(&["endpoint"]), ["endpoints"]);
    }

    #[test]
    fn every_loop_is_known_by_the_name_that_kubernetes_gives_it() {
        for name in loops::names() {
            assert_eq!(chosen(&[whole(name).as_str()]), [name]);
        }
    }

    #[test]
    fn loops_that_kubernetes_alone_has_are_known_and_do_not_run() {
        let asked = ["*", "service-lb-controller", "-ttl-controller", "svm"];
        let selection = parse(&asked).unwrap();
        assert_eq!(chosen(&asked), chosen(&["*"]));
        assert_eq!(
            selection.lacking(),
            [
                "service-lb-controller",
                "storage-version-migrator-controller"
            ]
        );
    }

    #[test]
    fn other_names_are_refused() {
        for word in ["workloads", "pod-garbage-collector", "garbage", "", "-*"] {
            let error = parse(&["*", word]).unwrap_err();
            let name = word.trim_start_matches('-');
            let expected = format!("{name:?} is not in the list of known controllers");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
