//! Autoscalers: the number of replicas of a target follows metrics of its pods, or others.
//!
//! What a decision needs is in no cache: the scale of the target, and the values of metrics, which
//! other servers may have. So the loop asks for the scale, then for the values, and decides when it
//! has all answers. What it must know of earlier decisions is in [`crate::scalings`].

mod conditions;
mod limits;
mod metrics;
mod readings;
mod requests;
#[cfg(test)]
mod tests;
mod usage;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec};
use machinery::api::Call;
use machinery::object::{self, Object};
use machinery::schema::{Kind, split_api_version};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::Value;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, update_status};
use crate::known::{Key, Shared};
use crate::loops::{Context, Loop};
use crate::meta;
use crate::scalings::{Past, Pending, Recommendation};
use conditions::{ABLE, Draft, same};
use limits::counts_for;
use wanted::Stop;

/// How often each autoscaler is decided about. Nothing makes it sooner: what pods use changes all
/// the time, and a size that followed at once would swing.
const PERIOD: Duration = Duration::from_secs(15);
/// How often in a row a decision begins anew because somebody else changed the size meanwhile.
const CONFLICTS_MAX: u32 = 4;

pub(crate) struct Autoscalers;

/// One decision about an autoscaler.
struct Round<'a> {
    context: &'a Context<'a>,
    key: &'a Key,
    autoscaler: &'a Shared<HorizontalPodAutoscaler>,
    spec: &'a HorizontalPodAutoscalerSpec,
    /// What is remembered after it.
    past: Past,
    /// The status after it.
    draft: Draft,
    notes: Vec<Note>,
}

/// The scale of a target.
struct Scale<'a> {
    kind: &'a Arc<Kind>,
    object: &'a Object,
    /// The replicas that the target should have now.
    current: i32,
}

impl Loop for Autoscalers {
    fn name(&self) -> &'static str {
        "horizontal-pod-autoscaler"
    }

    fn component(&self) -> String {
        self.name().into()
    }

    fn wakes(&self, _: &Caches, _: &Changed, _: &mut dyn FnMut(Key)) {}

    /// A new one waits, too: its target may be new, and its metrics not there yet.
    fn wakes_later(
        &self,
        _: &Caches,
        changed: &Changed,
        _: Timestamp,
        wake: &mut dyn FnMut(Key, Duration),
    ) {
        if let Changed::HorizontalPodAutoscaler(Diff {
            old: None,
            new: Some(new),
        }) = changed
        {
            wake(meta::key(&new.metadata), PERIOD);
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let Some(autoscaler) = context.caches.autoscalers.at(key) else {
            return Decision::nothing();
        };
        let past = context.caches.scalings.of(key).cloned();
        let round = Round {
            context,
            key,
            autoscaler,
            spec: &autoscaler.spec,
            past: past.unwrap_or_default(),
            draft: Draft::of(autoscaler, context.now),
            notes: Vec::new(),
        };
        round.decide()
    }
}

impl<'a> Round<'a> {
    fn decide(mut self) -> Decision {
        let answers = self.context.answers;
        if let Some(pending) = self.past.pending.take()
            && let Some(answer) = answers.to(&pending.call)
        {
            return self.rescaled(*pending, answer);
        }
        if let Some(early) = self.early() {
            let mut decision = Decision::nothing();
            decision.again(early);
            return decision;
        }
        let kind = match self.target() {
            Ok(kind) => kind,
            Err(why) => return self.without_scale(&why),
        };
        let name = &self.spec.scale_target_ref.name;
        let read = readings::of_scale(kind, &self.key.0, name);
        match answers.to(&read) {
            None => Decision::asking(vec![read]),
            Some(Err(error)) => self.without_scale(&error.message),
            Some(Ok(object)) => self.resize(&Scale {
                kind,
                object,
                current: count(object, &["spec", "replicas"]),
            }),
        }
    }

    /// The time until a decision is due, if this one is too early: after a write that failed, say.
    fn early(&self) -> Option<Duration> {
        let looked = self
            .past
            .looked
            .filter(|_| self.context.answers.is_empty())?;
        let left = meta::left(looked, PERIOD, self.context.now);
        // A clock that was set back must not stop the loop.
        left.filter(|left| *left <= PERIOD)
    }

