//! Whole requests, generated: impersonation and authorization of each, by the modes Node and RBAC
//! with the bootstrap policy, compared with the filters of Kubernetes' own apiserver. What those
//! say is kept as digests in `chain.txt`; where Go is installed, they run again.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use machinery::selector::Operator;
use serde_json::{Value, json};

use super::{Program, folder, read};
use crate::auth::authorize::rbac;
use crate::auth::testing::Fixed;
use crate::auth::{Attributes, User};

/// Number of requests.
const REQUESTS: usize = 20_000;
/// Digests in a line of the file.
const IN_LINE: usize = 50;

const METHODS: [&str; 9] = [
    "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS",
];

/// Groups with their versions, and resources with the subresources of some.
const RESOURCES: [&str; 44] = [
    "api/v1 secrets",
    "api/v1 secrets",
    "api/v1 configmaps",
    "api/v1 pods",
    "api/v1 pods",
    "api/v1 pods/status",
    "api/v1 pods/log",
    "api/v1 pods/exec",
    "api/v1 pods/eviction",
    "api/v1 pods/binding",
    "api/v1 pods/proxy/deep/path",
    "api/v1 pods/ephemeralcontainers",
    "api/v1 nodes",
    "api/v1 nodes",
    "api/v1 nodes/status",
    "api/v1 nodes/proxy",
    "api/v1 namespaces",
    "api/v1 namespaces/finalize",
    "api/v1 namespaces/status",
    "api/v1 serviceaccounts",
    "api/v1 serviceaccounts/token",
    "api/v1 persistentvolumeclaims",
    "api/v1 persistentvolumeclaims/status",
    "api/v1 persistentvolumes",
    "api/v1 services",
    "api/v1 events",
    "api/v1 bindings",
    "apis/apps/v1 deployments",
    "apis/apps/v1 deployments/scale",
    "apis/apps/v1 deployments/status",
    "apis/certificates.k8s.io/v1 certificatesigningrequests",
    "apis/certificates.k8s.io/v1 certificatesigningrequests/approval",
    "apis/certificates.k8s.io/v1 certificatesigningrequests/status",
    "apis/certificates.k8s.io/v1beta1 podcertificaterequests",
    "apis/coordination.k8s.io/v1 leases",
    "apis/resource.k8s.io/v1 resourceclaims",
    "apis/resource.k8s.io/v1 resourceclaims/status",
    "apis/resource.k8s.io/v1 resourceslices",
    "apis/storage.k8s.io/v1 csinodes",
    "apis/storage.k8s.io/v1 volumeattachments",
    "apis/authorization.k8s.io/v1 selfsubjectaccessreviews",
    "apis/rbac.authorization.k8s.io/v1 roles",
    "apis/rbac.authorization.k8s.io/v1 clusterroles",
    "apis/example.com/v1 widgets",
];

const NAMESPACES: [&str; 8] = [
    "",
    "a",
    "a",
    "b",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "default",
];

const NAMES: [&str; 14] = [
    "", "", "", "mine", "mine", "other", "n", "m", "p", "s", "c", "v", "n-slice", "robot",
];

const PATHS: [&str; 26] = [
    "/",
    "/api",
    "/api/",
    "/api/v1",
    "/apis",
    "/apis/apps",
    "/apis/apps/v1",
    "/healthz",
    "/healthz/",
    "/healthz/etcd",
    "/livez",
    "/readyz",
    "//healthz",
    "/metrics",
    "/metrics/slis",
    "/version",
    "/version/",
    "/openapi/v2",
    "/openapi/v3/apis/apps/v1",
    "/logs/kube-apiserver.log",
    "/debug/pprof/profile",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/unknown/path",
    "/a%20b/%3Cc%3E",
    "/api/v1%2Fsecrets",
];

const QUERIES: [&str; 24] = [
    "",
    "",
    "",
    "fieldSelector=metadata.name%3Dmine",
    "fieldSelector=metadata.name%3Dn",
    "fieldSelector=metadata.name!%3Dmine",
    "fieldSelector=metadata.name%3Ds,metadata.namespace%3Da",
    "fieldSelector=spec.nodeName%3Dn",
    "fieldSelector=spec.nodeName%3D%3Dn",
    "fieldSelector=spec.nodeName%3Dm,status.phase%3DRunning",
    "fieldSelector=spec.nodeName!%3Dn",
    "fieldSelector=spec.nodeName%3Dn,x",
    "fieldSelector=metadata.name%3D..",
    "labelSelector=app%3Dweb",
    "labelSelector=app%20in%20(a,b),!c&fieldSelector=spec.nodeName%3Dn",
    "labelSelector=a%20in%20(&fieldSelector=metadata.name%3Dmine",
    "limit=x&fieldSelector=metadata.name%3Dmine",
    "limit=500&fieldSelector=metadata.name%3Dmine",
    "watch=1",
    "watch=true&fieldSelector=metadata.name%3Dc",
    "watch=true&fieldSelector=spec.nodeName%3Dn",
    "watch=false&fieldSelector=spec.nodeName%3Dm",
    "watch=0",
    "dryRun=All",
];

