//! Events on their way to the apiserver, beside the calls that carry decisions out: a server that
//! takes Events slowly must not hold back pods.

use std::collections::VecDeque;

use api_client::Client;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use machinery::api::{Api, Call};

/// Maximum number of Events in flight.
const AT_ONCE: usize = 64;
/// Maximum number of Events that wait for others. Further ones are dropped, as in Kubernetes.
const WAITING_MAX: usize = 1000;

/// Sends Events as they come, some at a time.
pub(super) struct Outbox {
    client: Client,
    in_flight: FuturesUnordered<BoxFuture<'static, ()>>,
    waiting: VecDeque<Call>,
}

impl Outbox {
    pub(super) fn new(client: Client) -> Outbox {
        Outbox {
            client,
            in_flight: FuturesUnordered::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes the Events of a report, and returns its other calls. [`Outbox::next`] sends them.
    pub(super) fn add_of(&mut self, report: Vec<Call>) -> Vec<Call> {
        let (events, others) = report.into_iter().partition(is_about_event);
        for event in <Vec<Call>>::into_iter(events) {
            if self.in_flight.len() < AT_ONCE {
                self.in_flight.push(send(self.client.clone(), event));
            } else if self.waiting.len() < WAITING_MAX {
                self.waiting.push_back(event);
            } else {
                tracing::debug!("too many Events are on their way: one is dropped");
            }
        }
        others
    }

    /// Waits until an Event has been sent; `None` if there is none.
    pub(super) async fn next(&mut self) -> Option<()> {
        self.in_flight.next().await?;
        if let Some(event) = self.waiting.pop_front() {
            self.in_flight.push(send(self.client.clone(), event));
        }
        Some(())
    }
}

fn is_about_event(call: &Call) -> bool {
    matches!(call, Call::Create { kind, .. } | Call::Patch { kind, .. } if kind.kind() == "Event")
}

/// Sends an Event. A failed one is not sent again.
fn send(client: Client, event: Call) -> BoxFuture<'static, ()> {
    async move {
        if let Err(status) = client.call(event).await {
            tracing::debug!(%status, "nobody was told");
        }
    }
    .boxed()
}
