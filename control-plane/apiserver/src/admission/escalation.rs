//! Roles and bindings: prevents privilege escalation.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use machinery::status::Status;
use serde_json::Value;

use super::{Attributes, CREATE, Context, DELETE, Plugin};
use crate::auth::authorize::Rbac;
use crate::auth::authorize::rbac::{self, escalation};
use crate::auth::{self, Answer};

/// Refuses roles and bindings that grant more than their writer holds. Kubernetes checks this when
/// it stores them, so what policies and webhooks have added counts as the writer's.
pub struct PrivilegeEscalation(pub Arc<Rbac>);

impl Plugin for PrivilegeEscalation {
    fn name(&self) -> &'static str {
        "PrivilegeEscalation"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.kind.group() == rbac::GROUP
            && attributes.operation != DELETE
            && !attributes.user.is_this_process()
    }

    fn judge<'a>(
        &'a self,
        context: &'a Context,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Answer<'a, ()> {
        Box::pin(self.check(context, attributes, object))
    }
}

impl PrivilegeEscalation {
    async fn check(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        let made = attributes.operation == CREATE;
        let request = auth::Attributes {
            user: attributes.user.clone(),
            verb: if made { "create" } else { "update" }.into(),
            api_group: rbac::GROUP.into(),
            resource: attributes.kind.plural().into(),
            namespace: attributes.namespace.into(),
            name: attributes.path_name.into(),
            ..auth::Attributes::default()
        };
        let Some(right) = escalation::exemption(&request, object, attributes.old)? else {
            return Ok(());
        };
        let exempt = context.authorizer.decide(&context.reader, &right).await?;
        if exempt.allowed {
            return Ok(());
        }
        let policy = self.0.policy(&context.reader);
        escalation::check(&policy, &request, object, attributes.old)
    }
}
