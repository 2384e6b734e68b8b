//! Kubernetes' own scheduler instead of ours: unmodified, with the owner's kubeconfig.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::Kubernetes;

use crate::foreign::swap::world::go_scheduler;
use crate::harness::cluster::kubectl_or_skip;
use crate::processes::up::Up;

/// The timeout of each wait. It is long because the machine may be busy with builds.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
pub(super) const POLL: Duration = Duration::from_millis(100);
pub(super) const COMPONENTS: &str = "--components=store,apiserver,controller-manager,node";
const LOG: &str = "kube-scheduler.log";
const LONELY: &str = r#"{"spec": {"nodeSelector": {"colour": "blue"}}}"#;

pub(super) struct Scheduler(Child);

impl Scheduler {
    /// Starts it in the cluster of this directory, which gets its log.
    fn start(program: &Path, directory: &Path) -> Scheduler {
        let log = File::create(directory.join(LOG)).unwrap();
        let scheduler = Command::new(program)
            .args(go_scheduler(&directory.join("admin.kubeconfig")))
            .stdin(Stdio::null())
            .stderr(log)
            .spawn();
        Scheduler(scheduler.unwrap())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster in its directory, in which Kubernetes' own scheduler gives pods their nodes.
pub(super) fn scheduled_or_skip(test: &str) -> Option<(TempDir, Up, Scheduler)> {
    if !kubectl_or_skip(test) {
        return None;
    }
    let program = Kubernetes::Scheduler.or_skip(test)?;
    let directory = tempfile::tempdir().unwrap();
    let up = Up::with(directory.path(), &[COMPONENTS]);
    let scheduler = Scheduler::start(&program, directory.path());
    Some((directory, up, scheduler))
}

#[test]
fn the_scheduler_of_kubernetes_gives_our_pods_their_nodes() {
    let Some((directory, up, _scheduler)) = scheduled_or_skip("Kubernetes' own scheduler") else {
        return;
    };
    let log = directory.path().join(LOG);
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !holds() {
            let log = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "{what}: in vain\n{}", log());
            sleep(POLL);
        }
    };

    up.kubectl(&[
        "create",
        "deployment",
        "web",
        "--image=nginx",
        "--replicas=6",
    ]);
    let overrides = format!("--overrides={LONELY}");
    up.kubectl(&["run", "lonely", "--image=nginx", &overrides]);
    let lease = ["get", "lease", "-n", "kube-system", "-o"];
    let holder = "jsonpath={.items[?(@.metadata.name=='kube-scheduler')].spec.holderIdentity}";
    until("the scheduler leads", &|| {
        !up.kubectl(&[&lease[..], &[holder]].concat()).is_empty()
    });
    up.kubectl(&["rollout", "status", "deployment/web", "--timeout=180s"]);
    let path = "jsonpath={range .items[*]}{.spec.nodeName} {end}";
    let nodes = up.kubectl(&["get", "pods", "-l", "app=web", "-o", path]);
    let count = |node: &str| nodes.split(' ').filter(|one| *one == node).count();
    // The scheduler spreads the pods of a replica set.
    assert_eq!([2; 3], ["node-0", "node-1", "node-2"].map(count), "{nodes}");

    let events = |reason: &str| {
        let field = format!("--field-selector=reason={reason}");
        let path = "jsonpath={range .items[*]}{.involvedObject.name}: {.message}\n{end}";
        up.kubectl(&["get", "events", &field, "-o", path])
    };
    until("all that is scheduled is told", &|| {
        events("Scheduled").lines().count() == 6
    });
    until("what cannot be scheduled is told", &|| {
        events("FailedScheduling").contains("lonely: 0/3 nodes are available")
    });
    let path = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}";
    until("the pod says why it waits", &|| {
        up.kubectl(&["get", "pod", "lonely", "-o", path]) == "Unschedulable"
    });
    // Now a node fits the pod.
    up.kubectl(&["label", "node", "node-1", "colour=blue"]);
    up.kubectl(&[
        "wait",
        "pod/lonely",
        "--for=condition=Ready",
        "--timeout=180s",
    ]);
    let path = "jsonpath={.spec.nodeName}";
    assert_eq!(up.kubectl(&["get", "pod", "lonely", "-o", path]), "node-1");
}
