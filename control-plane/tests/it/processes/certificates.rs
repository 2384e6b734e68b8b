//! Certificates from `stele-kube`'s own loops: a user's, a kubelet's, one that is refused.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::time::Timestamp;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::up::Up;
use crate::harness::cluster::{BINARY, kubectl_or_skip, told};

const NODE: &str = "system:node:n";

/// A request for a certificate.
struct Ask<'a> {
    name: &'a str,
    user: &'a str,
    groups: &'a [&'a str],
    signer: &'a str,
    usages: &'a str,
    /// The flags of kubectl that say who asks.
    flags: &'a [&'a str],
}

impl Ask<'_> {
    /// Creates the request; returns the key.
    fn create(&self, up: &Up) -> String {
        // rcgen has one value of each type: the second group is of another type, with the same number.
        let types = [
            DnType::OrganizationName,
            DnType::CustomDnType(vec![2, 5, 4, 10]),
        ];
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, self.user);
        for (one, group) in types.into_iter().zip(self.groups) {
            params.distinguished_name.push(one, *group);
        }
        let key = KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let manifest = format!(
            "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\n\
             metadata: {{name: {}}}\n\
             spec:\n  signerName: kubernetes.io/{}\n  expirationSeconds: 3600\n  \
             usages: [{}]\n  request: {}\n",
            self.name,
            self.signer,
            self.usages,
            STANDARD.encode(pem),
        );
        let path = up.file("request.yaml", &manifest);
        let mut create = vec!["create", "-f", &path];
        create.extend(self.flags);
        up.kubectl(&create);
        key.serialize_pem()
    }
}

fn issued(up: &Up, name: &str) -> String {
    let request = format!("csr/{name}");
    let certificate = "jsonpath={.status.certificate}";
    let wait = format!("--for={certificate}");
    up.kubectl(&["wait", &request, &wait, "--timeout=60s"]);
    let certificate = up.kubectl(&["get", &request, "-o", certificate]);
    String::from_utf8(STANDARD.decode(certificate).unwrap()).unwrap()
}

