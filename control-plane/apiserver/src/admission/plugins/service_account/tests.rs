use super::*;

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn admitted(mut pod: Value, account: Value) -> Value {
    super::account(&mut pod).unwrap();
    apply(&mut pod, &account, "kube-api-access-abcde").unwrap();
    pod
}

#[test]
fn a_pod_gets_the_default_account_and_its_token() {
    let pod = admitted(
        pod(json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]})),
        json!({}),
    );
    let spec = &pod["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    let mount = json!({
        "name": "kube-api-access-abcde", "readOnly": true,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    });
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
    assert_eq!(spec["initContainers"][0]["volumeMounts"], json!([mount]));
    let volume = &spec["volumes"][0];
    assert_eq!(volume["name"], "kube-api-access-abcde");
    assert_eq!(volume["projected"]["defaultMode"], 420);
    let sources = volume["projected"]["sources"].as_array().unwrap();
    assert_eq!(sources[0]["serviceAccountToken"]["expirationSeconds"], 3607);
    assert_eq!(sources[1]["configMap"]["name"], "kube-root-ca.crt");
    assert_eq!(sources.len(), 3);
}

#[test]
fn pod_and_account_may_do_without_the_token() {
    let containers = json!([{"name": "c"}]);
    let refuses = json!({"automountServiceAccountToken": false});
    let pod_without = pod(json!({
        "containers": containers, "automountServiceAccountToken": false,
    }));
    assert_eq!(
        admitted(pod_without, json!({}))["spec"].get("volumes"),
        None
    );
    let plain = pod(json!({ "containers": containers }));
    assert_eq!(
        admitted(plain, refuses.clone())["spec"].get("volumes"),
        None
    );
    let wants = pod(json!({"containers": containers, "automountServiceAccountToken": true}));
    assert_eq!(
        admitted(wants, refuses)["spec"]["volumes"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn what_is_mounted_already_stays() {
    let own = json!([{"mountPath": MOUNT_PATH, "name": "mine"}]);
    let pod_with = pod(json!({"containers": [{"name": "c", "volumeMounts": own}]}));
    let spec = admitted(pod_with, json!({}))["spec"].clone();
    assert_eq!(spec["containers"][0]["volumeMounts"], own);
    assert_eq!(spec.get("volumes"), None);

    let volumes = json!([{"name": "kube-api-access-mine", "projected": {}}]);
    let pod_with = pod(json!({"containers": [{"name": "c"}], "volumes": volumes}));
    let spec = admitted(pod_with, json!({}))["spec"].clone();
    assert_eq!(spec["volumes"], volumes);
    assert_eq!(
        spec["containers"][0]["volumeMounts"][0]["name"],
        "kube-api-access-mine"
    );
}

#[test]
fn secrets_for_images_come_from_the_account_unless_the_pod_has_its_own() {
    let account = json!({"imagePullSecrets": [{"name": "a"}, {"name": "b"}]});
    let plain = admitted(pod(json!({})), account.clone());
    assert_eq!(
        plain["spec"]["imagePullSecrets"],
        json!([{"name": "a"}, {"name": "b"}])
    );
    let own = json!([{"name": "mine"}]);
    let with = admitted(pod(json!({"imagePullSecrets": own})), account);
    assert_eq!(with["spec"]["imagePullSecrets"], own);
}

#[test]
fn a_mirrored_pod_has_no_account_and_no_secrets() {
    let mirror = |spec: Value| {
        let mut pod = pod(spec);
        pod["metadata"]["annotations"] = json!({MIRROR_POD: "x"});
        account(&mut pod)
    };
    assert_eq!(mirror(json!({})), Ok(None));
    for spec in [
        json!({"serviceAccountName": "default"}),
        json!({"volumes": [{"secret": {"secretName": "s"}}]}),
        json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]}),
        json!({"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
    ] {
        assert!(mirror(spec.clone()).is_err(), "{spec}");
    }
}

#[test]
fn an_account_may_allow_its_own_secrets_only() {
    let account = json!({
        "metadata": {"name": "a", "annotations": {ENFORCE: "true"}},
        "secrets": [{"name": "mine"}],
    });
    let uses = |secret: &str| {
        let variable = json!({"name": "V", "valueFrom": {"secretKeyRef": {"name": secret}}});
        pod(json!({"containers": [{"name": "c", "env": [variable]}]}))
    };
    apply(&mut uses("mine"), &account, "v").unwrap();
    assert_eq!(
        apply(&mut uses("other"), &account, "v").unwrap_err(),
        "container c with envVar V referencing secret.secretName=\"other\" is not allowed because \
         service account a does not reference that secret"
    );
}
