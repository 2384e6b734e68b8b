//! The cluster's CA certificate in every namespace that is not being deleted.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::cache::{Caches, Changed};
use crate::decision::{Decision, change, create};
use crate::known::Key;
use crate::loops::namespace::is_going;
use crate::loops::{Context, Loop};
use crate::meta;

/// The config map that pods mount.
pub(crate) const NAME: &str = "kube-root-ca.crt";
const FIELD: &str = "ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
     using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
     usage is guaranteed across distributions of Kubernetes clusters.";

/// Publishes this certificate, in PEM; it does not run if that is empty.
pub(crate) struct RootCa(pub(crate) String);

impl Loop for RootCa {
    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher"
    }

    fn can_run(&self) -> bool {
        !self.0.is_empty()
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Namespace(diff) => {
                let new = diff.new.iter();
                new.for_each(|one| wake(meta::key(&one.metadata)));
            }
            Changed::ConfigMap(diff) => {
                let both = diff.old.iter().chain(&diff.new);
                let ours = both.filter(|one| meta::name(&one.metadata) == NAME);
                ours.for_each(|one| {
                    wake((String::new(), meta::namespace(&one.metadata).to_owned()));
                });
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(_) = caches.namespaces.at(key).filter(|one| !is_going(one)) else {
            return Decision::nothing();
        };
        let data = BTreeMap::from([(FIELD.to_owned(), self.0.clone())]);
        let Some(known) = caches.config_maps.get(&key.1, NAME) else {
            let annotation = (
                "kubernetes.io/description".to_owned(),
                DESCRIPTION.to_owned(),
            );
            return Decision::of(create(&ConfigMap {
                metadata: ObjectMeta {
                    namespace: Some(key.1.clone()),
                    name: Some(NAME.into()),
                    annotations: Some(BTreeMap::from([annotation])),
                    ..ObjectMeta::default()
                },
                data: Some(data),
                ..ConfigMap::default()
            }));
        };
        let mut wanted = json!({FIELD: self.0});
        let others = known.data.iter().flatten().map(|(key, _)| key);
        for other in others.filter(|key| *key != FIELD) {
            // Other keys are removed: pods would trust them as the cluster's certificate.
            wanted[other] = serde_json::Value::Null;
        }
        if known.data.as_ref() == Some(&data) {
            Decision::nothing()
        } else {
            Decision::of(change(known.as_ref(), json!({"data": wanted})))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::tests::fixtures::{bodies, caches, decide};

    #[test]
    fn the_config_map_has_the_certificate_and_nothing_else() {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"},
        });
        let decided = |objects: &[Value]| {
            let works = RootCa("PEM".into());
            bodies(&decide(&works, &caches(objects), ("", "n")))
        };
        let made = decided(std::slice::from_ref(&namespace));
        assert_eq!(made[0]["data"], json!({"ca.crt": "PEM"}));
        assert_eq!(made[0]["metadata"]["name"], NAME);
        let mut changed = made[0].clone();
        changed["data"] = json!({"ca.crt": "other", "more": "x"});
        let patch = decided(&[namespace.clone(), changed]);
        assert_eq!(patch[0]["data"], json!({"ca.crt": "PEM", "more": null}));
        assert_eq!(decided(&[namespace, made[0].clone()]), Vec::<Value>::new());
    }
}
