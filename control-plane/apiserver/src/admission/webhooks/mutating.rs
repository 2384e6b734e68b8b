//! MutatingAdmissionWebhook: webhooks change an object one after the other.

use std::collections::BTreeSet;

use machinery::patch;
use machinery::status::Status;
use machinery::{object, strict};
use serde_json::Value;

use super::super::{Attributes, Context};
use super::configuration::Webhook;
use super::matching::{self, Matched};
use super::{Configurations, Failure, ask, concern};
use crate::resources::defaults::set_defaults;

/// The plugin's name.
pub(in super::super) const NAME: &str = "MutatingAdmissionWebhook";

/// The webhooks that may change objects.
pub(in super::super) struct Mutating(Configurations);

/// What happened to one write so far. If webhooks changed the object, all plugins see it a second
/// time, but only once more: two webhooks that disagree would go on forever.
#[derive(Default)]
pub(in super::super) struct Rounds {
    /// True in the second round.
    again: bool,
    /// A webhook changed the object: there has to be a second round.
    pub(in super::super) changed: bool,
    /// Webhooks asked since the last change, of those that want to see changes by others.
    asked: BTreeSet<String>,
    /// Webhooks to ask in the second round.
    due: BTreeSet<String>,
    /// The object after the first round.
    left: Value,
}

impl Rounds {
    /// Begins the second round. The object has passed the other plugins by then.
    pub(in super::super) fn repeat(&mut self) {
        self.again = true;
    }

    fn note_change(&mut self) {
        self.due.append(&mut self.asked);
    }
}

impl Mutating {
    pub(in super::super) fn new() -> Mutating {
        Mutating(Configurations::new("mutatingwebhookconfigurations"))
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
        if rounds.again && rounds.left != *object {
            rounds.note_change();
        }
        for webhook in current.iter().flat_map(|one| &one.webhooks) {
            if rounds.again && !rounds.due.contains(&webhook.id) {
                continue;
            }
            let matched = matching::find(webhook, context, attributes, object).await?;
            let Some(matched) = matched else { continue };
            match one(webhook, context, attributes, &matched, object).await {
                Ok(true) => {
                    rounds.note_change();
                    rounds.changed = true;
                }
                Ok(false) => {}
                Err(failure) => failure.judged(webhook)?,
            }
            if webhook.reinvoked {
                rounds.asked.insert(webhook.id.clone());
            }
        }
        rounds.left = object.clone();
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
    let shown = matched.shown(attributes, object);
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
    let patched = completed(attributes, matched, &patched).map_err(internal)?;
    let patched = matched.requested(attributes, patched);
    let changed = patched != *object;
    *object = patched;
    Ok(changed)
}

/// A patched object, with types checked and defaults set as in a body that a client sends.
fn completed(
    attributes: &Attributes<'_>,
    matched: &Matched,
    patched: &Value,
) -> Result<Value, String> {
    let kind = &matched.resource.kind;
    let body = kind.subresource(attributes.subresource);
    let message = body.map_or(kind.message(), |body| body.message());
    let decoded = strict::prune(patched, message).map_err(|error| error.to_string())?;
    let mut object = decoded.object;
    if object::kind(&object) == kind.kind() {
        set_defaults(&matched.resource, &mut object);
    }
    Ok(object)
}
