//! More parts of the control plane beside a cluster: separate processes, stopped when dropped.

use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::cluster::Cluster;

/// The timeout of each wait. It is long because the machine may be busy with builds.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// A cluster and the parts that run for it.
pub(crate) struct Parts {
    cluster: Cluster,
    /// By command, in the order of their start.
    children: Vec<(String, Child)>,
}

impl Parts {
    /// A cluster without other parts.
    pub(crate) fn none() -> Parts {
        Parts {
            cluster: Cluster::start(),
            children: Vec::new(),
        }
    }

    /// The scheduler and `count` hollow nodes, all of them ready.
    pub(crate) fn with_nodes(count: usize) -> Parts {
        let mut parts = Parts::none();
        parts.begin(&["node", "--count", &count.to_string()]);
        parts.begin(&["scheduler"]);
        parts.until("the nodes are registered", |parts| {
            parts.run(&["get", "nodes", "-o", "name"]).lines().count() == count
        });
        parts.wait("nodes", &["--all", "--for=condition=Ready"]);
        // The control loops would do this.
        let taint = "node.kubernetes.io/not-ready:NoSchedule-";
        parts.run(&["taint", "nodes", "--all", taint]);
        parts
    }

    /// Starts a part, such as `["node", "--count", "3"]`.
    pub(crate) fn begin(&mut self, arguments: &[&str]) {
        let child = Command::new(env!("CARGO_BIN_EXE_stele-kube"))
            .args(arguments)
            .arg(format!("--master=http://{}", self.cluster.address))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.children.push((arguments[0].to_owned(), child));
    }

    /// Kills a part without a chance to clean up.
    pub(crate) fn kill(&mut self, part: &str) {
        let at = self.children.iter().position(|(name, _)| name == part);
        let (_, mut child) = self.children.remove(at.unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// `kubectl wait`.
    pub(crate) fn wait(&self, object: &str, what: &[&str]) {
        let limit = format!("--timeout={}s", PATIENCE.as_secs());
        self.run(&[&["wait", object, &limit], what].concat());
    }

    /// The value at a path of an object, from `kubectl`.
    pub(crate) fn field(&self, object: &str, path: &str) -> String {
        self.run(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    /// The messages of all Events with a reason.
    pub(crate) fn notes(&self, reason: &str) -> String {
        let selector = format!("reason={reason}");
        let path = "jsonpath={.items[*].message}";
        self.run(&["get", "events", "--field-selector", &selector, "-o", path])
    }

    /// Waits until `holds` is true.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Parts) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
            sleep(POLL);
        }
    }
}

impl Deref for Parts {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        for (_, child) in self.children.iter_mut().rev() {
            // Fails only if the process is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
