//! What expressions see of a write, and the rights that they ask about.

use std::collections::HashMap;

use machinery::cel::admission::{About, Decision, Inputs, Question, Target};
use machinery::status::Status;
use serde_json::Value;

use super::matching::{self, Matched};
use super::{Attributes, Context, request};
use crate::auth::user::{service_account_groups, service_account_name};
use crate::auth::{self, User};

/// A write in the version that a rule matched.
pub(super) struct Write {
    pub(super) object: Value,
    old_object: Value,
    request: Value,
    /// The namespace of the object; null if it has none, or is one itself.
    namespace: Value,
    target: Target,
}

/// The rights of one user, each decided once for a write.
pub(super) struct Rights<'a> {
    context: &'a Context,
    user: &'a User,
    decisions: HashMap<Question, Decision>,
}

impl Write {
    pub(super) async fn new(
        attributes: &Attributes<'_>,
        matched: &Matched,
        object: &Value,
        namespace: Value,
    ) -> Result<Write, Status> {
        let kind = attributes.kind;
        Ok(Write {
            object: matched.shown(attributes, object).await?.into_owned(),
            old_object: matched.old(attributes).await?,
            request: request::of(attributes, &matched.resource.kind),
            namespace,
            target: Target {
                group: kind.group().to_owned(),
                resource: kind.plural().to_owned(),
                subresource: attributes.subresource.to_owned(),
                namespace: matching::namespace(attributes).to_owned(),
                name: attributes.name.to_owned(),
            },
        })
    }

    /// What expressions see, with these parameters.
    pub(super) fn inputs<'a>(
        &'a self,
        params: &'a Value,
        decisions: &'a HashMap<Question, Decision>,
    ) -> Inputs<'a> {
        Inputs {
            object: &self.object,
            old_object: &self.old_object,
            params,
            request: &self.request,
            namespace: &self.namespace,
            target: &self.target,
            decisions,
        }
    }
}

impl<'a> Rights<'a> {
    pub(super) fn new(context: &'a Context, user: &'a User) -> Rights<'a> {
        Rights {
            context,
            user,
            decisions: HashMap::new(),
        }
    }

    /// The result of an evaluation. Whenever it needs a decision, that is made, and it is run
    /// again. This ends: each decision costs a part of the evaluation's budget.
    pub(super) async fn evaluate<T>(
        &mut self,
        run: impl Fn(&HashMap<Question, Decision>) -> Result<T, Question>,
    ) -> T {
        loop {
            match run(&self.decisions) {
                Ok(result) => return result,
                Err(question) => {
                    let decision = self.decide(&question).await;
                    self.decisions.insert(question, decision);
                }
            }
        }
    }

    async fn decide(&self, question: &Question) -> Decision {
        let mut asked = auth::Attributes {
            user: match &question.account {
                Some((namespace, name)) => User {
                    name: service_account_name(namespace, name),
                    groups: service_account_groups(namespace),
                    ..User::default()
                },
                None => self.user.clone(),
            },
            verb: question.verb.clone(),
            ..auth::Attributes::default()
        };
        match &question.about {
            About::Path(path) => asked.path = path.clone(),
            About::Resource(target) => {
                asked.api_group = target.group.clone();
                asked.resource = target.resource.clone();
                asked.subresource = target.subresource.clone();
                asked.namespace = target.namespace.clone();
                asked.name = target.name.clone();
            }
        }
        let Context { reader, authorizer } = self.context;
        match authorizer.decide(reader, &asked).await {
            Ok(decision) => Decision {
                allowed: decision.allowed,
                reason: decision.reason,
                error: None,
            },
            Err(status) => Decision {
                error: Some(status.message),
                ..Decision::default()
            },
        }
    }
}
