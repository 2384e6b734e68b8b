//! What authentication, impersonation and authorization count, under Kubernetes' names.

use std::time::Duration;

use super::{Decision, User};
use crate::basics::metrics::{FROM_MILLISECOND, Family};

static USERS: Family = Family::counter(
    "authenticated_user_requests",
    "[ALPHA] Counter of authenticated requests broken out by username.",
    &["username"],
);
static AUTHENTICATIONS: Family = Family::counter(
    "authentication_attempts",
    "[ALPHA] Counter of authenticated attempts.",
    &["result"],
);
static AUTHENTICATION_SECONDS: Family = Family::histogram(
    "authentication_duration_seconds",
    "[ALPHA] Authentication duration in seconds broken out by result.",
    &["result"],
    FROM_MILLISECOND,
);
static AUTHORIZATIONS: Family = Family::counter(
    "authorization_attempts_total",
    "[ALPHA] Counter of authorization attempts broken down by result. It can be either 'allowed', \
     'denied', 'no-opinion' or 'error'.",
    &["result"],
);
static AUTHORIZATION_SECONDS: Family = Family::histogram(
    "authorization_duration_seconds",
    "[ALPHA] Authorization duration in seconds broken out by result.",
    &["result"],
    FROM_MILLISECOND,
);
static DECISIONS: Family = Family::counter(
    "apiserver_authorization_decisions_total",
    "[ALPHA] Total number of terminal decisions made by an authorizer split by authorizer type, \
     name, and decision.",
    &["type", "name", "decision"],
);
static WEBHOOK_EVALUATIONS: Family = Family::counter(
    "apiserver_authorization_webhook_evaluations_total",
    "[ALPHA] Round-trips to authorization webhooks.",
    &["name", "result"],
);
static WEBHOOK_SECONDS: Family = Family::histogram(
    "apiserver_authorization_webhook_duration_seconds",
    "[ALPHA] Request latency in seconds.",
    &["name", "result"],
    &[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    ],
);
static WEBHOOK_OPEN: Family = Family::counter(
    "apiserver_authorization_webhook_evaluations_fail_open_total",
    "[ALPHA] NoOpinion results due to webhook timeout or error.",
    &["name", "result"],
);
static CONDITION_ERRORS: Family = Family::counter(
    "apiserver_authorization_match_condition_evaluation_errors_total",
    "[ALPHA] Total number of errors when an authorization webhook encounters a match condition \
     error split by authorizer type and name.",
    &["type", "name"],
);
static CONDITION_EXCLUSIONS: Family = Family::counter(
    "apiserver_authorization_match_condition_exclusions_total",
    "[ALPHA] Total number of exclusions when an authorization webhook is skipped because match \
     conditions exclude it.",
    &["type", "name"],
);
static CONDITION_SECONDS: Family = Family::histogram(
    "apiserver_authorization_match_condition_evaluation_seconds",
    "[ALPHA] Authorization match condition evaluation time in seconds, split by authorizer type \
     and name.",
    &["type", "name"],
    &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25],
);
static IMPERSONATIONS: Family = Family::counter(
    "apiserver_impersonation_attempts_total",
    "[ALPHA] Total number of impersonation attempts split by mode and decision.",
    &["mode", "decision"],
);
static IMPERSONATION_SECONDS: Family = Family::histogram(
    "apiserver_impersonation_attempts_duration_seconds",
    "[ALPHA] Latency of impersonation attempts in seconds split by mode and decision.",
    &["mode", "decision"],
    FROM_MILLISECOND,
);
static IMPERSONATION_CHECKS: Family = Family::counter(
    "apiserver_impersonation_authorization_attempts_total",
    "[ALPHA] Total number of authorization checks made by the impersonation handler split by mode \
     and decision.",
    &["mode", "decision"],
);
static IMPERSONATION_CHECK_SECONDS: Family = Family::histogram(
    "apiserver_impersonation_authorization_attempts_duration_seconds",
    "[ALPHA] Latency of authorization checks made by the impersonation handler in seconds split by \
     mode and decision.",
    &["mode", "decision"],
    FROM_MILLISECOND,
);
pub(super) static LEGACY_TOKENS: Family = Family::counter(
    "serviceaccount_legacy_tokens_total",
    "[ALPHA] Cumulative legacy service account tokens used",
    &[],
);
pub(super) static LEGACY_MANUAL_TOKENS: Family = Family::counter(
    "serviceaccount_legacy_manual_token_uses_total",
    "[ALPHA] Cumulative manually created legacy tokens used",
    &[],
);
pub(super) static LEGACY_AUTO_TOKENS: Family = Family::counter(
    "serviceaccount_legacy_auto_token_uses_total",
    "[ALPHA] Cumulative auto-generated legacy tokens used",
    &[],
);
pub(super) static LEGACY_INVALID_TOKENS: Family = Family::counter(
    "serviceaccount_invalid_legacy_auto_token_uses_total",
    "[ALPHA] Cumulative invalid auto-generated legacy tokens used",
    &[],
);
pub(super) static VALID_TOKENS: Family = Family::counter(
    "serviceaccount_valid_tokens_total",
    "[ALPHA] Cumulative valid projected service account tokens used",
    &[],
);

