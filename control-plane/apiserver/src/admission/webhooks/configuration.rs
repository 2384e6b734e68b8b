//! The webhooks of one configuration, read once for each of its revisions.

use std::time::Duration;

use machinery::cel::admission::Compiler;
use machinery::object;
use serde_json::Value;

use super::super::conditions::Conditions;
use super::super::matching::Criteria;
use super::review::{V1, V1BETA1};
use crate::webhook::Endpoint;

/// The timeout of a webhook whose configuration has none.
const TIMEOUT: u64 = 10;

/// A configuration.
pub(super) struct Configuration {
    pub(super) webhooks: Vec<Webhook>,
}

/// One webhook of a configuration.
pub(super) struct Webhook {
    /// Unique among all webhooks of its kind.
    pub(super) id: String,
    pub(super) name: String,
    /// The name of its configuration.
    pub(super) configuration: String,
    pub(super) mutates: bool,
    pub(super) criteria: Criteria,
    /// What else a write has to be like.
    pub(super) conditions: Conditions,
    pub(super) ignores_failures: bool,
    /// Asked again after others changed the object.
    pub(super) reinvoked: bool,
    /// Without effects on anything else, at least in a dry run.
    pub(super) passes_dry_run: bool,
    pub(super) timeout: Duration,
    /// The first version of reviews that both sides know.
    pub(super) review_version: Option<&'static str>,
    /// Where it is, or why it cannot be called.
    pub(super) endpoint: Result<Endpoint, String>,
}

impl Configuration {
    pub(super) fn read(object: &Value) -> Configuration {
        let all = object::items(object, &["webhooks"]).iter().enumerate();
        let webhooks = all.map(|(at, one)| {
            let mutates = object::kind(object) == "MutatingWebhookConfiguration";
            Webhook::read(one, (object::name(object), at), mutates)
        });
        Configuration {
            webhooks: webhooks.collect(),
        }
    }
}

impl Webhook {
    /// Reads a webhook at a place of the configuration with this name.
    pub(super) fn read(
        webhook: &Value,
        (configuration, at): (&str, usize),
        mutates: bool,
    ) -> Webhook {
        let is = |key: &str, value: &str| object::text(webhook, &[key]) == value;
        let seconds = object::integer(webhook, &["timeoutSeconds"]);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let mut versions = object::items(webhook, &["admissionReviewVersions"]).iter();
        let known = |version: &Value| {
            let mut known = [("v1", V1), ("v1beta1", V1BETA1)].into_iter();
            known.find(|(name, _)| version == name)
        };
        Webhook {
            id: format!("{configuration}/{at}"),
            configuration: configuration.to_owned(),
            name: object::text(webhook, &["name"]).to_owned(),
            mutates,
            criteria: Criteria::read(webhook, "rules"),
            conditions: Conditions::read(webhook, &Compiler::new(false)),
            ignores_failures: is("failurePolicy", "Ignore"),
            reinvoked: is("reinvocationPolicy", "IfNeeded"),
            passes_dry_run: is("sideEffects", "None") || is("sideEffects", "NoneOnDryRun"),
            timeout: Duration::from_secs(seconds.unwrap_or(TIMEOUT)),
            review_version: versions.find_map(known).map(|(_, version)| version),
            endpoint: Endpoint::of(webhook.get("clientConfig").unwrap_or(&Value::Null)),
        }
    }
}
