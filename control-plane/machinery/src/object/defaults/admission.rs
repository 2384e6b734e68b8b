//! Defaults of webhook configurations and admission policies.

use serde_json::{Value, json};

use super::{HTTPS_PORT, below, default, default_absent, each, made};

/// How long a webhook may take if its configuration does not say, in seconds.
const WEBHOOK_SECONDS: u32 = 10;

pub(super) fn policy(object: &mut Value) {
    default_absent(made(object, &["spec"]), "failurePolicy", "Fail");
    below(object, &["spec", "matchConstraints"], matching);
}

pub(super) fn binding(object: &mut Value) {
    below(object, &["spec", "matchResources"], matching);
}

pub(super) fn webhooks(object: &mut Value) {
    each(object, &["webhooks"], |webhook| {
        default_absent(webhook, "failurePolicy", "Fail");
        default(webhook, "timeoutSeconds", WEBHOOK_SECONDS);
        below(webhook, &["clientConfig", "service"], |to| {
            default(to, "port", HTTPS_PORT)
        });
        each(webhook, &["rules"], |rule| {
            default_absent(rule, "scope", "*")
        });
        matching(webhook);
    });
}

pub(super) fn mutating_webhooks(object: &mut Value) {
    webhooks(object);
    each(object, &["webhooks"], |webhook| {
        default_absent(webhook, "reinvocationPolicy", "Never");
    });
}

fn matching(object: &mut Value) {
    default_absent(object, "matchPolicy", "Equivalent");
    default(object, "namespaceSelector", json!({}));
    default(object, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        each(object, &[rules], |rule| default_absent(rule, "scope", "*"));
    }
}
