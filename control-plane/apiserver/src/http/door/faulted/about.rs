//! What the body of a write says of its object, as far as faults depend on it.

use machinery::protobuf;
use serde::Deserialize;

use crate::http::media::yaml;

/// The name of the object, and the version that the write expects. All of it is empty for a body
/// without them, such as a JSON patch.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct About {
    metadata: Metadata,
    /// Of DeleteOptions.
    preconditions: Preconditions,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    generate_name: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Preconditions {
    resource_version: Option<String>,
}

impl About {
    /// Reads a body in any encoding. A body that cannot be read says nothing: the request itself
    /// is answered with what is wrong with it.
    pub(super) fn read(body: &[u8]) -> About {
        let read = if body.starts_with(&protobuf::MAGIC) {
            let decoded = protobuf::decode(body).ok();
            decoded.and_then(|object| serde_json::from_value(object).ok())
        } else if body.trim_ascii_start().starts_with(b"{") {
            serde_json::from_slice(body).ok()
        } else {
            let value = yaml::to_value(body);
            value.and_then(|object| serde_json::from_value(object).ok())
        };
        read.unwrap_or_default()
    }

    /// The name, or what the server generates one from.
    pub(super) fn name(&self) -> &str {
        let name = self
            .metadata
            .name
            .as_deref()
            .filter(|name| !name.is_empty());
        name.or(self.metadata.generate_name.as_deref())
            .unwrap_or_default()
    }

    /// True if the write depends on the version of the object.
    pub(super) fn expects_version(&self) -> bool {
        let versions = [
            &self.metadata.resource_version,
            &self.preconditions.resource_version,
        ];
        let given =
            |version: &&Option<String>| version.as_deref().is_some_and(|one| !one.is_empty());
        versions.iter().any(given)
    }
}
