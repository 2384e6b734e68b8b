//! Kubernetes' own programs, unmodified, built from the Go module `benches/peers/kubernetes`. Each
//! is built when a test first needs it: they take minutes to compile.

use std::path::PathBuf;

use crate::tools::{Missing, build, folder, peers, skip};

/// A folder with the programs already built; then nothing is built.
const BUILT: &str = "STELE_KUBERNETES_BIN";

/// One of Kubernetes' programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubernetes {
    Apiserver,
    ControllerManager,
    Scheduler,
    /// Not shipped by Kubernetes: its RequestInfo and RBAC authorizer behind a pipe.
    Decisions,
    /// Not shipped by Kubernetes: its encryption at rest behind a pipe, and a KMS plugin.
    Sealed,
}

impl Kubernetes {
    /// Name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Kubernetes::Apiserver => "kube-apiserver",
            Kubernetes::ControllerManager => "kube-controller-manager",
            Kubernetes::Scheduler => "kube-scheduler",
            Kubernetes::Decisions => "decisions",
            Kubernetes::Sealed => "sealed",
        }
    }

    fn package(self) -> String {
        match self {
            Kubernetes::Decisions | Kubernetes::Sealed => format!("./{}", self.name()),
            _ => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }

    /// The built program; other processes that need one at the same time wait.
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

    /// The program, or `None` after printing which test is skipped and why. In CI the test fails
    /// instead.
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