/// The user and the groups of a certificate, as the apiserver sees them.
fn who(up: &Up, key: &str, certificate: &str) -> String {
    let url = up.kubectl(&[
        "config",
        "view",
        "-o",
        "jsonpath={.clusters[0].cluster.server}",
    ]);
    let authority = up.path("pki/ca.crt");
    let output = Command::new("kubectl")
        .args(["--kubeconfig=/dev/null", &format!("--server={url}")])
        .arg(format!("--certificate-authority={authority}"))
        .arg(format!("--client-key={}", up.file("client.key", key)))
        .arg(format!(
            "--client-certificate={}",
            up.file("client.crt", certificate)
        ))
        .args(["auth", "whoami", "-o"])
        .arg("jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
        .env("HOME", up.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// How long a certificate is still valid.
fn left(certificate: &str) -> Duration {
    let end = certificates::not_after(certificate.as_bytes()).unwrap();
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    end.since(Timestamp::default()) - now
}

#[test]
fn approved_requests_are_signed_and_the_certificates_are_good_for_requests() {
    if !kubectl_or_skip("certificates from a whole cluster") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let up = Up::with(directory.path(), &["--nodes=0"]);
    let jane = Ask {
        name: "jane",
        user: "jane",
        groups: &["readers", "writers"],
        signer: "kube-apiserver-client",
        usages: "digital signature, client auth",
        flags: &[],
    };
    let key = jane.create(&up);
    up.kubectl(&["certificate", "approve", "jane"]);
    let certificate = issued(&up, "jane");
    assert_eq!(
        who(&up, &key, &certificate),
        r#"jane ["readers","writers","system:authenticated"]"#
    );
    let left = left(&certificate);
    let hour = Duration::from_secs(3600);
    assert!(left <= hour && left > hour / 2, "{left:?}");

    let refused = Ask {
        name: "refused",
        usages: "server auth",
        ..jane
    };
    refused.create(&up);
    up.kubectl(&["certificate", "approve", "refused"]);
    let request = "csr/refused";
    up.kubectl(&["wait", request, "--for=condition=Failed", "--timeout=60s"]);
    let why = "jsonpath={.status.conditions[1].reason}: {.status.conditions[1].message}";
    assert_eq!(
        up.kubectl(&["get", request, "-o", why]),
        "SignerValidationFailure: invalid usage for client certificate: server auth"
    );
    let shown = up.kubectl(&["get", "csr", "--no-headers"]);
    for (name, condition) in [("jane", "Approved,Issued"), ("refused", "Approved,Failed")] {
        let shown = shown.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(shown.ends_with(condition), "{shown}");
    }
}

#[test]
fn a_kubelet_gets_its_certificate_once_it_may_have_it() {
    if !kubectl_or_skip("a kubelet's certificate") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let up = Up::with(directory.path(), &["--nodes=0"]);
    let kubelet = Ask {
        name: "kubelet",
        user: NODE,
        groups: &["system:nodes"],
        signer: "kube-apiserver-client-kubelet",
        usages: "digital signature, client auth",
        flags: &[
            "--as=system:node:n",
            "--as-group=system:nodes",
            "--as-group=system:authenticated",
        ],
    };
    let role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    let bind = |name: &str, to: &str| {
        let role = format!("--clusterrole={role}");
        up.kubectl(&["create", "clusterrolebinding", name, &role, to]);
    };
    // Who may not create requests at all cannot ask.
    up.kubectl(&[
        "create",
        "clusterrole",
        "ask",
        "--verb=create,get",
        "--resource=certificatesigningrequests.certificates.k8s.io",
    ]);
    let nodes = "--group=system:nodes";
    up.kubectl(&[
        "create",
        "clusterrolebinding",
        "ask",
        "--clusterrole=ask",
        nodes,
    ]);
    let key = kubelet.create(&up);
    let conditions = "jsonpath={.status.conditions[*].reason}";
    assert_eq!(up.kubectl(&["get", "csr/kubelet", "-o", conditions]), "");
    bind("nodes", nodes);
    let certificate = issued(&up, "kubelet");
    assert_eq!(
        who(&up, &key, &certificate),
        format!(r#"{NODE} ["system:nodes","system:authenticated"]"#)
    );
    assert_eq!(
        up.kubectl(&["get", "csr/kubelet", "-o", conditions]),
        "AutoApproved"
    );
}

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_flags_of_kube_controller_manager_name_the_authority() {
    if !kubectl_or_skip("the flags of the signer") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let up = Up::with(directory.path(), &["--components=store,apiserver"]);
    let certificate = format!("--cluster-signing-cert-file={}", up.path("pki/ca.crt"));
    let key = format!("--cluster-signing-key-file={}", up.path("pki/ca.key"));
    let start = |flags: &[&str]| {
        let mut command = Command::new(BINARY);
        command
            .arg("controller-manager")
            .arg(format!("--kubeconfig={}", up.path("admin.kubeconfig")))
            .args(flags);
        command
    };
    let alone = start(&[&certificate]).output().unwrap();
    assert!(!alone.status.success());
    assert!(told(&alone).contains("go together"), "{}", told(&alone));

    let flags = [
        "--cluster-signing-duration=20m",
        &certificate,
        &key,
        "--controllers=certificatesigningrequest-signing-controller",
    ];
    let loops = start(&flags).stderr(Stdio::null()).spawn();
    let _loops = Killed(loops.unwrap());
    let jane = Ask {
        name: "jane",
        user: "jane",
        groups: &["readers"],
        signer: "kube-apiserver-client",
        usages: "client auth",
        flags: &[],
    };
    let key = jane.create(&up);
    up.kubectl(&["certificate", "approve", "jane"]);
    let certificate = issued(&up, "jane");
    let (left, most) = (left(&certificate), Duration::from_secs(20 * 60));
    assert!(left <= most && left > most / 2, "{left:?}");
    assert!(who(&up, &key, &certificate).starts_with("jane "));
}
