//! Who may set the owners of an object: the garbage collector deletes the object with them, and an
//! owner may have to wait for the object.

use std::collections::HashMap;

use machinery::object;
use machinery::schema;
use machinery::status::Status;
use serde_json::Value;

use crate::admission::{Attributes, CREATE, Context, DELETE, Plugin};
use crate::auth::{self, Answer};

/// The name of the plugin.
pub const NAME: &str = "OwnerReferencesPermissionEnforcement";

/// Lets only users who may delete an object change its owners, and only users who may change the
/// finalizers of an owner make that wait.
pub struct OwnerReferences;

impl Plugin for OwnerReferences {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        // No status of a pod can change the owners.
        attributes.operation != DELETE
            && !attributes.is_about("", "pods", "status")
            && !attributes.user.is_this_process()
    }

    fn validate<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        new: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let old = attributes.old.map_or(&[][..], object::owner_references);
            if object::owner_references(new) == old {
                return Ok(());
            }
            if attributes.operation != CREATE {
                may_delete(context, attributes).await?;
            }
            let blocking = newly_blocking(new, old);
            if blocking.is_empty() || may_finalize_anything(context, attributes).await? {
                return Ok(());
            }
            for owner in blocking {
                may_finalize(context, attributes, owner).await?;
            }
            Ok(())
        })
    }
}

/// The owners that have to wait for the object and did not have to before.
fn newly_blocking<'a>(new: &'a Value, old: &[Value]) -> Vec<&'a Value> {
    let blocks = |owner: &Value| owner["blockOwnerDeletion"] == true;
    // Of several with one uid the last counts.
    let before = old
        .iter()
        .map(|owner| (object::text(owner, &["uid"]), blocks(owner)));
    let before: HashMap<&str, bool> = before.collect();
    let blocked = |owner: &Value| before.get(object::text(owner, &["uid"])) == Some(&true);
    let owners = object::owner_references(new).iter();
    owners
        .filter(|owner| blocks(owner) && !blocked(owner))
        .collect()
}

/// Whoever gives an object an owner can have it deleted.
async fn may_delete(context: &Context, attributes: &Attributes<'_>) -> Result<(), Status> {
    let asked = auth::Attributes {
        user: attributes.user.clone(),
        verb: "delete".into(),
        of_resource: true,
        api_group: attributes.kind.group().into(),
        resource: attributes.kind.plural().into(),
        subresource: attributes.subresource.into(),
        namespace: attributes.namespace.into(),
        name: attributes.name.into(),
        ..auth::Attributes::default()
    };
    let why = "cannot set an ownerRef on a resource you can't delete";
    allowed(context, attributes, &asked, why).await
}

/// Spares the search for the resources of the owners.
async fn may_finalize_anything(
    context: &Context,
    attributes: &Attributes<'_>,
) -> Result<bool, Status> {
    let all = || "*".to_owned();
    let asked = finalizers(attributes, all(), all(), all());
    let decision = context.authorizer.decide(&context.reader, &asked).await?;
    Ok(decision.allowed)
}

async fn may_finalize(
    context: &Context,
    attributes: &Attributes<'_>,
    owner: &Value,
) -> Result<(), Status> {
    let text = |key: &str| object::text(owner, &[key]);
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = schema::split_api_version(api_version);
    let Some(resource) = context.reader.named(group, version, kind) else {
        let why = format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
             APIVersion {api_version} Kind {kind}: no matches for kind {kind:?} in version \
             {api_version:?}"
        );
        return Err(attributes.forbidden(&why));
    };
    let mut asked = finalizers(
        attributes,
        group.into(),
        resource.kind.plural().into(),
        text("name").into(),
    );
    if resource.kind.namespaced() {
        asked.namespace = attributes.namespace.into();
    }
    let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't \
               set finalizers on";
    allowed(context, attributes, &asked, why).await
}

/// The right to change the finalizers of objects.
fn finalizers(
    attributes: &Attributes<'_>,
    api_group: String,
    resource: String,
    name: String,
) -> auth::Attributes {
    auth::Attributes {
        user: attributes.user.clone(),
        verb: "update".into(),
        of_resource: true,
        api_group,
        resource,
        subresource: "finalizers".into(),
        name,
        ..auth::Attributes::default()
    }
}

/// Refuses the write with this text if the user does not have the right.
async fn allowed(
    context: &Context,
    attributes: &Attributes<'_>,
    asked: &auth::Attributes,
    why: &str,
) -> Result<(), Status> {
    let decision = context.authorizer.decide(&context.reader, asked).await?;
    if decision.allowed {
        return Ok(());
    }
    // Kubernetes prints the error of its authorizer, too, which is none.
    let why = format!("{why}: {}, <nil>", decision.reason);
    Err(attributes.forbidden(&why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_that_wait_already_are_not_asked_about_again() {
        let owner = |uid: &str, blocks: Value| json!({"uid": uid, "blockOwnerDeletion": blocks});
        let new = json!({"metadata": {"ownerReferences": [
            owner("kept", true.into()),
            owner("changed", true.into()),
            owner("unset", true.into()),
            owner("new", true.into()),
            owner("free", false.into()),
            {"uid": "plain"},
        ]}});
        let old = [
            owner("kept", true.into()),
            owner("changed", false.into()),
            owner("unset", Value::Null),
        ];
        let uids: Vec<&str> = newly_blocking(&new, &old)
            .into_iter()
            .map(|owner| object::text(owner, &["uid"]))
            .collect();
        assert_eq!(uids, ["changed", "unset", "new"]);
        assert_eq!(newly_blocking(&new, &[]).len(), 4);
        assert!(newly_blocking(&json!({}), &old).is_empty());
    }

    #[test]
    fn many_owners_are_found_among_many() {
        let owner = |at: i32| json!({"uid": format!("{at:09}"), "blockOwnerDeletion": true});
        let old: Vec<Value> = (0..50_000).map(owner).collect();
        let new: Vec<Value> = (1..50_001).map(owner).collect();
        let new = json!({"metadata": {"ownerReferences": new}});
        assert_eq!(newly_blocking(&new, &old), [&owner(50_000)]);
    }
}
