//! Asks a webhook what users may do, with a SubjectAccessReview of `authorization.k8s.io`.

mod spec;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use machinery::cel::access::Expression;
use machinery::object;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::config::WebhookOptions;
use crate::auth::{Attributes, Decision, metrics};
use crate::webhook::answer;
use crate::webhook::caller::Caller;
use crate::webhook::kept::{Kept, key};

/// The API group of reviews.
const GROUP: &str = "authorization.k8s.io";
/// The pause after the first attempt; it grows.
const PAUSE: Duration = Duration::from_millis(500);
/// Upper bound of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Upper bound of kept answers.
const ANSWERS_MAX: usize = 8192;
/// Decisions about requests whose attributes have this many bytes are not kept: clients choose
/// them.
const KEPT_BYTES_MAX: usize = 10_000;

/// A webhook that decides.
pub(super) struct Webhook {
    name: String,
    asked: Arc<Asked>,
    kept: Arc<Kept<Decision>>,
    conditions: Vec<Expression>,
    denies_on_error: bool,
}

/// The webhook itself.
struct Asked {
    caller: Caller,
    version: String,
    pause: Duration,
    keep_allowed: Duration,
    keep_others: Duration,
}

impl Webhook {
    /// Reads the kubeconfig. Nothing is sent before the first request.
    pub(super) fn open(options: &WebhookOptions) -> Result<Webhook, String> {
        Webhook::pausing(options, PAUSE)
    }

    /// The same; `pause` is the one after the first attempt.
    fn pausing(options: &WebhookOptions, pause: Duration) -> Result<Webhook, String> {
        let keep = |is_kept: bool, how_long| if is_kept { how_long } else { Duration::ZERO };
        Ok(Webhook {
            name: options.name.clone(),
            asked: Arc::new(Asked {
                caller: Caller::read(&options.kubeconfig, options.timeout)?,
                version: options.version.clone(),
                pause,
                keep_allowed: keep(options.keeps_allowed, options.keep_allowed),
                keep_others: keep(options.keeps_others, options.keep_others),
            }),
            kept: Arc::new(Kept::new(ANSWERS_MAX)),
            conditions: options.compiled()?,
            denies_on_error: options.denies_on_error,
        })
    }

    /// Its name in the configuration.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Decides about a request, if the webhook is about it.
    pub(super) async fn decide(&self, asked: &Attributes) -> Decision {
        let spec = spec::of(asked);
        match self.is_about(&spec) {
            Ok(true) => {}
            Ok(false) => return Decision::refuse(String::new()),
            Err(why) => return self.failed(why),
        }
        let is_large = spec::size(asked) >= KEPT_BYTES_MAX;
        let text = spec.to_string();
        let webhook = Arc::clone(&self.asked);
        let (name, is_open) = (self.name.clone(), !self.denies_on_error);
        let ask = async move {
            let begin = Instant::now();
            let decision = webhook.ask(spec).await;
            let failure = decision.as_ref().err().map(String::as_str);
            metrics::asked_webhook(&name, failure, is_open, begin.elapsed());
            let keep = match &decision {
                _ if is_large => Duration::ZERO,
                Ok(decision) if decision.allowed => webhook.keep_allowed,
                _ => webhook.keep_others,
            };
            (decision, keep)
        };
        match self.kept.get(key([text.as_str()]), ask).await {
            Ok(decision) => decision,
            Err(why) => {
                tracing::error!(why, "failed to make webhook authorizer request");
                self.failed(why)
            }
        }
    }

    /// Whether all conditions are true. One that is false decides, even if others fail.
    fn is_about(&self, spec: &Value) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let begin = Instant::now();
        let result = self.conditions_hold(&spec::for_conditions(spec));
        metrics::evaluated_conditions(&self.name, &result, begin.elapsed());
        result
    }

    fn conditions_hold(&self, request: &Value) -> Result<bool, String> {
        let mut failures = Vec::new();
        for condition in &self.conditions {
            match condition.evaluate(request) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(why) => failures.push(format!(
                    "cel evaluation error: expression '{}' resulted in error: {why}",
                    condition.source()
                )),
            }
        }
        match failures.as_slice() {
            [] => Ok(true),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    fn failed(&self, why: String) -> Decision {
        Decision {
            denied: self.denies_on_error,
            error: Some(why),
            ..Decision::default()
        }
    }
}

impl Asked {
    async fn ask(&self, spec: Value) -> Result<Decision, String> {
        let version = format!("{GROUP}/{}", self.version);
        let spec = match self.version.as_str() {
            "v1beta1" => spec::older(spec),
            _ => spec,
        };
        let review = json!({"kind": "SubjectAccessReview", "apiVersion": version, "metadata": {},
            "spec": spec, "status": {"allowed": false}});
        let body = Bytes::from(review.to_string());
        let posted = self.caller.post_again(body, ANSWER_BYTES_MAX, self.pause);
        let answer = posted.await.map_err(|failure| failure.why)?;
        let review = answer::read(answer.code.as_u16(), &answer.body)?;
        let (given, kind) = (
            object::text(&review, &["apiVersion"]),
            object::kind(&review),
        );
        if given != version || kind != "SubjectAccessReview" {
            return Err(format!(
                "the answer is of {given:?}, Kind={kind:?}, not of {version:?}, \
                 Kind=\"SubjectAccessReview\""
            ));
        }
        let is = |key: &str| object::at(&review, &["status", key]) == Some(&Value::Bool(true));
        let (allowed, denied) = (is("allowed"), is("denied"));
        let both = "webhook subject access review returned both allow and deny response";
        Ok(Decision {
            allowed: allowed && !denied,
            denied,
            reason: object::text(&review, &["status", "reason"]).to_owned(),
            error: (allowed && denied).then(|| both.to_owned()),
        })
    }
}
