//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook: programs outside change, allow or
//! refuse a write, as the configurations say that are objects of the cluster.
//!
//! - `configuration` reads those objects;
//! - `matching` decides which webhooks a write concerns, and in which version it is shown to them;
//! - `review` writes what a webhook is asked, and reads what it answers;
//! - `mutating` and `validating` ask them in their order.
//!
//! What this process writes itself passes no webhook: one that is not there could keep the server
//! from its own start, and so from serving the requests that would bring the webhook back.

mod configuration;
mod matching;
pub(super) mod mutating;
mod review;
pub(super) mod validating;

use std::collections::HashMap;
use std::sync::Arc;

use machinery::schema::{self, Kind};
use machinery::status::Status;
use parking_lot::Mutex;

use super::{Attributes, Context};
use crate::storage::reader::Reader;
use configuration::Configuration;
use configuration::Webhook;
use matching::Matched;

/// The group of configurations and policies, which no webhook is asked about.
const GROUP: &str = "admissionregistration.k8s.io";
const EXEMPT: [&str; 6] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// The configurations of one kind, as the cache has them.
struct Configurations {
    plural: &'static str,
    /// By the key of the object. A configuration that is not among them any more takes its
    /// connections along.
    known: Mutex<HashMap<Arc<str>, Arc<Configuration>>>,
}

impl Configurations {
    fn new(plural: &'static str) -> Configurations {
        Configurations {
            plural,
            known: Mutex::default(),
        }
    }

    fn kind(&self) -> Option<&'static Arc<Kind>> {
        schema::resource(GROUP, "v1", self.plural)
    }

    /// All configurations in the order of their names. Those of the same revision are the same.
    fn current(&self, reader: &Reader) -> Vec<Arc<Configuration>> {
        let stored = match self.kind() {
            Some(kind) => reader.cached_stored(kind, ""),
            None => Vec::new(),
        };
        let mut known = self.known.lock();
        if stored.is_empty() && known.is_empty() {
            return Vec::new();
        }
        let mut current = HashMap::new();
        let mut ordered = Vec::new();
        for one in &stored {
            let configuration = match known.remove(&one.key) {
                Some(known) if known.revision == one.revision => known,
                _ => match one.kept() {
                    Ok(object) => Arc::new(Configuration::read(&object, one.revision)),
                    Err(error) => {
                        tracing::warn!(key = %one.key, %error, "no webhooks are called");
                        continue;
                    }
                },
            };
            current.insert(Arc::clone(&one.key), Arc::clone(&configuration));
            ordered.push(configuration);
        }
        *known = current;
        ordered
    }
}

/// True if webhooks are asked about a write at all.
fn concern(attributes: &Attributes<'_>) -> bool {
    let kind = attributes.kind;
    let exempt = kind.group() == GROUP && EXEMPT.contains(&kind.kind());
    !exempt && !attributes.user.name.is_empty()
}

/// How the call of a webhook failed.
enum Failure {
    /// There is no valid answer: the failure policy decides.
    Call(String),
    /// The write is refused.
    Refused(Status),
}

impl Failure {
    /// Applies the webhook's failure policy.
    fn judged(self, webhook: &Webhook) -> Result<(), Status> {
        match self {
            Failure::Refused(status) => Err(status),
            Failure::Call(why) => {
                let why = format!("failed calling webhook {:?}: {why}", webhook.name);
                if webhook.ignores_failures {
                    tracing::warn!("{why}: its failure policy is to ignore that");
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
    shown: &serde_json::Value,
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
    let question = review::Question::new(version, attributes, matched, shown);
    let answered = endpoint
        .call(&context.reader, &question.review, webhook.timeout)
        .await;
    let answered =
        answered.map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
    let answer = question
        .read(&answered, webhook.mutates)
        .map_err(|why| Failure::Call(format!("received invalid webhook response: {why}")))?;
    attributes.warnings.add(answer.warnings.iter().cloned());
    match &answer.refusal {
        Some(refusal) => Err(Failure::Refused(review::refused(&webhook.name, refusal))),
        None => Ok(answer),
    }
}
