//! Carries decisions out: one call after the other, or in growing batches of similar calls.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api_client::Client;
use futures_util::future::join_all;
use machinery::api::{Api, Call};
use machinery::object::Object;
use machinery::status::Status;
use tokio::sync::mpsc;

use crate::decision::Step;
use crate::manager::{Outcome, Work};
use crate::recorder::Telling;

/// Maximum number of calls in a batch.
const AT_ONCE_MAX: usize = 32;

/// A report about a decision in progress.
pub(super) enum Report {
    /// A call got a response.
    Answered {
        work: Arc<Work>,
        at: usize,
        answer: Result<Object, Status>,
    },
    /// All questions of a decision are answered.
    Told {
        work: Arc<Work>,
        answers: Vec<Result<Object, Status>>,
    },
    /// All calls got one, or the first failure, for which those that depend on it were skipped.
    Done { work: Arc<Work>, outcome: Outcome },
}

/// Makes the calls of a decision. Creates and deletes of pods run in batches of 1, 2, 4 and so on,
/// so that if the first ones fail the apiserver is spared the rest.
pub(super) async fn carry_out(client: Client, work: Work, reports: mpsc::Sender<Report>) {
    let work = Arc::new(work);
    let steps = &work.decision.steps;
    let mut at = 0;
    let mut group = 1;
    let mut outcome = Ok(());
    while at < steps.len() {
        let alike = steps[at..]
            .iter()
            .take_while(|step| is_alike(&steps[at], step))
            .count();
        let count = alike.clamp(1, group);
        let calls = steps[at..at + count]
            .iter()
            .map(|step| client.call(step.call.clone()));
        let answers = join_all(calls).await;
        let mut next = at + count;
        for (place, answer) in answers.into_iter().enumerate() {
            let place = at + place;
            if let Err(error) = steps[place].verdict(&answer) {
                let after = work.decision.after_failure(place, &error);
                next = next.max(after.unwrap_or(steps.len()));
                outcome = outcome.and(Err((place, error)));
            }
            let report = Report::Answered {
                work: work.clone(),
                at: place,
                answer,
            };
            // The receiver is gone: the process is stopping.
            if reports.send(report).await.is_err() {
                return;
            }
        }
        at = next;
        group = if alike > 1 {
            (group * 2).min(AT_ONCE_MAX)
        } else {
            1
        };
    }
    let _ = reports.send(Report::Done { work, outcome }).await;
}

/// True if two steps do not depend on each other.
fn is_alike(first: &Step, step: &Step) -> bool {
    let same = first.call.kind() == step.call.kind();
    let independent = matches!(
        (&first.call, &step.call),
        (Call::Create { .. }, Call::Create { .. }) | (Call::Delete { .. }, Call::Delete { .. })
    );
    let looks =
        |step: &Step| matches!(step.call, Call::List { .. } | Call::DeleteCollection { .. });
    same && independent || looks(first) && looks(step)
}

/// Sends Events one after the other. One that fails is dropped.
pub(super) async fn send_events(client: Client, mut tellings: mpsc::Receiver<Telling>) {
    while let Some(Telling { call, otherwise }) = tellings.recv().await {
        let mut answer = client.call(call).await;
        let is_gone = answer
            .as_ref()
            .is_err_and(|error| error.reason == "NotFound");
        if let Some(anew) = otherwise.filter(|_| is_gone) {
            answer = client.call(anew).await;
        }
        if let Err(error) = answer {
            tracing::debug!(%error, "an Event was lost");
        }
    }
}
