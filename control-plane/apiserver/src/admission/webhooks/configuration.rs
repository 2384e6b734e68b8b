//! The webhooks of one configuration, read once for each of its revisions.

use std::time::Duration;

use machinery::object;
use machinery::selector::LabelSelector;
use serde_json::Value;

use super::review::{V1, V1BETA1};
use crate::webhook::Endpoint;

/// The timeout of a webhook whose configuration has none.
const TIMEOUT: u64 = 10;

/// A configuration at one revision.
pub(super) struct Configuration {
    pub(super) revision: i64,
    pub(super) webhooks: Vec<Webhook>,
}

/// One webhook of a configuration.
pub(super) struct Webhook {
    /// Unique among all webhooks of its kind.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) mutates: bool,
    pub(super) rules: Vec<Rule>,
    /// Rules may also match another version of the object.
    pub(super) matches_equivalents: bool,
    /// `None` for a selector that cannot be read: it is an error for each write that it is about.
    pub(super) namespaces: Option<LabelSelector>,
    pub(super) objects: Option<LabelSelector>,
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

/// What a webhook is asked about. Each list may have `*`.
pub(super) struct Rule {
    pub(super) operations: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) versions: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) scope: String,
}

impl Configuration {
    pub(super) fn read(object: &Value, revision: i64) -> Configuration {
        let all = object::items(object, &["webhooks"]).iter().enumerate();
        let webhooks = all.map(|(at, one)| {
            let id = format!("{}/{at}", object::name(object));
            let mutates = object::kind(object) == "MutatingWebhookConfiguration";
            Webhook::read(one, id, mutates)
        });
        Configuration {
            revision,
            webhooks: webhooks.collect(),
        }
    }
}

impl Webhook {
    fn read(webhook: &Value, id: String, mutates: bool) -> Webhook {
        let is = |key: &str, value: &str| object::text(webhook, &[key]) == value;
        let selector = |key: &str| {
            let selector = webhook.get(key).unwrap_or(&Value::Null);
            LabelSelector::from_object(selector).ok()
        };
        let seconds = object::integer(webhook, &["timeoutSeconds"]);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let mut versions = object::items(webhook, &["admissionReviewVersions"]).iter();
        let known = |version: &Value| {
            let mut known = [("v1", V1), ("v1beta1", V1BETA1)].into_iter();
            known.find(|(name, _)| version == name)
        };
        Webhook {
            id,
            name: object::text(webhook, &["name"]).to_owned(),
            mutates,
            rules: object::items(webhook, &["rules"])
                .iter()
                .map(Rule::read)
                .collect(),
            matches_equivalents: is("matchPolicy", "Equivalent"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            ignores_failures: is("failurePolicy", "Ignore"),
            reinvoked: is("reinvocationPolicy", "IfNeeded"),
            passes_dry_run: is("sideEffects", "None") || is("sideEffects", "NoneOnDryRun"),
            timeout: Duration::from_secs(seconds.unwrap_or(TIMEOUT)),
            review_version: versions.find_map(known).map(|(_, version)| version),
            endpoint: Endpoint::of(webhook.get("clientConfig").unwrap_or(&Value::Null)),
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Rule {
        let texts = |key: &str| {
            let all = object::items(rule, &[key]).iter();
            all.filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect()
        };
        Rule {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: object::text(rule, &["scope"]).to_owned(),
        }
    }
}
