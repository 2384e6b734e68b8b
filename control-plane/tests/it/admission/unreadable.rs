//! What decides about requests and cannot be read refuses them: a policy whose value in the store
//! is damaged must not let everything pass.

use std::time::Instant;

use etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest};
use serde_json::{Value, json};

use crate::harness::cluster::{Cluster, WITHIN};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const CORE: &str = "/api/v1/namespaces/default";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const NOT_READY: &str = "is forbidden: not yet ready to handle request";

/// Objects of which one is damaged, and a request that they decide about.
struct Row {
    /// Paths of collections, and what is created there.
    given: Vec<(String, Value)>,
    /// The key of the object that is damaged.
    key: &'static str,
    path: String,
    body: Value,
    code: u16,
    why: &'static str,
}

fn object(kind: &str, name: &str, mut more: Value) -> Value {
    more["kind"] = kind.into();
    more["metadata"] = json!({"name": name});
    more
}

fn map() -> Value {
    json!({"kind": "ConfigMap", "metadata": {"generateName": "m-"}})
}

fn in_admission(plural: &str, object: Value) -> (String, Value) {
    (format!("{ADMISSION}/{plural}"), object)
}

fn pod(name: &str) -> Value {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    object("Pod", name, json!({"spec": spec}))
}

/// A policy about new maps that refuses them, with more in its spec, and its binding.
fn refusing(more: Value, binding: Value) -> Vec<(String, Value)> {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"]}]);
    let mut spec = json!({"matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false"}]});
    spec.as_object_mut().unwrap().extend(fields(more));
    let policy = object("ValidatingAdmissionPolicy", "p", json!({"spec": spec}));
    let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    spec.as_object_mut().unwrap().extend(fields(binding));
    let kind = "ValidatingAdmissionPolicyBinding";
    vec![
        in_admission("validatingadmissionpolicies", policy),
        in_admission(
            "validatingadmissionpolicybindings",
            object(kind, "b", json!({"spec": spec})),
        ),
    ]
}

/// A policy that writes into new maps, and its binding.
fn changing() -> Vec<(String, Value)> {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"]}]);
    let expression = "Object{metadata: Object.metadata{labels: Object.metadata.labels{a: 'b'}}}";
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": expression}}]});
    let policy = object("MutatingAdmissionPolicy", "p", json!({"spec": spec}));
    let spec = json!({"spec": {"policyName": "p"}});
    let binding = object("MutatingAdmissionPolicyBinding", "b", spec);
    vec![
        in_admission("mutatingadmissionpolicies", policy),
        in_admission("mutatingadmissionpolicybindings", binding),
    ]
}

fn fields(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

/// Kubernetes' own apiserver answers the rows of its group with this text, too.
fn of_the_group() -> Vec<Row> {
    let row = |given, key| Row {
        given,
        key,
        path: format!("{CORE}/configmaps"),
        body: map(),
        code: 403,
        why: NOT_READY,
    };
    let policy = || refusing(json!({}), json!({}));
    let webhooks = |kind, plural| {
        vec![in_admission(
            plural,
            object(kind, "w", json!({"webhooks": []})),
        )]
    };
    vec![
        row(policy(), "/registry/validatingadmissionpolicies/p"),
        row(policy(), "/registry/validatingadmissionpolicybindings/b"),
        row(changing(), "/registry/mutatingadmissionpolicies/p"),
        row(changing(), "/registry/mutatingadmissionpolicybindings/b"),
        row(
            webhooks(
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            ),
            "/registry/validatingwebhookconfigurations/w",
        ),
        row(
            webhooks(
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
            ),
            "/registry/mutatingwebhookconfigurations/w",
        ),
    ]
}

fn others() -> Vec<Row> {
    let kind = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}});
    let reference = |selects: Value| {
        let mut reference = json!({"namespace": "default", "parameterNotFoundAction": "Allow"});
        reference.as_object_mut().unwrap().extend(fields(selects));
        let mut given = refusing(kind.clone(), json!({"paramRef": reference}));
        let mut secret = object("Secret", "s", json!({}));
        secret["metadata"]["labels"] = json!({"for": "policies"});
        given.push((format!("{CORE}/secrets"), secret));
        given
    };
    let labels = json!({"selector": {"matchLabels": {"for": "policies"}}});
    let parameter = |selects| Row {
        given: reference(selects),
        key: "/registry/secrets/default/s",
        path: format!("{CORE}/configmaps"),
        body: map(),
        code: 422,
        why: "denied request: failed to configure binding: Internal error occurred: unable to decode",
    };
    let in_namespace = |plural: &str, kind, spec, key, path: String, body| Row {
        given: vec![(
            format!("{CORE}/{plural}"),
            object(kind, "o", json!({"spec": spec})),
        )],
        key,
        path,
        body,
        code: 500,
        why: "unable to decode",
    };
    vec![
        parameter(json!({"name": "s"})),
        parameter(labels),
        in_namespace(
            "resourcequotas",
            "ResourceQuota",
            json!({"hard": {"configmaps": "0"}}),
            "/registry/resourcequotas/default/o",
            format!("{CORE}/configmaps"),
            map(),
        ),
        in_namespace(
            "limitranges",
            "LimitRange",
            json!({"limits": [{"type": "Container", "max": {"cpu": "1"}}]}),
            "/registry/limitranges/default/o",
            format!("{CORE}/pods"),
            pod("free"),
        ),
        Row {
            given: vec![(
                BUDGETS.to_owned(),
                object(
                    "PodDisruptionBudget",
                    "d",
                    json!({"spec": {"minAvailable": 1, "selector": {}}}),
                ),
            )],
            key: "/registry/poddisruptionbudgets/default/d",
            path: format!("{CORE}/pods/running/eviction"),
            body: object("Eviction", "running", json!({})),
            code: 500,
            why: "unable to decode",
        },
    ]
}

