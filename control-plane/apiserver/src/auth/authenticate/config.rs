//! The configuration file of authentication: issuers of tokens, and who is let in without any, with
//! Kubernetes' rules and error texts.

#[cfg(test)]
mod tests;

use machinery::status::{Cause, told_together};
use serde::Deserialize;

use super::foreign_issuer::{self, Jwt};
use crate::basics::config_file::{self, Known};

const KIND: &str = "AuthenticationConfiguration";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const FIELDS: &[(&str, Known)] = &[
    ("jwt", Known::Fields(foreign_issuer::FIELDS)),
    (
        "anonymous",
        Known::Fields(&[
            ("enabled", Known::Anything),
            ("conditions", Known::Fields(&[("path", Known::Anything)])),
        ]),
    ),
];
/// Upper bound of issuers.
const ISSUERS_MAX: usize = 64;

/// A valid configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// The issuers whose tokens are let in.
    pub jwt: Vec<Jwt>,
    /// Requests without credentials; as the flags say if it is not given.
    pub anonymous: Option<Anonymous>,
}

/// Whether requests without credentials are let in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Anonymous {
    /// True if they are.
    pub enabled: bool,
    /// Only for these paths, unless there are none.
    pub conditions: Vec<AnonymousCondition>,
}

/// A path that requests without credentials may be for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AnonymousCondition {
    /// The whole path.
    pub path: String,
}

impl Anonymous {
    /// Every request, or none.
    pub fn all(enabled: bool) -> Anonymous {
        Anonymous {
            enabled,
            conditions: Vec::new(),
        }
    }

    /// True if requests for this path are let in.
    pub(crate) fn is_for(&self, path: &str) -> bool {
        let mut conditions = self.conditions.iter();
        self.enabled && (self.conditions.is_empty() || conditions.any(|one| one.path == path))
    }
}

/// Parses and validates a configuration. `ours` are the issuers of this server's own tokens.
/// `first` is what the configuration said of requests without credentials when the server started.
pub(crate) fn parse(
    text: &str,
    ours: &[String],
    first: Option<&Option<Anonymous>>,
) -> Result<Configuration, String> {
    if text.is_empty() {
        return Err("empty config data".to_owned());
    }
    let read: Configuration = config_file::read(text, KIND, &VERSIONS, FIELDS)?;
    let mut causes = Vec::new();
    check(&read, ours, &mut causes);
    if first.is_some_and(|first| *first != read.anonymous) {
        let why = "changed from initial configuration file";
        causes.push(Cause::forbidden("anonymous", why));
    }
    if causes.is_empty() {
        Ok(read)
    } else {
        let causes = told_together(&causes);
        Err(format!("invalid authentication configuration: {causes}"))
    }
}

fn check(read: &Configuration, ours: &[String], causes: &mut Vec<Cause>) {
    if read.jwt.len() > ISSUERS_MAX {
        causes.push(Cause::too_many("jwt", read.jwt.len(), ISSUERS_MAX));
        return;
    }
    let (mut urls, mut discovery) = (Vec::new(), Vec::new());
    for (at, one) in read.jwt.iter().enumerate() {
        let place = format!("jwt[{at}]");
        one.check(&place, ours, causes);
        let mut unique = |seen: &mut Vec<String>, field: &str, url: &str| {
            if seen.iter().any(|one| one == url) {
                let field = format!("{place}.issuer.{field}");
                causes.push(Cause::duplicate(&field, &url.into()));
            }
            seen.push(url.to_owned());
        };
        unique(&mut urls, "url", &one.issuer.url);
        if !one.issuer.discovery_url.is_empty() {
            unique(&mut discovery, "discoveryURL", &one.issuer.discovery_url);
        }
    }
    if let Some(anonymous) = &read.anonymous
        && !anonymous.enabled
        && !anonymous.conditions.is_empty()
    {
        let conditions = anonymous.conditions.iter();
        let shown: Vec<_> = conditions
            .map(|one| serde_json::json!({"Path": one.path}))
            .collect();
        let why = "enabled should be set to true when conditions are defined";
        causes.push(Cause::invalid("anonymous.conditions", &shown.into(), why));
    }
}
