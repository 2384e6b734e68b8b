//! `cargo versus-kube`: the same load on Kubernetes' own apiserver and on ours, side by side.

use std::process::ExitCode;

fn main() -> ExitCode {
    benches::versus_kube::main()
}
