//! What a user with few rights must not be able to do, with requests byte by byte.

use std::process::Child;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::Launch;

use crate::harness::cluster::{BINARY, apiserver};
use crate::requests::http::{Answer, Call};

const TOKENS: &str = "root-token,root,1,\"system:masters\"\njane-token,jane,2\n\
    joe-token,joe,3\nscheduler-token,system:kube-scheduler,4\n\
    node-token,system:node:n,5,\"system:nodes\"\n";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A store and an apiserver with token authentication; stopped when dropped.
pub(crate) struct Guarded {
    _store: testkit::Server,
    apiserver: Child,
    pub(crate) address: String,
    _home: TempDir,
}

impl Guarded {
    pub(crate) fn start() -> Guarded {
        Guarded::start_with(&[])
    }

    /// Starts with these additional flags.
    pub(crate) fn start_with(flags: &[&str]) -> Guarded {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let home = tempfile::tempdir().unwrap();
        let tokens = home.path().join("tokens.csv");
        std::fs::write(&tokens, TOKENS).unwrap();
        let flag = format!("--token-auth-file={}", tokens.display());
        let flags = [&[flag.as_str()], flags].concat();
        let (apiserver, address) = apiserver(&store.url(), &flags);
        Guarded {
            _store: store,
            apiserver,
            address,
            _home: home,
        }
    }

    pub(crate) fn ask(
        &self,
        who: &str,
        method: &str,
        path: &str,
        object: Option<&Value>,
    ) -> Answer {
        let call = Call::new(&self.address, method, path);
        let call = call.header("Authorization", &format!("Bearer {who}-token"));
        match object {
            Some(object) => call.json(object).send(),
            None => call.send(),
        }
    }

    fn root(&self, method: &str, path: &str, object: &Value) -> Answer {
        self.ask("root", method, path, Some(object))
    }

    pub(crate) fn jane(&self, method: &str, path: &str, object: &Value) -> Answer {
        self.ask("jane", method, path, Some(object))
    }

    /// Gives jane a role with these rules.
    pub(crate) fn allow(&self, name: &str, rules: Value) {
        let group = "rbac.authorization.k8s.io";
        let version = format!("{group}/v1");
        let role = json!({"apiVersion": version, "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules});
        self.root("POST", ROLES, &role).expect(201);
        let binding = json!({"apiVersion": version, "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}]});
        self.root("POST", BINDINGS, &binding).expect(201);
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.apiserver.kill();
        let _ = self.apiserver.wait();
    }
}

#[test]
fn a_name_in_a_selector_opens_lists_and_nothing_else() {
    let cluster = Guarded::start();
    let rule = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"],
        "resourceNames": ["mine"]}]);
    cluster.allow("mine", rule);
    let secret =
        |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    cluster.root("POST", SECRETS, &secret("mine")).expect(201);
    let mine = format!("{SECRETS}?fieldSelector=metadata.name%3Dmine");
    let listed = cluster.ask("jane", "GET", &mine, None).expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let created = cluster.jane("POST", &mine, &secret("other"));
    created.refuses(
        403,
        "Forbidden",
        "User \"jane\" cannot create resource \"secrets\"",
    );
    let deleted = cluster.ask("jane", "DELETE", &mine, None);
    deleted.refuses(
        403,
        "Forbidden",
        "cannot deletecollection resource \"secrets\"",
    );
    let all = cluster.ask("root", "GET", SECRETS, None).expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    // Access to one namespace does not give access to another through the path.
    let other = "/api/v1/namespaces/default/namespaces/kube-system";
    assert_eq!(cluster.ask("root", "GET", other, None).code, 404);
}

#[test]
fn an_update_that_creates_takes_the_right_to_create() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let cluster = Guarded::start();
    let rule = |verb: &str| {
        json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": [verb]}])
    };
    cluster.allow("updates", rule("update"));
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "one"}});
    let one = format!("{LEASES}/one");
    cluster.jane("PUT", &one, &lease).refuses(
        403,
        "Forbidden",
        "User \"jane\" cannot create resource \"leases\"",
    );
    cluster.allow("creates", rule("create"));
    let made = cluster.jane("PUT", &one, &lease).expect(201);
    cluster.jane("PUT", &one, &made).expect(200);
}

