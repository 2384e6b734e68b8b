//! Bodies of actions: evictions, bindings and requests for tokens.

use super::*;

#[tokio::test]
async fn a_body_is_of_the_object_that_its_path_names() {
    let (registry, user) = (registry(), User::default());
    let writer = |plural: &str| {
        let resource = registry.reader.resource("", "v1", plural);
        writer(&registry, &user, resource.unwrap())
    };
    let (pods, accounts) = (writer("pods"), writer("serviceaccounts"));
    let other = json!({"metadata": {"name": "a", "namespace": "other"}});
    for refused in [
        pods.evict("a", other.clone(), false).await.unwrap_err(),
        pods.bind("binding", "a", other.clone()).await.unwrap_err(),
        accounts.issue_token("a", other).await.unwrap_err(),
    ] {
        let why = "the namespace of the provided object does not match the namespace sent on \
                   the request";
        assert_eq!((refused.code, refused.message.as_str()), (400, why));
    }
    let nameless = pods.evict("a", json!({}), false).await.unwrap_err();
    let why = "name in URL does not match name in Eviction object";
    assert_eq!((nameless.code, nameless.message.as_str()), (400, why));
}
