//! MutatingAdmissionWebhook: webhooks change an object one after the other.

use machinery::object;
use machinery::patch;
use machinery::status::Status;
use serde_json::Value;

use super::super::matching::Matched;
use super::super::rounds::Rounds;
use super::super::{Attributes, Context};
use super::configuration::{Configuration, Webhook};
use super::{Configurations, Failure, ask, concern, find};

/// The plugin's name.
pub(in super::super) const NAME: &str = "MutatingAdmissionWebhook";

/// The webhooks that may change objects.
pub(in super::super) struct Mutating(Configurations);

impl Mutating {
    pub(in super::super) fn new() -> Mutating {
        Mutating(Configurations::new(
            "mutatingwebhookconfigurations",
            Configuration::read,
        ))
    }

    /// Shows an object to the webhooks that its write concerns, and applies their patches.
    pub(in super::super) async fn mutate(
        &self,
        context: &Context,
        attributes: &Attributes<'_>,
        object: &mut Value,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        let current = self.0.current(&context.reader);
        if current.is_empty() || !concern(attributes) {
            return Ok(());
        }
        rounds.webhooks.begin(rounds.again, object);
        for webhook in current.iter().flat_map(|one| &one.webhooks) {
            if rounds.again && !rounds.webhooks.is_due(&webhook.id) {
                continue;
            }
            let matched = find(webhook, context, attributes, object).await?;
            let Some(matched) = matched else { continue };
            match one(webhook, context, attributes, &matched, object).await {
                Ok(true) => {
                    rounds.webhooks.note_change();
                    rounds.changed = true;
                }
                Ok(false) => {}
                Err(failure) => failure.judged(webhook)?,
            }
            if webhook.reinvoked {
                rounds.webhooks.ask(webhook.id.clone());
            }
        }
        rounds.webhooks.end(object);
        Ok(())
    }
}

/// Asks one webhook; returns whether it changed the object.
async fn one(
    webhook: &Webhook,
    context: &Context,
    attributes: &Attributes<'_>,
    matched: &Matched,
    object: &mut Value,
) -> Result<bool, Failure> {
    let shown = matched.shown(attributes, object).await;
    let shown = shown.map_err(Failure::Refused)?;
    let answer = ask(context, attributes, webhook, matched, &shown).await?;
    if answer.patch.is_empty() {
        return Ok(false);
    }
    let patch: Value = serde_json::from_slice(&answer.patch).map_err(|error| {
        Failure::Call(format!(
            "received undecodable patch in webhook response: {error}"
        ))
    })?;
    if patch.as_array().is_some_and(Vec::is_empty) {
        return Ok(false);
    }
    let internal = |why: String| Failure::Refused(Status::internal(&why));
    if object.is_null() {
        return Err(internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for \
             this operation",
            webhook.name
        )));
    }
    let mut patched = patch::json(&shown, &patch).map_err(|error| internal(error.to_string()))?;
    let (version, kind) = (object::api_version(&shown), object::kind(&shown));
    object::set_type(&mut patched, version, kind);
    let (patched, _) = matched.completed(attributes, &patched).map_err(internal)?;
    let patched = matched.requested(attributes, patched).await;
    let patched = patched.map_err(Failure::Refused)?;
    let changed = patched != *object;
    *object = patched;
    Ok(changed)
}
