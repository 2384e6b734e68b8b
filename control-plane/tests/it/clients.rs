//! Kubernetes' own Go client, as a separate program (`tests/clients/go`).

use std::path::Path;
use std::process::Command;

use testkit::Tools;

use crate::cluster::Cluster;

#[test]
fn client_gos_informers_and_elections_work() {
    if Tools::or_skip("Kubernetes' Go client").is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/go");
    let program = testkit::target_dir().join("tools/bin/client-go-scenario");
    let built = Command::new("go")
        .current_dir(folder)
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".")
        .status()
        .unwrap();
    assert!(built.success());
    let cluster = Cluster::start();
    let output = Command::new(program)
        .arg("-server")
        .arg(format!("http://{}", cluster.address))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{complaint}");
    assert!(told.ends_with("all is well\n"), "{told}");
}
