//! MutatingAdmissionWebhook: webhooks change an object one after the other.

use machinery::object;
use machinery::patch;
use machinery::status::Status;
use serde::Serialize;
use serde_json::Value;

use super::super::matching::Matched;
use super::super::rounds::Rounds;
use super::super::{Attributes, Context};
use super::configuration::{Configuration, Webhook};
use super::{Configurations, Failure, ask, concern, find};
use crate::audit::{Level, as_go};
use crate::basics::waits;

/// The plugin's name.
pub(in super::super) const NAME: &str = "MutatingAdmissionWebhook";

/// Prefixes of annotations: whether a webhook changed the object, how, and about failures that
/// change nothing.
const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const PATCH: &str = "patch.webhook.admission.k8s.io/";
const FAILED_OPEN: &str = "failed-open.mutation.webhook.admission.k8s.io/";

/// The annotation of a call.
#[derive(Serialize)]
struct Mutation<'a> {
    configuration: &'a str,
    webhook: &'a str,
    mutated: bool,
}

/// The annotation of a patch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Patch<'a> {
    configuration: &'a str,
    webhook: &'a str,
    patch: &'a Value,
    patch_type: &'static str,
}

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
        if !concern(attributes) {
            return Ok(());
        }
        let current = self.0.current(&context.reader, attributes)?;
        if current.is_empty() {
            return Ok(());
        }
        rounds.webhooks.begin(rounds.again, object);
        let round = u8::from(rounds.again);
        let all = current.iter().flat_map(|one| &one.webhooks).enumerate();
        for (at, webhook) in all {
            if rounds.again && !rounds.webhooks.is_due(&webhook.id) {
                continue;
            }
            let matched = find(webhook, context, attributes, object).await?;
            let Some(matched) = matched else { continue };
            let place = format!("round_{round}_index_{at}");
            let asked = one(webhook, context, (attributes, &place), &matched, object).await;
            attributes.annotate(&format!("{MUTATION}{place}"), || {
                as_go(&Mutation {
                    configuration: &webhook.configuration,
                    webhook: &webhook.name,
                    mutated: matches!(asked, Ok(true)),
                })
            });
            match asked {
                Ok(true) => {
                    rounds.webhooks.note_change();
                    rounds.changed = true;
                }
                Ok(false) => {}
                Err(failure) => {
                    failure.judged(webhook, attributes, &format!("{FAILED_OPEN}{place}"))?;
                }
            }
            if webhook.reinvoked {
                rounds.webhooks.ask(webhook.id.clone());
            }
        }
        rounds.webhooks.end(object);
        Ok(())
    }
}

/// Asks one webhook; returns whether it changed the object. `place` tells the call from the others
/// of the write.
async fn one(
    webhook: &Webhook,
    context: &Context,
    (attributes, place): (&Attributes<'_>, &str),
    matched: &Matched,
    object: &mut Value,
) -> Result<bool, Failure> {
    let shown = matched.shown(attributes, object).await;
    let shown = shown.map_err(Failure::Refused)?;
    let answer = waits::wait(ask(context, attributes, webhook, matched, &shown)).await?;
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
    attributes.annotate_from(Level::Request, &format!("{PATCH}{place}"), || {
        as_go(&Patch {
            configuration: &webhook.configuration,
            webhook: &webhook.name,
            patch: &patch,
            patch_type: "JSONPatch",
        })
    });
    let patched = matched.requested(attributes, patched).await;
    let patched = patched.map_err(Failure::Refused)?;
    let changed = patched != *object;
    *object = patched;
    Ok(changed)
}