pub(crate) fn damage(cluster: &Cluster, key: &str) {
    let request = PutRequest {
        key: key.as_bytes().to_vec().into(),
        value: b"no object".to_vec().into(),
        ..Default::default()
    };
    cluster.in_store(async |client| drop(client.kv().put(request).await.unwrap()));
}

pub(crate) fn remove(cluster: &Cluster, key: &str) {
    let request = DeleteRangeRequest {
        key: key.as_bytes().to_vec().into(),
        ..Default::default()
    };
    cluster.in_store(async |client| drop(client.kv().delete_range(request).await.unwrap()));
}

/// A cluster with a pod that runs, so that its eviction needs a budget.
fn cluster() -> Cluster {
    let cluster = Cluster::start();
    let path = format!("{CORE}/pods");
    let mut running = cluster.post(&path, &pod("running")).expect(201);
    running["status"] = json!({"phase": "Running"});
    let call = cluster.call("PUT", &format!("{path}/running/status"));
    call.json(&running).send().expect(200);
    cluster
}

#[test]
fn what_decides_and_cannot_be_read_refuses() {
    let mut cluster = cluster();
    for row in of_the_group().into_iter().chain(others()) {
        for (path, object) in &row.given {
            cluster.post(path, object).expect(201);
        }
        damage(&cluster, row.key);
        cluster.restart_apiserver();
        let told = cluster.post(&row.path, &row.body);
        let text = String::from_utf8_lossy(&told.body);
        assert_eq!(told.code, row.code, "{}: {text}", row.key);
        assert!(text.contains(row.why), "{}: {text}", row.key);
        // Without the damaged object everything passes, at once.
        remove(&cluster, row.key);
        for (path, object) in &row.given {
            let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            let code = cluster.call("DELETE", &path).send().code;
            assert!([200, 404].contains(&code), "{path}: {code}");
        }
        let begun = Instant::now();
        while cluster.post(&row.path, &row.body).code != 201 {
            assert!(begun.elapsed() < WITHIN, "{} is gone", row.key);
        }
    }
}

#[test]
fn what_cannot_be_read_keeps_nobody_from_mending_it() {
    let mut cluster = cluster();
    for (path, object) in refusing(json!({}), json!({})) {
        cluster.post(&path, &object).expect(201);
    }
    damage(&cluster, "/registry/validatingadmissionpolicies/p");
    cluster.restart_apiserver();
    let bindings = format!("{ADMISSION}/validatingadmissionpolicybindings");
    let deleted = cluster.call("DELETE", &format!("{bindings}/b")).send();
    assert_eq!(deleted.code, 200);
    let other = object(
        "ValidatingAdmissionPolicyBinding",
        "other",
        json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}}),
    );
    cluster.post(&bindings, &other).expect(201);
    // As in Kubernetes, policies are asked about configurations of webhooks.
    let webhooks = format!("{ADMISSION}/validatingwebhookconfigurations");
    let configuration = object(
        "ValidatingWebhookConfiguration",
        "w",
        json!({"webhooks": []}),
    );
    let told = cluster.post(&webhooks, &configuration);
    told.refuses(403, "Forbidden", NOT_READY);
    remove(&cluster, "/registry/validatingadmissionpolicies/p");
    let begun = Instant::now();
    while cluster.post(&webhooks, &configuration).code != 201 {
        assert!(begun.elapsed() < WITHIN, "the policy is gone");
    }
    // Webhooks are asked about neither.
    damage(&cluster, "/registry/validatingwebhookconfigurations/w");
    cluster.restart_apiserver();
    let told = cluster.post(&format!("{CORE}/configmaps"), &map());
    told.refuses(403, "Forbidden", NOT_READY);
    let mut another = configuration;
    another["metadata"]["name"] = "another".into();
    cluster.post(&webhooks, &another).expect(201);
}
