//! The apiserver with the flags of kube-apiserver, called by that name.

use std::path::Path;
use std::process::{Command, Output};

use apiserver::auth::pki::Pki;
use machinery::time::Timestamp;
use testkit::Launch;

use crate::harness::cluster::{BINARY, apiserver_with, kubectl_or_skip, told};

/// Runs the binary under the name until it ends; for flags that it refuses.
fn ended(home: &Path, flags: &[&str]) -> Output {
    let link = home.join("kube-apiserver");
    if !link.exists() {
        std::os::unix::fs::symlink(BINARY, &link).unwrap();
    }
    Command::new(link).args(flags).output().unwrap()
}

#[test]
fn a_flag_that_would_check_less_than_its_user_believes_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let accounts = [
        "--service-account-issuer=https://api",
        "--service-account-signing-key-file=sa.key",
    ];
    for (flags, words) in [
        (
            &["--authorization-config=a.yaml", "--authorization-mode=RBAC"][..],
            "--authorization-config can not be specified when",
        ),
        (
            &["--encryption-provider-config-automatic-reload"],
            "must be set with --encryption-provider-config",
        ),
        (
            &["--authorization-mode=ABAC"],
            "--authorization-mode=ABAC is not supported",
        ),
        (
            &["--enable-admission-plugins=AlwaysPullImages"],
            "what it checks would not be checked",
        ),
        (
            &["--enable-admission-plugins=Nonsense"],
            "plugin \"Nonsense\" is unknown",
        ),
        (
            &["--service-cluster-ip-range=10.96.0.0/16,10.97.0.0/16"],
            "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different \
             IP family",
        ),
        (
            &["--service-cluster-ip-range=fd00::/48"],
            "--service-cluster-ip-range=fd00::/48 is not supported: shortest allowed prefix length",
        ),
        (
            &[
                "--service-cluster-ip-range=fd00::/108,10.96.0.0/16",
                "--advertise-address=192.0.2.1",
            ],
            "service IP family \"fd00::/108\" must match public address family \"192.0.2.1\"",
        ),
        (
            &["--etcd-prefix=/other"],
            "--etcd-prefix=/other is not supported",
        ),
        (
            &["--tls-cert-file=a.crt"],
            "--tls-cert-file needs --tls-private-key-file",
        ),
        (
            &["--plain-http", "--bind-address=192.0.2.1"],
            "192.0.2.1 is no such address",
        ),
        (&["--secure-port=0"], "are required flags"),
        (&["--nonsense"], "unexpected argument '--nonsense'"),
    ] {
        let output = ended(
            home.path(),
            &[
                flags,
                &accounts[..usize::from(flags[0] != "--secure-port=0") * 2],
            ]
            .concat(),
        );
        assert!(!output.status.success(), "{flags:?}: {}", told(&output));
        assert!(
            told(&output).contains(words),
            "{flags:?}: {}",
            told(&output)
        );
    }
    let version = ended(home.path(), &["--version"]);
    assert!(told(&version).contains("v1.36.3"), "{}", told(&version));
}

/// As tools start Kubernetes: every file is given, and clients have an authority of their own.
#[test]
fn certificates_and_keys_that_others_made_are_used() {
    if !kubectl_or_skip("certificates of others") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let now = Timestamp {
        seconds: std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs()
            .try_into()
            .unwrap(),
        nanos: 0,
    };
    let made = |name: &str| {
        let directory = home.path().join(name);
        let pki = Pki::open(&directory, &[], now).unwrap();
        (pki, move |file: &str| {
            directory.join(file).display().to_string()
        })
    };
    let (_, serving) = made("serving");
    let (_, clients) = made("clients");
    let launch = Launch::program(BINARY).subcommand("store");
    let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let (mut child, address) = apiserver_with(
        &store.url(),
        &[
            &format!("--tls-cert-file={}", serving("apiserver.crt")),
            &format!("--tls-private-key-file={}", serving("apiserver.key")),
            "--tls-min-version=VersionTLS13",
            &format!("--client-ca-file={}", clients("ca.crt")),
            &format!("--service-account-signing-key-file={}", clients("sa.key")),
            &format!(
                "--service-account-key-file={},{}",
                clients("sa.pub"),
                serving("sa.key")
            ),
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--advertise-address=127.0.0.1",
            "--disable-admission-plugins=ServiceAccount",
            "--feature-gates=AllAlpha=false",
        ],
    );
    let kubectl = |certificate: &str, key: &str, args: &[&str]| {
        Command::new("kubectl")
            .arg(format!("--server=https://{address}"))
            .arg(format!("--certificate-authority={}", serving("ca.crt")))
            .arg(format!("--client-certificate={certificate}"))
            .arg(format!("--client-key={key}"))
            .args(args)
            .env("KUBECONFIG", "/dev/null")
            .env("HOME", home.path())
            .output()
            .unwrap()
    };
    let ours = kubectl(
        &clients("admin.crt"),
        &clients("admin.key"),
        &["run", "p", "--image=i"],
    );
    assert!(
        ours.status.success(),
        "without ServiceAccount: {}",
        told(&ours)
    );
    let token = ["create", "token", "default"];
    kubectl(
        &clients("admin.crt"),
        &clients("admin.key"),
        &["create", "sa", "default"],
    );
    let token = kubectl(&clients("admin.crt"), &clients("admin.key"), &token);
    assert!(token.status.success(), "{}", told(&token));
    // Discovery names the advertised address, whichever the client used.
    let (_, port) = address.rsplit_once(':').unwrap();
    let elsewhere = format!("--server=https://localhost:{port}");
    let discovery = ["get", "--raw=/api", &elsewhere];
    let discovery = kubectl(&clients("admin.crt"), &clients("admin.key"), &discovery);
    let named = format!("\"serverAddress\":\"{address}\"");
    assert!(told(&discovery).contains(&named), "{}", told(&discovery));
    let theirs = kubectl(
        &serving("admin.crt"),
        &serving("admin.key"),
        &["get", "pods"],
    );
    assert!(
        !theirs.status.success(),
        "signed by another authority: {}",
        told(&theirs)
    );
    child.kill().unwrap();
    child.wait().unwrap();
}
