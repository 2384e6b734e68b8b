//! Kubernetes' own programs, unmodified, built from the Go module `benches/peers/kubernetes`,
//! each when a test first asks for it: they take minutes to compile.

use std::path::PathBuf;

use crate::tools::{Missing, build, folder, peers, skip};

/// A folder that holds the programs already built; nothing is built then.
const BUILT: &str = "STELE_KUBERNETES_BIN";

/// One of Kubernetes' programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubernetes {
    Apiserver,
    ControllerManager,
    Scheduler,
    /// Not one that Kubernetes ships: its RequestInfo and RBAC authorizer behind a pipe.
    Decisions,
}

impl Kubernetes {
    /// What the program is called.
    pub fn name(self) -> &'static str {
        match self {
            Kubernetes::Apiserver => "kube-apiserver",
            Kubernetes::ControllerManager => "kube-controller-manager",
            Kubernetes::Scheduler => "kube-scheduler",
            Kubernetes::Decisions => "decisions",
        }
    }

    fn package(self) -> String {
        match self {
            Kubernetes::Decisions => format!("./{}", self.name()),
            _ => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }

    /// The built program; other processes that want one, too, wait.
    pub fn locate(self) -> Result<PathBuf, Missing> {
        if let Some(folder) = std::env::var_os(BUILT) {
            let program = PathBuf::from(folder).join(self.name());
            return if program.exists() {
                Ok(program)
            } else {
                Err(Missing(format!("{BUILT} has no {}", program.display())))
            };
        }
        let (bin, _lock) = folder()?;
        let program = bin.join(self.name());
        build(&peers().join("kubernetes"), &self.package(), &program)?;
        Ok(program)
    }

    /// The program, or `None` after [`skip`].
    pub fn or_skip(self, test: &str) -> Option<PathBuf> {
        match self.locate() {
            Ok(program) => Some(program),
            Err(missing) => {
                skip(test, &missing);
                None
            }
        }
    }
}