/// Headers in pairs, with lines between the pairs.
const IMPERSONATIONS: [&str; 34] = [
    "User mine",
    "User root",
    "User space",
    "User viewer",
    "User nobody",
    "User master",
    "User system:anonymous",
    "User system:kube-scheduler",
    "User system:node:n",
    "User system:node:m",
    "User system:node:Bad_Name",
    "User system:node:n\nGroup system:nodes",
    "User system:node:n\nUid 7",
    "User system:serviceaccount:a:robot",
    "User system:serviceaccount:b:robot",
    "User system:serviceaccount:a:agent",
    "User system:serviceaccount:a:robot\nGroup viewers",
    "User system:serviceaccount:bad",
    "User mine\nGroup viewers",
    "User nobody\nGroup viewers\nGroup admins",
    "User nobody\nGroup admins",
    "User nobody\nGroup system:masters",
    "User nobody\nGroup system:unauthenticated",
    "User nobody\nGroup a\nGroup b\nGroup c\nGroup d",
    "User mine\nUid 7",
    "User mine\nUid 8",
    "User mine\nExtra-Scopes view",
    "User mine\nExtra-Acme.com%2Fscopes view",
    "User mine\nExtra-Acme.com%2Fscopes edit",
    "User mine\nExtra-Acme.com%2Fscopes a\nExtra-Acme.com%2Fscopes b\nExtra-Acme.com%2Fscopes c\nExtra-Acme.com%2Fscopes d",
    "User viewer\nUid 7\nGroup viewers\nExtra-Acme.com%2Fscopes view",
    "Group viewers",
    "Uid 7",
    "User root\nGroup ",
];

/// A request, with the number of its user.
struct Asked {
    user: usize,
    method: &'static str,
    url: String,
    headers: Vec<(String, String)>,
}

/// The same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

fn url(random: &mut Random) -> String {
    if random.below(8) == 0 {
        return random.of(&PATHS).to_owned();
    }
    let (version, resource) = random.of(&RESOURCES).split_once(' ').unwrap();
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let mut url = format!("/{version}");
    if random.below(40) == 0 {
        url.push_str(random.of(&["/watch", "/proxy"]));
    }
    let namespace = random.of(&NAMESPACES);
    let mut is_left_out = || resource == "namespaces" && random.below(10) > 0;
    if !namespace.is_empty() && !is_left_out() {
        write!(url, "/namespaces/{namespace}").unwrap();
    }
    write!(url, "/{resource}").unwrap();
    let name = random.of(&NAMES);
    if !name.is_empty() {
        write!(url, "/{name}").unwrap();
        if !subresource.is_empty() {
            write!(url, "/{subresource}").unwrap();
        }
    }
    let query = random.of(&QUERIES);
    if !query.is_empty() {
        write!(url, "?{query}").unwrap();
    }
    url
}

fn requests(users: usize) -> Vec<Asked> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut one = || {
        let impersonates = random.below(5) < 2;
        Asked {
            // Those at the end may impersonate.
            user: if impersonates && random.below(3) > 0 {
                users - 1 - random.below(11)
            } else {
                random.below(users)
            },
            method: random.of(&METHODS),
            url: url(&mut random),
            headers: if impersonates {
                let lines = random.of(&IMPERSONATIONS).lines();
                let pairs = lines.map(|line| line.split_once(' ').unwrap());
                pairs
                    .map(|(name, value)| (format!("Impersonate-{name}"), value.to_owned()))
                    .collect()
            } else {
                Vec::new()
            },
        }
    };
    (0..REQUESTS).map(|_| one()).collect()
}

fn rules() -> (Vec<User>, Fixed) {
    let text = std::fs::read(folder().join("chain.json")).unwrap();
    let rules: Value = serde_json::from_slice(&text).unwrap();
    let mut fixed = Fixed::default();
    for object in rbac::bootstrap::objects() {
        fixed.put(&object);
    }
    for object in rules["objects"].as_array().unwrap() {
        fixed.put(object);
    }
    let users = rules["users"].as_array().unwrap().iter();
    let users = users.map(|user| User {
        name: user["name"].as_str().unwrap().to_owned(),
        uid: user["uid"].as_str().unwrap_or_default().to_owned(),
        groups: serde_json::from_value(user["groups"].clone()).unwrap(),
        extra: serde_json::from_value(user["extra"].clone()).unwrap_or_default(),
    });
    (users.collect(), fixed)
}