/// All families.
pub(crate) static ALL: [&Family; 21] = [
    &USERS,
    &AUTHENTICATIONS,
    &AUTHENTICATION_SECONDS,
    &AUTHORIZATIONS,
    &AUTHORIZATION_SECONDS,
    &DECISIONS,
    &WEBHOOK_EVALUATIONS,
    &WEBHOOK_SECONDS,
    &WEBHOOK_OPEN,
    &CONDITION_ERRORS,
    &CONDITION_EXCLUSIONS,
    &CONDITION_SECONDS,
    &IMPERSONATIONS,
    &IMPERSONATION_SECONDS,
    &IMPERSONATION_CHECKS,
    &IMPERSONATION_CHECK_SECONDS,
    &LEGACY_TOKENS,
    &LEGACY_MANUAL_TOKENS,
    &LEGACY_AUTO_TOKENS,
    &LEGACY_INVALID_TOKENS,
    &VALID_TOKENS,
];

/// Counts an authentication. `has_credentials` is false if the request shows nothing.
pub(crate) fn authenticated(user: Option<&User>, has_credentials: bool, took: Duration) {
    let result = match user {
        Some(user) => {
            USERS.count(&[class(&user.name)]);
            "success"
        }
        None if has_credentials => "error",
        None => "failure",
    };
    AUTHENTICATIONS.count(&[result]);
    AUTHENTICATION_SECONDS.took(&[result], took);
}

/// Counts an authorization; `None` if there was no decision.
pub(crate) fn authorized(decision: Option<&Decision>, took: Duration) {
    let result = match decision {
        Some(decision) if decision.allowed => "allowed",
        Some(Decision {
            error: None,
            denied: true,
            ..
        }) => "denied",
        Some(Decision { error: None, .. }) => "no-opinion",
        _ => "error",
    };
    AUTHORIZATIONS.count(&[result]);
    AUTHORIZATION_SECONDS.took(&[result], took);
}

/// Counts what one authorizer decides, if it does.
pub(super) fn decided(kind: &str, name: &str, decision: &Decision) {
    if decision.allowed || decision.denied {
        let word = if decision.allowed {
            "allowed"
        } else {
            "denied"
        };
        DECISIONS.count(&[kind, name, word]);
    }
}

/// Counts a question to a webhook, and whether its failure leaves the decision to others.
pub(super) fn asked_webhook(name: &str, failure: Option<&str>, is_open: bool, took: Duration) {
    let result = match failure {
        None => "success",
        Some(why) if why.contains("deadline") || why.contains("timed out") => "timeout",
        Some(_) => "error",
    };
    WEBHOOK_EVALUATIONS.count(&[name, result]);
    WEBHOOK_SECONDS.took(&[name, result], took);
    if failure.is_some() && is_open {
        WEBHOOK_OPEN.count(&[name, result]);
    }
}

/// Counts an evaluation of the conditions of a webhook.
pub(super) fn evaluated_conditions(name: &str, result: &Result<bool, String>, took: Duration) {
    let labels = ["Webhook", name];
    CONDITION_SECONDS.took(&labels, took);
    match result {
        Ok(true) => {}
        Ok(false) => CONDITION_EXCLUSIONS.count(&labels),
        Err(_) => CONDITION_ERRORS.count(&labels),
    }
}

/// Counts an impersonation; `mode` is empty if it is refused.
pub(super) fn impersonated(mode: &str, allowed: bool, took: Duration) {
    let labels = [mode, word(allowed)];
    IMPERSONATIONS.count(&labels);
    IMPERSONATION_SECONDS.took(&labels, took);
}

/// Counts a question about rights that an impersonation takes.
pub(super) fn checked_impersonation(mode: &str, allowed: bool, took: Duration) {
    let labels = [mode, word(allowed)];
    IMPERSONATION_CHECKS.count(&labels);
    IMPERSONATION_CHECK_SECONDS.took(&labels, took);
}

fn word(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "denied" }
}

/// The class of a user. Names themselves are not shown.
fn class(name: &str) -> &str {
    const KNOWN: [&str; 5] = [
        "admin",
        "client",
        "kube_proxy",
        "kubelet",
        "system:serviceaccount:kube-system:default",
    ];
    match name {
        name if KNOWN.contains(&name) => name,
        name if name.contains('@') => "email_id",
        _ => "other",
    }
}
