//! Which resource has which providers.

use std::collections::HashMap;
use std::sync::Arc;

use super::cipher::Cipher;
use super::config::{GroupResource, Key, ProviderConfig, ResourceConfig};
use super::kms::{Intervals, Kms};
use super::provider::{Keys, Provider, Providers};
use super::signals::Signals;

/// Kubernetes has the first version of the gRPC contract behind a feature gate.
const KMS_V1: &str = "KMSv1 is deprecated and will only receive security updates going forward. \
    Use KMSv2 instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";

/// The providers of all resources that have some.
#[derive(Default)]
pub(super) struct Rules {
    by_resource: HashMap<GroupResource, Providers>,
    plugins: Vec<Arc<Kms>>,
}

impl Rules {
    /// Builds the providers of a valid configuration. Refuses a resource that an earlier wildcard
    /// covers already.
    pub(super) async fn new(
        entries: Vec<ResourceConfig>,
        signals: &Arc<Signals>,
    ) -> Result<Rules, String> {
        let mut rules = Rules::default();
        for config in entries {
            let mut providers = Vec::new();
            for one in config.providers {
                providers.push(Arc::new(rules.provider(one, signals).await?));
            }
            for resource in config.resources {
                for wider in [resource.all_of_group(), GroupResource::all()] {
                    if rules.by_resource.contains_key(&wider) {
                        return Err(format!(
                            "resource \"{resource}\" is masked by earlier rule \"{wider}\""
                        ));
                    }
                }
                let of_resource = rules.by_resource.entry(resource).or_default();
                of_resource.add(&providers);
            }
        }
        Ok(rules)
    }

    /// The KMS plugins of all providers.
    pub(super) fn plugins(&self) -> &[Arc<Kms>] {
        &self.plugins
    }

    async fn provider(
        &mut self,
        config: ProviderConfig,
        signals: &Arc<Signals>,
    ) -> Result<Provider, String> {
        let keys = match config {
            ProviderConfig::Identity => return Ok(Provider::Identity),
            ProviderConfig::AesCbc(keys) => Keys {
                prefix: "k8s:enc:aescbc:v1:",
                what: "AES",
                keys: ciphers(&keys, Cipher::aes_cbc)?,
            },
            ProviderConfig::AesGcm(keys) => Keys {
                prefix: "k8s:enc:aesgcm:v1:",
                what: "AES",
                keys: ciphers(&keys, Cipher::aes_gcm)?,
            },
            ProviderConfig::Secretbox(keys) => Keys {
                prefix: "k8s:enc:secretbox:v1:",
                what: "Secretbox",
                keys: ciphers(&keys, Cipher::secretbox)?,
            },
            ProviderConfig::Kms(kms) if kms.api_version == "v1" => return Err(KMS_V1.to_owned()),
            ProviderConfig::Kms(kms) => {
                let kms = Arc::new(Kms::start(&kms, Intervals::NORMAL, Arc::clone(signals)).await);
                self.plugins.push(Arc::clone(&kms));
                return Ok(Provider::Sealing(kms));
            }
        };
        Ok(Provider::Sealing(Arc::new(keys)))
    }

    /// The providers of a resource: by its name, else by its group, else those of everything.
    pub(super) fn of(&self, group: &str, resource: &str) -> Option<&Providers> {
        if self.by_resource.is_empty() {
            return None;
        }
        let one = GroupResource::new(group, resource);
        let wider = || self.by_resource.get(&one.all_of_group());
        let found = self.by_resource.get(&one).or_else(wider);
        found.or_else(|| self.by_resource.get(&GroupResource::all()))
    }
}

fn ciphers(
    keys: &[Key],
    cipher: fn(&[u8]) -> Option<Cipher>,
) -> Result<Vec<(String, Cipher)>, String> {
    let named = keys.iter().map(|key| {
        let Key { name, secret } = key;
        let wrong = || format!("error while creating cipher for named key {name}");
        Ok((format!("{name}:"), cipher(secret).ok_or_else(wrong)?))
    });
    named.collect()
}
