//! The service account `default` in every namespace that is not being deleted.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cache::{Caches, Changed};
use crate::decision::{Decision, create};
use crate::known::Key;
use crate::loops::namespace::is_going;
use crate::loops::{Context, Loop};
use crate::meta;

const NAME: &str = "default";

pub(crate) struct ServiceAccounts;

impl Loop for ServiceAccounts {
    fn name(&self) -> &'static str {
        "serviceaccount"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Namespace(diff) => {
                let new = diff.new.iter();
                new.for_each(|one| wake(meta::key(&one.metadata)));
            }
            Changed::ServiceAccount(diff) if diff.new.is_none() => {
                let old = diff.old.iter();
                let ours = old.filter(|one| meta::name(&one.metadata) == NAME);
                ours.for_each(|one| {
                    wake((String::new(), meta::namespace(&one.metadata).to_owned()));
                });
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let missing = caches.service_accounts.get(&key.1, NAME).is_none();
        let Some(_) = caches
            .namespaces
            .at(key)
            .filter(|one| missing && !is_going(one))
        else {
            return Decision::nothing();
        };
        Decision::of(create(&ServiceAccount {
            metadata: ObjectMeta {
                namespace: Some(key.1.clone()),
                name: Some(NAME.into()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        }))
    }
}