    /// The kind of the target, in the version in which it can be listed.
    fn target(&self) -> Result<&'a Arc<Kind>, String> {
        let target = &self.spec.scale_target_ref;
        let api_version = target.api_version.as_deref().unwrap_or_default();
        if api_version.matches('/').count() > 1 {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        }
        let (group, _) = split_api_version(api_version);
        let kind = &target.kind;
        let found = self.context.caches.kinds.of_group(group, kind);
        found.ok_or_else(|| format!("no matches for kind {kind:?} in group {group:?}"))
    }

    /// Asks for another size if the target should have one.
    fn resize(mut self, scale: &Scale<'_>) -> Decision {
        let now = self.context.now;
        self.draft.set(
            ABLE,
            true,
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        );
        if self.past.recommendations.is_empty() {
            // A size that was there before the autoscaler is not taken back at once.
            self.past.recommendations.push(Recommendation {
                replicas: scale.current,
                at: now,
            });
        }
        let wanted = match self.wanted(scale) {
            Ok(wanted) => wanted,
            Err(Stop::Ask(questions)) => return Decision::asking(questions),
            Err(Stop::Invalid(metrics, why)) => {
                self.draft.seen(scale.current, metrics);
                self.warn("FailedComputeMetricsReplicas", why);
                return self.finish();
            }
        };
        self.draft.seen(scale.current, wanted.metrics);
        if wanted.replicas == scale.current {
            self.draft.sized(scale.current, false);
            return self.finish();
        }
        let call = self.rescale(scale, wanted.replicas);
        self.past.pending = Some(Box::new(Pending {
            call: call.clone(),
            from: scale.current,
            to: wanted.replicas,
            why: wanted.why,
            status: self.draft.status.clone(),
        }));
        self.end(Decision::asking(vec![call]))
    }

    /// The call that gives the target another size. The scale may be the answer of any server, so
    /// it does not say whose size is changed.
    fn rescale(&self, scale: &Scale<'_>, replicas: i32) -> Call {
        let name = &self.spec.scale_target_ref.name;
        let mut object = scale.object.clone();
        for (path, value) in [
            (["spec", "replicas"], Value::from(replicas)),
            (["metadata", "namespace"], self.key.0.as_str().into()),
            (["metadata", "name"], name.as_str().into()),
        ] {
            object::set(&mut object, &path, value);
        }
        Call::Update {
            kind: Arc::clone(scale.kind),
            subresource: "scale",
            object,
        }
    }

    /// Says what came of a change of the size.
    fn rescaled(mut self, pending: Pending, answer: &Result<Object, Status>) -> Decision {
        let now = self.context.now;
        let Pending {
            from,
            to,
            why,
            status,
            ..
        } = pending;
        let error = answer.as_ref().err();
        let is_conflict = error.is_some_and(|error| error.reason == "Conflict");
        if is_conflict && self.past.conflicts < CONFLICTS_MAX {
            self.past.conflicts += 1;
            let mut decision = Decision::nothing();
            decision.again(Duration::ZERO);
            return self.end(decision);
        }
        self.draft = Draft::with(status, now);
        if let Some(error) = error {
            let error = &error.message;
            let event = format!("New size: {to}; reason: {why}; error: {error}");
            self.warn("FailedRescale", event);
            let text = format!("the HPA controller was unable to update the target scale: {error}");
            self.draft.set(ABLE, false, "FailedUpdateScale", &text);
            return self.finish();
        }
        let text = format!("the HPA controller was able to update the target scale to {to}");
        self.draft.set(ABLE, true, "SucceededRescale", &text);
        self.draft.forget_zero();
        self.draft.sized(to, true);
        let event = format!("New size: {to}; reason: {why}");
        let note = Note::new(self.autoscaler.as_ref(), "SuccessfulRescale", event);
        self.notes.push(note);
        if let Some(kept) = counts_for(self.spec.behavior.as_ref(), to > from) {
            self.past.change(from, to, kept, now);
        }
        self.finish()
    }

    fn without_scale(mut self, why: &str) -> Decision {
        let text =
            format!("the HPA controller was unable to get the target's current scale: {why}");
        self.warn("FailedGetScale", why.to_owned());
        self.draft.set(ABLE, false, "FailedGetScale", &text);
        self.finish()
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        let note = Note::new(self.autoscaler.as_ref(), reason, message);
        self.notes.push(note.warning());
    }

    /// Writes the status, and ends the round.
    fn finish(mut self) -> Decision {
        self.past.looked = Some(self.context.now);
        self.past.conflicts = 0;
        let mut decision = Decision::nothing();
        decision.again(PERIOD);
        let old = self.autoscaler.status.clone().unwrap_or_default();
        if !same(&old, &self.draft.status) {
            let mut told = self.autoscaler.as_ref().clone();
            told.status = Some(self.draft.status.clone());
            let failed = Note::new(&told, "FailedUpdateStatus", "{}".into());
            let step = decision.push(update_status(&told));
            step.tell_failure(failed.warning());
        }
        self.end(decision)
    }

    /// Adds what is remembered, and told, to a decision.
    fn end(self, mut decision: Decision) -> Decision {
        let Round {
            context,
            mut past,
            notes,
            ..
        } = self;
        let tells =
            |note: &Note| !note.warning || past.tells(note.reason, &note.message, context.now);
        decision.notes = notes.into_iter().filter(tells).collect();
        decision.past = Some(past);
        decision
    }
}

/// A number of replicas in a scale; it is zero if it is left out.
fn count(scale: &Object, path: &[&str]) -> i32 {
    let number = object::at(scale, path).and_then(Value::as_i64);
    number.map_or(0, |number| i32::try_from(number).unwrap_or(i32::MAX))
}
