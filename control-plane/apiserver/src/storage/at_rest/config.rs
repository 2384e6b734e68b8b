//! Reads and validates configuration files, with Kubernetes' error texts. No error shows a secret.

mod providers;
mod resources;

use std::collections::HashSet;

use machinery::status::{Cause, told_together};
use serde::Deserialize;
use serde_saphyr::options::Options;

use providers::ProviderOfFile;
pub(super) use providers::{Key, Kms, ProviderConfig};
pub(super) use resources::GroupResource;

const VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";

/// One entry of a valid configuration.
pub(super) struct ResourceConfig {
    pub(super) resources: Vec<GroupResource>,
    pub(super) providers: Vec<ProviderConfig>,
}

/// What kind of file it is; read first, because other kinds have other fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeOfFile {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    resources: Vec<ResourceConfigOfFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceConfigOfFile {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<ProviderOfFile>,
}

/// Parses and validates a configuration.
pub(super) fn parse(text: &str) -> Result<Vec<ResourceConfig>, String> {
    let mut options = Options::default();
    // A snippet could show a secret.
    options.with_snippet = false;
    let typed: TypeOfFile = serde_saphyr::from_str_with_options(text, options.clone())
        .map_err(|error| format!("failed decoding: {error}"))?;
    check_type(&typed)?;
    let file: File = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("strict decoding error: {error}"))?;
    let mut causes = Vec::new();
    let entries = file.read(&mut causes);
    if causes.is_empty() {
        Ok(entries)
    } else {
        Err(told_together(&causes))
    }
}

fn check_type(typed: &TypeOfFile) -> Result<(), String> {
    let TypeOfFile { api_version, kind } = typed;
    for (name, given) in [("kind", kind), ("apiVersion", api_version)] {
        if given.is_empty() {
            return Err(format!("{name} is missing: it must be {KIND} of {VERSION}"));
        }
    }
    if (api_version.as_str(), kind.as_str()) != (VERSION, KIND) {
        return Err(format!(
            "no kind {kind:?} is registered for version {api_version:?}: it must be {KIND} of \
             {VERSION}"
        ));
    }
    Ok(())
}

impl File {
    fn read(self, causes: &mut Vec<Cause>) -> Vec<ResourceConfig> {
        if self.resources.is_empty() {
            causes.push(Cause::required(
                "resources",
                "at least one resources is required",
            ));
        }
        let mut kms_names = HashSet::new();
        let mut entries = Vec::new();
        for (at, entry) in self.resources.into_iter().enumerate() {
            entries.push(entry.read(&format!("resources[{at}]"), &mut kms_names, causes));
        }
        entries
    }
}

impl ResourceConfigOfFile {
    fn read(
        self,
        place: &str,
        kms_names: &mut HashSet<String>,
        causes: &mut Vec<Cause>,
    ) -> ResourceConfig {
        let of_providers = format!("{place}.providers");
        let resources = resources::read(&self.resources, &format!("{place}.resources"), causes);
        if self.providers.is_empty() {
            let why = format!("at least one {of_providers} is required");
            causes.push(Cause::required(&of_providers, &why));
        }
        let providers = self.providers.into_iter().enumerate();
        let providers = providers.filter_map(|(at, provider)| {
            provider.read(&format!("{of_providers}[{at}]"), kms_names, causes)
        });
        ResourceConfig {
            providers: providers.collect(),
            resources,
        }
    }
}
