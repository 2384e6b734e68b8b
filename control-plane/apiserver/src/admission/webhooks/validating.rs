//! ValidatingAdmissionWebhook: webhooks allow or refuse the state that is to be stored, all at the
//! same time.

use futures_util::future::join_all;
use machinery::status::Status;
use serde_json::Value;

use super::super::{Attributes, Context};
use super::configuration::Configuration;
use super::{Configurations, ask, concern, find};
use crate::basics::waits;

/// The plugin's name.
pub(in super::super) const NAME: &str = "ValidatingAdmissionWebhook";

/// Prefix of the annotations about failures that change nothing.
const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

/// The webhooks that may refuse writes.
pub(in super::super) struct Validating(Configurations);

impl Validating {
    pub(in super::super) fn new() -> Validating {
        Validating(Configurations::new(
            "validatingwebhookconfigurations",
            Configuration::read,
        ))
    }

    /// Asks the webhooks that a write concerns. Of several refusals the first counts, in the order
    /// of the configurations.
    pub(in super::super) async fn validate(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        if !concern(attributes) {
            return Ok(());
        }
        let current = self.0.current(&context.reader, attributes)?;
        if current.is_empty() {
            return Ok(());
        }
        let mut concerned = Vec::new();
        for webhook in current.iter().flat_map(|one| &one.webhooks) {
            if let Some(matched) = find(webhook, context, attributes, object).await? {
                concerned.push((webhook, matched));
            }
        }
        let calls = concerned.iter().enumerate();
        let calls = calls.map(|(at, (webhook, matched))| async move {
            let shown = matched.shown(attributes, object).await?;
            match ask(context, attributes, webhook, matched, &shown).await {
                Ok(_) => Ok(()),
                Err(failure) => {
                    let key = format!("{FAILED_OPEN}round_0_index_{at}");
                    failure.judged(webhook, attributes, &key)
                }
            }
        });
        waits::wait(join_all(calls)).await.into_iter().collect()
    }
}
