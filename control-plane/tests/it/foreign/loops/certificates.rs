//! Requests for certificates: a user's, a node's own, and a node's for serving.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};

use crate::foreign::swap::world::World;

const USER: &str = "jane";
const GROUP: &str = "readers";
const NODE: &str = "system:node:node-0";
const NODES: &str = "system:nodes";

/// A user's certificate: approved by the owner, then signed, then good for a request.
pub(super) fn of_a_user(world: &World) {
    let key = ask(
        world,
        "user",
        USER,
        GROUP,
        None,
        "kube-apiserver-client",
        "client auth",
    );
    world.run(&["certificate", "approve", "user"]);
    let certificate = signed(world, "user");
    let whoami = who(world, &key, &certificate);
    assert_eq!(whoami, format!("{USER} {GROUP} system:authenticated"));
    // Nobody approves this one.
    ask(
        world,
        "denied",
        USER,
        GROUP,
        None,
        "kube-apiserver-client",
        "client auth",
    );
    world.run(&["certificate", "deny", "denied"]);
}

/// A node's own certificate, which a loop approves, and the one that it serves with.
pub(super) fn of_a_node(world: &World) {
    let node = Some(NODE);
    let key = ask(
        world,
        "node",
        NODE,
        NODES,
        node,
        "kube-apiserver-client-kubelet",
        "client auth",
    );
    let certificate = signed(world, "node");
    let whoami = who(world, &key, &certificate);
    assert_eq!(whoami, format!("{NODE} {NODES} system:authenticated"));
    ask(
        world,
        "serving",
        NODE,
        NODES,
        node,
        "kubelet-serving",
        "server auth",
    );
    world.run(&["certificate", "approve", "serving"]);
    signed(world, "serving");
}

/// Creates a request for a certificate; returns the key.
fn ask(
    world: &World,
    request: &str,
    name: &str,
    group: &str,
    user: Option<&str>,
    signer: &str,
    usage: &str,
) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
        .distinguished_name
        .push(DnType::OrganizationName, group);
    if usage == "server auth" {
        params.subject_alt_names = vec![SanType::DnsName("node-0".try_into().unwrap())];
    }
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let manifest = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\n\
         metadata: {{name: {request}}}\n\
         spec:\n  signerName: kubernetes.io/{signer}\n  expirationSeconds: 3600\n  \
         usages: [digital signature, {usage}]\n  request: {}\n",
        STANDARD.encode(pem),
    );
    let path = world.file("request.yaml", &manifest);
    let mut create = vec!["create", "-f", &path];
    let groups = format!("--as-group={group}");
    if let Some(user) = user {
        create.extend(["--as", user, &groups, "--as-group=system:authenticated"]);
    }
    world.run(&create);
    key.serialize_pem()
}

/// Waits for the certificate of a request.
fn signed(world: &World, request: &str) -> String {
    let request = format!("csr/{request}");
    let issued = "--for=jsonpath={.status.certificate}";
    world.run(&["wait", &request, issued, "--timeout=180s"]);
    let field = "jsonpath={.status.certificate}";
    let certificate = world.run(&["get", &request, "-o", field]);
    decoded(&certificate)
}

/// The text in a field of bytes.
pub(super) fn decoded(field: &str) -> String {
    String::from_utf8(STANDARD.decode(field).unwrap()).unwrap()
}

/// The user and the groups of a certificate, as the apiserver sees them.
fn who(world: &World, key: &str, certificate: &str) -> String {
    let key = format!("--client-key={}", world.file("client.key", key));
    let certificate = format!(
        "--client-certificate={}",
        world.file("client.crt", certificate)
    );
    world.whoami(&[&key, &certificate])
}
