//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook: programs outside change, allow or
//! refuse a write, as the configurations say that are objects of the cluster.
//!
//! - `configuration` reads those objects;
//! - `matching` decides whether a webhook is asked about a write, and in which version;
//! - `review` writes what a webhook is asked, and reads what it answers;
//! - `mutating` and `validating` ask them in their order.
//!
//! What this process writes itself passes no webhook: one that is not there could keep the server
//! from its own start, and so from serving the requests that would bring the webhook back.

mod configuration;
pub(super) mod mutating;
mod review;
pub(super) mod validating;

use machinery::status::Status;
use serde_json::Value;

use super::expressions::{Rights, Write};
use super::known::Known;
use super::matching::Matched;
use super::{Attributes, Context};
use configuration::{Configuration, Webhook};

/// The configurations of one kind.
type Configurations = Known<Configuration>;

/// True if webhooks are asked about a write at all.
fn concern(attributes: &Attributes<'_>) -> bool {
    !attributes.configures_admission() && !attributes.user.is_this_process()
}

/// Whether a webhook is asked about a write, and in which version of its object.
async fn find(
    webhook: &Webhook,
    context: &Context,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<Option<Matched>, Status> {
    let matched = webhook.criteria.find(context, attributes, object).await?;
    let Some(matched) = matched else {
        return Ok(None);
    };
    if webhook.conditions.is_empty() {
        return Ok(Some(matched));
    }
    let write = Write::new(attributes, &matched, object, Value::Null).await?;
    let mut rights = Rights::new(context, attributes.user);
    let met = webhook.conditions.are_met(&write, &mut rights).await;
    match met {
        Ok(true) => Ok(Some(matched)),
        Ok(false) => Ok(None),
        Err(_) if webhook.ignores_failures => Ok(None),
        Err(why) => Err(attributes.forbidden(&why)),
    }
}

/// How the call of a webhook failed.
enum Failure {
    /// There is no valid answer: the failure policy decides.
    Call(String),
    /// The write is refused.
    Refused(Status),
}

impl Failure {
    /// Applies the webhook's failure policy. `key` is that of the annotation for a webhook whose
    /// failure changes nothing.
    fn judged(
        self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        key: &str,
    ) -> Result<(), Status> {
        match self {
            Failure::Refused(status) => Err(status),
            Failure::Call(why) => {
                let why = format!("failed calling webhook {:?}: {why}", webhook.name);
                if webhook.ignores_failures {
                    tracing::warn!("{why}: its failure policy is to ignore that");
                    attributes.annotate(key, || webhook.name.clone());
                    return Ok(());
                }
                Err(Status::internal(&why))
            }
        }
    }
}

/// Asks one webhook about a write; `shown` is the object in the version that matched.
async fn ask(
    context: &Context,
    attributes: &Attributes<'_>,
    webhook: &Webhook,
    matched: &Matched,
    shown: &Value,
) -> Result<review::Answer, Failure> {
    if attributes.dry && !webhook.passes_dry_run {
        let name = &webhook.name;
        let why = format!("admission webhook {name:?} does not support dry run");
        return Err(Failure::Refused(Status::bad_request(why)));
    }
    let Some(version) = webhook.review_version else {
        let why = "could not create admission objects: webhook does not accept known \
                   AdmissionReview versions (v1, v1beta1)";
        return Err(Failure::Call(why.into()));
    };
    let endpoint = webhook.endpoint.as_ref();
    let endpoint =
        endpoint.map_err(|why| Failure::Call(format!("could not get REST client: {why}")))?;
    let old = matched.old(attributes).await.map_err(Failure::Refused)?;
    let question = review::Question::new(version, attributes, matched, (shown, old));
    let answered = endpoint
        .call(&context.reader, &question.review, webhook.timeout)
        .await;
    let answered =
        answered.map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
    let answer = question
        .read(&answered, webhook.mutates)
        .map_err(|why| Failure::Call(format!("received invalid webhook response: {why}")))?;
    for (key, value) in &answer.annotations {
        let key = format!("{}/{key}", webhook.name);
        attributes.annotate(&key, || value.clone());
    }
    attributes.warnings.add(answer.warnings.iter().cloned());
    match &answer.refusal {
        Some(refusal) => Err(Failure::Refused(review::refused(&webhook.name, refusal))),
        None => Ok(answer),
    }
}
