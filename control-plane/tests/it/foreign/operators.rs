//! One operator, written with three libraries that nobody here wrote: kopf with Kubernetes' client
//! for Python, fabric8's client for Java, and kube-rs. Each keeps a config map, a service and a
//! status for every `Shop` (`operators/crd.yaml`). Kubernetes' own apiserver must see the same
//! objects afterwards as ours, with the managers of their fields.
//!
//! Kubernetes' results are kept in `operators/*.txt`. `STELE_OPERATORS=go` plays the story on
//! Kubernetes' apiserver instead of ours, and `UPDATE=1` with it rewrites these files.

mod moment;
mod programs;
mod relay;
mod rust;
mod story;

use programs::Program;
use rust::Running;

#[test]
fn an_operator_with_kopf_leaves_what_it_leaves_on_kubernetes() {
    story::play(&Program {
        name: "kopf",
        folder: "operator-python",
        tools: &[("python3", "--version")],
        manifest: "requirements.txt",
        fetch: programs::fetch_python,
        build: |_, _| Vec::new(),
        run: programs::run_python,
    });
}

#[test]
fn an_operator_with_fabric8_leaves_what_it_leaves_on_kubernetes() {
    story::play(&Program {
        name: "fabric8",
        folder: "operator-java",
        tools: &[("javac", "--version"), ("mvn", "--version")],
        manifest: "pom.xml",
        fetch: programs::fetch_java,
        build: programs::build_java,
        run: programs::run_java,
    });
}

#[test]
fn an_operator_with_kube_rs_leaves_what_it_leaves_on_kubernetes() {
    story::tell(
        "kube-rs",
        |kubeconfig, _| Running::begin(kubeconfig),
        |operator, _| operator.end(),
    );
}
