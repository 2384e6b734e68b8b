//! Asks what loops need to know before they decide. The answer may come from a server behind the
//! apiserver, such as one for metrics, and such a server may be slow or hang: so nobody waits for
//! it but those who asked it, and they not for long.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use machinery::api::{Api, Call};
use machinery::object::Object;
use machinery::status::Status;
use tokio::sync::{Semaphore, mpsc};

use super::carry::Report;
use crate::manager::Work;

/// Maximum number of questions that one group of the API answers at once. Each answer may take
/// megabytes, and a group is what a server has as a whole.
const AT_ONCE_MAX: usize = 8;
/// Longest time until an answer, from when its question has a place.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// The places for questions to each group of the API. Its length is bounded by the groups that were
/// ever served.
#[derive(Default)]
pub(super) struct Places(HashMap<String, Arc<Semaphore>>);

/// A question and the places for it.
pub(super) type Question = (Call, Arc<Semaphore>);

impl Places {
    /// The questions, each with the places of its group.
    pub(super) fn line_up(&mut self, questions: &[Call]) -> Vec<Question> {
        let with_places = |call: &Call| {
            let places = self.0.entry(group(call).to_owned());
            let places = places.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE_MAX)));
            (call.clone(), Arc::clone(places))
        };
        questions.iter().map(with_places).collect()
    }
}

/// Makes the calls, and reports all answers together.
pub(super) async fn ask<A: Api>(
    api: A,
    work: Work,
    questions: Vec<Question>,
    reports: mpsc::Sender<Report>,
) {
    let questions = questions.into_iter();
    let answers = questions.map(|one| answer(&api, one, ANSWERED_WITHIN));
    let answers = join_all(answers).await;
    let work = Arc::new(work);
    // If nobody receives it, the process is stopping.
    let _ = reports.send(Report::Told { work, answers }).await;
}

async fn answer<A: Api>(
    api: &A,
    (call, places): Question,
    within: Duration,
) -> Result<Object, Status> {
    // Nobody closes it. Whoever has a place gives it up in time, so the wait for it ends.
    let _place = places.acquire().await;
    let answered = tokio::time::timeout(within, api.call(call));
    let late = || Status::unavailable(format!("no answer within {within:?}"));
    answered.await.unwrap_or_else(|_| Err(late()))
}

/// The group that answers a call; that of the core, and what is no kind, is empty.
fn group(call: &Call) -> &str {
    match call {
        Call::Read { path, .. } => {
            let below = path.strip_prefix("/apis/").unwrap_or_default();
            below.split('/').next().unwrap_or_default()
        }
        _ => call.kind().map_or("", |kind| kind.group()),
    }
}