pub(crate) fn signing_request(name: &str, group: &str, signer: &str) -> Value {
    let mut params = rcgen::CertificateParams::default();
    let organization = rcgen::DnType::OrganizationName;
    params.distinguished_name.push(organization, group);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let mut request = json!({"apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": signer, "usages": ["client auth"]}});
    request["spec"]["request"] = base64(pem.as_bytes()).into();
    request
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn requests_for_certificates_are_approved_by_approvers_alone() {
    const SIGNER: &str = "example.com/signer";
    let cluster = Guarded::start();
    let group = "certificates.k8s.io";
    let parts = json!([{"apiGroups": [group], "verbs": ["get", "update", "patch"],
        "resources": ["certificatesigningrequests", "certificatesigningrequests/status",
            "certificatesigningrequests/approval"]}]);
    cluster.allow("parts", parts);
    let made = signing_request("one", "devs", SIGNER);
    let stored = cluster.root("POST", REQUESTS, &made).expect(201);
    assert_eq!(stored["spec"]["username"], "root");
    let condition = |kind: &str| json!([{"type": kind, "status": "True", "reason": "Test"}]);
    let with = |kind: &str| {
        let mut changed = stored.clone();
        changed["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        changed["status"] = json!({"conditions": condition(kind)});
        changed
    };
    let (status, approval) = (
        format!("{REQUESTS}/one/status"),
        format!("{REQUESTS}/one/approval"),
    );
    let approved = with("Approved");
    // The status subresource cannot approve, for any user.
    for who in ["jane", "root"] {
        let told = cluster.ask(who, "PUT", &status, Some(&approved));
        told.refuses(
            422,
            "Invalid",
            "updates may not add a condition of type \"Approved\"",
        );
    }
    let told = cluster.jane("PUT", &status, &with("Failed"));
    let why = "user not permitted to sign requests with signerName \"example.com/signer\"";
    told.refuses(403, "Forbidden", why);
    let told = cluster.jane("PUT", &approval, &approved);
    let why = "user not permitted to approve requests with signerName \"example.com/signer\"";
    told.refuses(403, "Forbidden", why);
    let patch = json!({"status": {"conditions": condition("Approved")}}).to_string();
    let call = Call::new(&cluster.address, "PATCH", &approval)
        .header("Authorization", "Bearer jane-token")
        .body("application/merge-patch+json", patch);
    call.send()
        .refuses(403, "Forbidden", "not permitted to approve");
    // A write of the object itself changes neither status nor approval.
    let same = cluster
        .jane("PUT", &format!("{REQUESTS}/one"), &approved)
        .expect(200);
    assert_eq!(same["status"], stored["status"]);

    let signer = json!([{"apiGroups": [group], "resources": ["signers"],
        "resourceNames": ["example.com/*"], "verbs": ["approve"]}]);
    cluster.allow("approver", signer);
    let done = cluster.jane("PUT", &approval, &approved).expect(200);
    assert_eq!(done["status"]["conditions"][0]["type"], "Approved");
    assert!(done["status"]["conditions"][0]["lastUpdateTime"].is_string());
    let certificate = json!({"conditions": done["status"]["conditions"], "certificate": "AAAA"});
    let mut signed = done.clone();
    signed["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    signed["status"] = certificate;
    // The approval subresource cannot set a certificate.
    let told = cluster.jane("PUT", &approval, &signed).expect(200);
    assert_eq!(told["status"]["certificate"], Value::Null);
    let told = cluster.root("PUT", &status, &signed);
    told.refuses(
        422,
        "Invalid",
        "must contain at least one CERTIFICATE PEM block",
    );
    // An approval cannot be removed.
    let mut emptied = done.clone();
    emptied["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    emptied["status"] = json!({});
    let told = cluster.root("PUT", &status, &emptied);
    told.refuses(
        422,
        "Invalid",
        "updates may not remove a condition of type \"Approved\"",
    );
}

#[test]
fn nobody_asks_for_a_certificate_that_may_do_everything() {
    let cluster = Guarded::start();
    let client = "kubernetes.io/kube-apiserver-client";
    let asked = signing_request("root", "system:masters", client);
    let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    cluster
        .root("POST", REQUESTS, &asked)
        .refuses(403, "Forbidden", why);
    // Another signer has its own rules.
    let asked = signing_request("root", "system:masters", "example.com/signer");
    cluster.root("POST", REQUESTS, &asked).expect(201);
    let mut garbled = signing_request("garbled", "devs", client);
    garbled["spec"]["request"] = "AAAA".into();
    let told = cluster.root("POST", REQUESTS, &garbled);
    told.refuses(422, "Invalid", "PEM block type must be CERTIFICATE REQUEST");
    let mut useless = signing_request("useless", "devs", client);
    useless["spec"]["usages"] = json!(["flying"]);
    let told = cluster.root("POST", REQUESTS, &useless);
    told.refuses(
        422,
        "Invalid",
        "spec.usages[0]: Unsupported value: \"flying\"",
    );
}

/// As in Kubernetes, whatever `--anonymous-auth` says.
#[test]
fn nobody_without_credentials_may_do_everything() {
    let every = "--authorization-mode=AlwaysAllow";
    for flags in [&[every][..], &[every, "--anonymous-auth=true"]] {
        let cluster = Guarded::start_with(flags);
        let nobody = Call::new(&cluster.address, "GET", SECRETS).send();
        nobody.refuses(401, "Unauthorized", "Unauthorized");
        cluster.ask("jane", "GET", SECRETS, None).expect(200);
    }
}
