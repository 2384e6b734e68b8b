//! The plugin OwnerReferencesPermissionEnforcement.

use std::sync::Arc;

use apiserver::Config;
use apiserver::admission::plugins::owner_references::OwnerReferences;
use apiserver::auth::authorize::{Mode, Modes};
use apiserver::setup::Configured;
use serde_json::{Value, json};

use super::webhooks::world::World;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// A world in which `jane` writes config maps, `john` also deletes them, and `root` also changes
/// the finalizers of deployments.
async fn world() -> World {
    let world = World::set_up(Config {
        authorizer: Arc::new(Modes::new(&[Configured::Builtin(Mode::Rbac)]).unwrap()),
        plugins: vec![Arc::new(OwnerReferences)],
        ..Config::default()
    })
    .await;
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let writes = rule("", "configmaps", &["create", "patch"]);
    let deletes = rule("", "configmaps", &["delete"]);
    let finalizes = rule("apps", "deployments/finalizers", &["update"]);
    for (user, rules) in [
        ("jane", vec![&writes]),
        ("john", vec![&writes, &deletes]),
        ("root", vec![&writes, &deletes, &finalizes]),
    ] {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
        world.given(ROLES, &role).await;
        let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                "name": user}]});
        world.given(BINDINGS, &binding).await;
    }
    world
}

fn owned(name: &str, kind: &str, blocks: bool) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "apps/v1", "kind": kind, "name": "d", "uid": "u",
        "blockOwnerDeletion": blocks}]}})
}

fn forbidden(name: &str, why: &str) -> String {
    format!("configmaps {name:?} is forbidden: cannot set {why}")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_delete_an_object_gives_it_other_owners() {
    let world = world().await;
    let own = owned("own", "Deployment", false);
    // A new object has the owners that its maker wants: it need not have been made.
    let made = world.ask_as("jane", "POST", MAPS, &own).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let path = format!("{MAPS}/own");
    let data = json!({"data": {"a": "b"}});
    assert_eq!(world.ask_as("jane", "PATCH", &path, &data).await.code, 200);
    let free = json!({"metadata": {"ownerReferences": []}});
    let refused = world.ask_as("jane", "PATCH", &path, &free).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert_eq!(
        refused.message(),
        forbidden("own", "an ownerRef on a resource you can't delete: , <nil>")
    );
    assert_eq!(world.ask_as("john", "PATCH", &path, &free).await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_finalize_an_owner_makes_it_wait() {
    let world = world().await;
    let blocking = owned("m", "Deployment", true);
    let refused = world.ask_as("john", "POST", MAPS, &blocking).await;
    assert_eq!(
        refused.message(),
        forbidden(
            "m",
            "blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers \
             on: , <nil>"
        )
    );
    let made = world.ask_as("root", "POST", MAPS, &blocking).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let unknown = owned("n", "Department", true);
    let refused = world.ask_as("root", "POST", MAPS, &unknown).await;
    assert_eq!(
        refused.message(),
        forbidden(
            "n",
            "blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion \
             apps/v1 Kind Department: no matches for kind \"Department\" in version \"apps/v1\""
        )
    );
    // Who may finalize everything is not asked about kinds.
    world.given(MAPS, &unknown).await;
}
