//! The Pod Security Standards: labels of namespaces, pods, and what creates pods.

use serde_json::{Value, json};

use crate::admission::webhooks::world::{World, pod};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const PREFIX: &str = "pod-security.kubernetes.io/";
const VIOLATIONS: &str = "allowPrivilegeEscalation != false (container \"c\" must set \
    securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
    securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
    securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
    securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

fn labels(labels: &[(&str, &str)]) -> Value {
    let labels = labels
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), Value::from(*value)));
    let labels: Value = labels.collect::<serde_json::Map<_, _>>().into();
    json!({"metadata": {"labels": labels}})
}

fn namespace(name: &str, given: &[(&str, &str)]) -> Value {
    let mut namespace = labels(given);
    namespace["kind"] = "Namespace".into();
    namespace["metadata"]["name"] = name.into();
    namespace
}

async fn shop(given: &[(&str, &str)]) -> World {
    let world = World::start().await;
    world.given(NAMESPACES, &namespace("shop", given)).await;
    world
}

fn on_host(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["hostPID"] = true.into();
    pod
}

/// The header with a warning.
fn warning(text: &str) -> String {
    let text = text.replace('"', "\\\"");
    format!("299 - \"{text}\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_violates_the_standard_is_refused_and_a_template_warned_of() {
    let world = shop(&[("enforce", "restricted")]).await;
    let refused = world.post(PODS, &pod("p")).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    let told = format!(
        "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": {VIOLATIONS}"
    );
    assert_eq!(refused.message(), told);
    assert_eq!(
        refused.body["details"],
        json!({"name": "p", "kind": "pods"})
    );
    assert_eq!(refused.warnings(), [""; 0]);
    let mut good = pod("good");
    good["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    good["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let made = world.post(PODS, &good).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.warnings(), [""; 0]);

    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("p")["spec"]});
    let deployment = json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let job = json!({"spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": pod("p")["spec"]["containers"]}}}});
    let mut cron_job = json!({"kind": "CronJob", "metadata": {"name": "c"}});
    cron_job["spec"] = json!({"schedule": "* * * * *", "jobTemplate": job});
    let bare = json!({"kind": "PodTemplate", "metadata": {"name": "t"}, "template": template});
    for (path, object) in [
        ("/apis/apps/v1/namespaces/shop/deployments", deployment),
        ("/apis/batch/v1/namespaces/shop/cronjobs", cron_job),
        ("/api/v1/namespaces/shop/podtemplates", bare),
    ] {
        let made = world.post(path, &object).await;
        assert_eq!(made.code, 201, "{path}: {}", made.body);
        let told = format!("would violate PodSecurity \"restricted:latest\": {VIOLATIONS}");
        assert_eq!(made.warnings(), [warning(&told)], "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standard_has_versions_and_may_only_warn() {
    let world = shop(&[
        ("enforce", "baseline"),
        ("warn", "restricted"),
        ("warn-version", "v1.7"),
    ])
    .await;
    let made = world.post(PODS, &pod("p")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let told = "would violate PodSecurity \"restricted:v1.7\": runAsNonRoot != true (pod or \
        container \"c\" must set securityContext.runAsNonRoot=true)";
    assert_eq!(made.warnings(), [warning(told)]);
    let refused = world.post(PODS, &on_host("h")).await;
    assert_eq!(
        refused.message(),
        "pods \"h\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_labels_of_a_namespace_are_refused() {
    let world = World::start().await;
    let wrong = namespace("shop", &[("enforce", "high"), ("warn-version", "1.2")]);
    let refused = world.post(NAMESPACES, &wrong).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert_eq!(
        refused.message(),
        "Namespace \"shop\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: \
         Invalid value: \"high\": must be one of privileged, baseline, restricted, \
         metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.2\": must be \
         \"latest\" or \"v1.x\"]"
    );
    world.given(NAMESPACES, &namespace("shop", &[])).await;
    let path = format!("{NAMESPACES}/shop");
    let wrong = labels(&[("audit", "all")]);
    let refused = world.ask("PATCH", &path, &wrong).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    let right = labels(&[("audit", "baseline")]);
    let changed = world.ask("PATCH", &path, &right).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stricter_level_warns_about_the_pods_that_are_there() {
    let world = shop(&[]).await;
    for name in ["b", "a", "c"] {
        world.given(PODS, &on_host(name)).await;
    }
    world.given(PODS, &pod("plain")).await;
    let path = format!("{NAMESPACES}/shop");
    let told = [
        warning(
            "existing pods in namespace \"shop\" violate the new PodSecurity enforce level \"baseline:latest\"",
        ),
        warning("a (and 2 other pods): host namespaces"),
    ];
    let strict = labels(&[("enforce", "baseline")]);
    let dry = format!("{path}?dryRun=All");
    let tried = world.ask("PATCH", &dry, &strict).await;
    assert_eq!(tried.warnings(), told, "{}", tried.body);
    let changed = world.ask("PATCH", &path, &strict).await;
    assert_eq!(changed.warnings(), told, "{}", changed.body);
    let relaxed = labels(&[("enforce", "privileged")]);
    let changed = world.ask("PATCH", &path, &relaxed).await;
    assert_eq!((changed.code, changed.warnings().len()), (200, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_are_evaluated_where_they_change_containers() {
    let world = shop(&[]).await;
    world.given(PODS, &on_host("p")).await;
    let path = format!("{NAMESPACES}/shop");
    let strict = labels(&[("enforce", "baseline")]);
    assert_eq!(world.ask("PATCH", &path, &strict).await.code, 200);
    let path = format!("{PODS}/p");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = world.ask("PATCH", &path, &labelled).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let status = json!({"status": {"phase": "Running"}});
    let path_of_status = format!("{path}/status");
    let changed = world.ask("PATCH", &path_of_status, &status).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "i:2"}]}});
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    let path_of_debug = format!("{path}/ephemeralcontainers");
    for (path, change) in [(path, image), (path_of_debug, debug)] {
        let refused = world.ask("PATCH", &path, &change).await;
        assert_eq!(refused.code, 403, "{path}: {}", refused.body);
        let why = "violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
        assert!(refused.message().ends_with(why), "{}", refused.message());
    }
}