/// The answer to a request: an array as the Go program prints it.
fn answer(fixed: &Fixed, user: &User, one: &Asked) -> Value {
    let method = Method::from_bytes(one.method.as_bytes()).unwrap();
    let (path, query) = one.url.split_once('?').unwrap_or((&one.url, ""));
    let info = read(&method, path, query);
    let mut asked = Attributes {
        user: user.clone(),
        ..info.attributes
    };
    let mut headers = HeaderMap::new();
    for (name, value) in &one.headers {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    let mut constraint = "";
    match fixed.impersonate(&headers, &asked) {
        Ok(None) => {}
        Ok(Some(other)) => {
            asked.user = other.user;
            constraint = other.constraint;
        }
        Err(status) => return json!([status.code, status.message]),
    }
    let decision = fixed.decide(&asked);
    if !decision.allowed {
        let status = rbac::forbidden(&asked, &decision.reason);
        return json!([status.code, status.message]);
    }
    let fields = asked.fields.requirements.iter().map(|one| {
        let operator = if one.negated { "!=" } else { "=" };
        format!("{}{operator}{}", one.field, one.value)
    });
    let labels = asked
        .labels
        .requirements
        .iter()
        .map(|one| match one.operator {
            Operator::DoesNotExist => format!("!{}", one.key),
            Operator::In => format!("{} in ({})", one.key, one.values.join(",")),
            _ => format!("{}={}", one.key, one.values.join(",")),
        });
    let selected: Vec<String> = fields.chain(labels).collect();
    let User {
        name,
        uid,
        groups,
        extra,
    } = &asked.user;
    json!([
        200,
        name,
        uid,
        groups,
        extra,
        asked.verb,
        asked.api_group,
        asked.resource,
        asked.subresource,
        asked.namespace,
        asked.name,
        selected,
        constraint,
        decision.reason
    ])
}

fn digest(answer: &Value) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in answer.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{:04x}", (hash >> 32) as u16)
}

fn kept() -> Vec<String> {
    let text = std::fs::read_to_string(folder().join("chain.txt")).unwrap();
    let letters: Vec<char> = text.chars().filter(|letter| *letter != '\n').collect();
    letters
        .chunks(4)
        .map(|four| four.iter().collect())
        .collect()
}

fn shown(users: &[User], one: &Asked) -> String {
    let user = &users[one.user].name;
    format!("{user}: {} {} {:?}", one.method, one.url, one.headers)
}

#[test]
fn twenty_thousand_requests_are_decided_as_kubernetes_decides_them() {
    let (users, fixed) = rules();
    let (requests, kept) = (requests(users.len()), kept());
    assert_eq!(requests.len(), kept.len());
    let mut allowed = 0;
    let mut wrong = Vec::new();
    for (one, kept) in requests.iter().zip(kept) {
        let ours = answer(&fixed, &users[one.user], one);
        allowed += usize::from(ours[0] == 200);
        if digest(&ours) != kept {
            wrong.push(format!("{}: {ours}", shown(&users, one)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(5)]
    );
    // A matrix where hardly anything is allowed, or refused, would show nothing.
    assert!(
        (REQUESTS / 10..REQUESTS * 9 / 10).contains(&allowed),
        "{allowed}"
    );
}

/// Runs Kubernetes' own code; `STELE_BLESS` writes digests of its answers to the file.
#[test]
fn the_filters_of_kubernetes_decide_the_same() {
    let (users, fixed) = rules();
    let requests = requests(users.len());
    let lines = requests.iter().map(|one| {
        let line = json!({"User": one.user, "Method": one.method, "URL": one.url,
            "Headers": one.headers});
        format!("{line}\n")
    });
    let Some(theirs) = Program::run(&["chain.json", "chain"], lines.collect()) else {
        return;
    };
    let theirs: Vec<Value> = theirs
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(theirs.len(), requests.len());
    if std::env::var_os("STELE_BLESS").is_some() {
        let digests: Vec<String> = theirs.iter().map(digest).collect();
        let lines = digests.chunks(IN_LINE).map(|line| line.concat() + "\n");
        std::fs::write(folder().join("chain.txt"), lines.collect::<String>()).unwrap();
    }
    let mut wrong = Vec::new();
    for (one, theirs) in requests.iter().zip(&theirs) {
        let ours = answer(&fixed, &users[one.user], one);
        if ours != *theirs {
            wrong.push(format!(
                "{}\n  ours   {ours}\n  theirs {theirs}",
                shown(&users, one)
            ));
        }
    }
    let some = wrong
        .iter()
        .take(20)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(wrong.is_empty(), "{} differ:\n{some}", wrong.len());
    let theirs: Vec<String> = theirs.iter().map(digest).collect();
    assert_eq!(theirs, kept(), "the file is not what Kubernetes says");
}
