//! What kubectl prints of kinds and of the fields in them.

use std::path::Path;
use std::process::Command;

use super::Answers;
use crate::harness::cluster::told;

/// Number of programs at a time.
const AT_ONCE: usize = 4;
/// Fields further inside, besides those of each kind.
const INSIDE: [&str; 25] = [
    "configmap.metadata.managedFields",
    "configmap.metadata.ownerReferences",
    "crd.spec.versions.schema.openAPIV3Schema",
    "deployment.spec.strategy.rollingUpdate.maxSurge",
    "deployment.spec.template.spec.containers",
    "flowschema.spec.rules.subjects",
    "hpa --api-version=autoscaling/v1",
    "hpa.spec.metrics.resource.target",
    "ingress.spec.rules.http.paths.backend.service",
    "job.spec.podFailurePolicy.rules",
    "networkpolicy.spec.ingress.from",
    "pod.metadata",
    "pod.metadata.creationTimestamp",
    "pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "pod.spec.containers",
    "pod.spec.containers.env.valueFrom",
    "pod.spec.containers.livenessProbe",
    "pod.spec.containers.resources.limits",
    "pod.spec.containers.securityContext",
    "pod.spec.ephemeralContainers",
    "pod.spec.securityContext",
    "pod.spec.topologySpreadConstraints",
    "pod.spec.volumes",
    "pod.spec.volumes.projected.sources",
    "statefulset.spec.volumeClaimTemplates.spec",
];

/// What is asked about the kinds that this apiserver has.
pub(super) fn everything(address: &str) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let names = kubectl(home, address, &["api-resources", "-o", "name"]);
    let mut asked: Vec<String> = INSIDE.map(str::to_owned).into();
    for name in names.lines() {
        // Two groups have events, and kubectl takes this name for one with fields.
        let (kind, version) = match name {
            "events.events.k8s.io" => ("events", " --api-version=events.k8s.io/v1"),
            name => (name, ""),
        };
        let printed = explain(home, address, &format!("{kind}{version}"));
        asked.push(format!("{kind}{version}"));
        asked.push(format!("{kind} --recursive{version}"));
        let inside = printed.lines().filter_map(object_field);
        let inside = inside.filter(|field| *field != "metadata");
        asked.extend(inside.map(|field| format!("{kind}.{field}{version}")));
    }
    asked
}

/// The name of a field with fields of its own: the line has the name, a tab, and `<PodSpec>`.
fn object_field(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once("\t<")?;
    let kind = rest.trim_start_matches("[]");
    kind.starts_with(char::is_uppercase).then(|| name.trim())
}

/// The text without what each value of a fixed set means. The value is on a line such as
/// `- "Always" means that`, and a blank line ends the last one.
fn without_meanings(printed: &str) -> String {
    let mut in_meaning = false;
    let mut kept = String::new();
    for line in printed.lines() {
        let value = line.trim_start().strip_prefix("- `\"");
        let value = value.and_then(|rest| rest.split_once("\"`"));
        in_meaning = value.is_some() || in_meaning && !line.trim().is_empty();
        match value {
            Some((value, _)) => kept += &format!("- {value}\n"),
            None if in_meaning => {}
            None => kept += &format!("{line}\n"),
        }
    }
    kept
}

#[test]
fn only_meanings_are_left_out() {
    let fields = |first: &str, last: &str| {
        format!(
            "  phase\t<string>\n    The phase.\n\n    Possible enum values:\n     - `\"Active\"`{first}\n     \
             - `\"Terminating\"`{last}\n\n  x\t<integer>\n    A number.\n"
        )
    };
    let told = without_meanings(&fields(" means that it\n    is there", " is\n    going"));
    assert_eq!(told, without_meanings(&fields("", "")));
    assert!(told.contains("- Active\n- Terminating\n\n  x\t<integer>\n    A number.\n"));
    assert_ne!(
        told,
        without_meanings(&fields("", "").replace("integer", "string"))
    );
    assert_ne!(
        told,
        without_meanings(&fields("", "").replace("Active", "Passive"))
    );
}

/// What kubectl explains with these words.
fn explain(home: &Path, address: &str, asked: &str) -> String {
    let words: Vec<&str> = asked.split(' ').collect();
    kubectl(home, address, &[&["explain"], &words[..]].concat())
}

fn kubectl(home: &Path, address: &str, args: &[&str]) -> String {
    let output = Command::new("kubectl")
        .arg(format!("--server=http://{address}"))
        .args(args)
        .env("KUBECONFIG", "/dev/null")
        .env("HOME", home)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Asks all of it.
pub(super) fn all(address: &str, asked: &[String]) -> Answers {
    // What discovery says is asked for once and kept there.
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let mut answers = Answers::new();
    for some in asked.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let threads = some.iter().map(|one| {
                let run = || explain(home, address, one);
                (one, scope.spawn(run))
            });
            let threads: Vec<_> = threads.collect();
            for (one, thread) in threads {
                let printed = thread.join().unwrap();
                answers.insert(one.clone(), without_meanings(&printed));
            }
        });
    }
    answers
}
