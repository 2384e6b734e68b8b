use machinery::schema;
use serde_json::json;

use super::*;
use crate::admission::{Chain, PLUGINS, Warnings};
use crate::auth::{Authorizer, User};
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;
use crate::storage::reader::Reader;

/// Allows one verb on roles in requests that name this one, as a webhook may do.
struct Allows(&'static str, &'static str);

impl Authorizer for Allows {
    fn authorize<'a>(&'a self, _: &'a Reader, asked: &'a auth::Attributes) -> Answer<'a, ()> {
        Box::pin(async move {
            let Allows(verb, name) = *self;
            let asks = [&asked.verb, &asked.resource, &asked.name].map(String::as_str);
            if asks == [verb, "roles", name] {
                return Ok(());
            }
            Err(rbac::forbidden(asked, ""))
        })
    }
}

/// Adds a rule to every role, as a webhook may do.
struct Grows;

impl Plugin for Grows {
    fn name(&self) -> &'static str {
        "Grows"
    }

    fn handles(&self, _: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        _: &'a Context,
        _: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> Answer<'a, ()> {
        object["rules"] = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        Box::pin(async { Ok(()) })
    }
}

/// Writes a role without rules as a user who holds no rights but these. The request may name it in
/// its path.
async fn write(allows: Allows, path_name: &str, more: Vec<Arc<dyn Plugin>>) -> Result<(), Status> {
    let authorizer = Arc::new(allows);
    let builtin = strategy::builtin().iter().cloned();
    let reader = Reader::without_store(Catalogue::new(builtin));
    let kind = schema::resource(rbac::GROUP, "v1", "roles").unwrap();
    let resource = reader.resource_of(kind).unwrap();
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(PrivilegeEscalation(Arc::default()))];
    plugins.extend(more);
    let off = PLUGINS.map(str::to_owned);
    let chain = Chain::new(Context { reader, authorizer }, plugins, &off);
    let user = User {
        name: "u".into(),
        ..User::default()
    };
    let attributes = Attributes {
        user: &user,
        operation: CREATE,
        kind,
        subresource: "",
        namespace: "ns",
        name: "x",
        path_name,
        old: None,
        dry: false,
        options: &Value::Null,
        resource: &resource,
        audit: None,
        warnings: &Warnings::default(),
    };
    let mut role = json!({"kind": "Role", "metadata": {"name": "x", "namespace": "ns"}});
    chain.mutate(&attributes, &mut role).await.map(drop)
}

#[tokio::test]
async fn what_a_role_grants_in_the_end_counts() {
    let allows = || Allows("create", "");
    write(allows(), "", Vec::new()).await.unwrap();
    let refused = write(allows(), "", vec![Arc::new(Grows)]);
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.code, 403, "{}", refused.message);
    let why = "is attempting to grant RBAC permissions not currently held";
    assert!(refused.message.contains(why), "{}", refused.message);
}

#[tokio::test]
async fn any_authorizer_may_exempt_from_the_check() {
    let allows = Allows("escalate", "");
    write(allows, "", vec![Arc::new(Grows)]).await.unwrap();
}

#[tokio::test]
async fn a_role_that_is_made_under_the_name_in_the_path_may_be_exempt_by_name() {
    let with = |path_name: &'static str| {
        let allows = Allows("escalate", "x");
        write(allows, path_name, vec![Arc::new(Grows)])
    };
    with("x").await.unwrap();
    assert_eq!(with("").await.unwrap_err().code, 403);
}
