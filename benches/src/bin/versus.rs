//! `cargo versus`: the same load on real etcd and on Stele, side by side.

use std::process::ExitCode;

fn main() -> ExitCode {
    benches::versus::main()
}
