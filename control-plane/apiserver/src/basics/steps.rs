//! What a server does once after its start, before it says that it is ready.

use tokio::sync::watch;

/// One part of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// The caches hold what is in the store.
    Caches,
    /// The namespaces of every cluster exist.
    Namespaces,
    /// The built-in priority classes exist.
    PriorityClasses,
    /// The config map exists that says since when the use of tokens is recorded.
    TokensRecorded,
    /// The built-in objects of flow control exist.
    FlowControl,
    /// Others can read who may authenticate clients.
    Authorities,
    /// The default roles and bindings exist.
    Roles,
    /// The range of service addresses was asked for.
    ServiceRange,
    /// The service of this server was asked for.
    OwnService,
    /// The reservations of service addresses are in order.
    Addresses,
    /// The custom resources are served.
    Definitions,
    /// Servers that extend this one are followed.
    Aggregation,
    /// What this server serves itself has APIServices.
    Registration,
}

impl Step {
    const ALL: [Step; 13] = [
        Step::Caches,
        Step::Namespaces,
        Step::PriorityClasses,
        Step::TokensRecorded,
        Step::FlowControl,
        Step::Authorities,
        Step::Roles,
        Step::ServiceRange,
        Step::OwnService,
        Step::Addresses,
        Step::Definitions,
        Step::Aggregation,
        Step::Registration,
    ];

    fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// The steps that a server has done.
#[derive(Debug, Default)]
pub(crate) struct Steps(watch::Sender<u16>);

impl Steps {
    /// Notes that a step is done.
    pub(crate) fn done(&self, step: Step) {
        self.0.send_if_modified(|done| {
            let before = *done;
            *done |= step.bit();
            *done != before
        });
    }

    /// True if a step is done.
    pub(crate) fn has(&self, step: Step) -> bool {
        *self.0.borrow() & step.bit() != 0
    }

    /// Waits until a step is done.
    pub(crate) async fn reach(&self, step: Step) {
        let mut done = self.0.subscribe();
        // The sender lives as long as this.
        let _ = done.wait_for(|done| done & step.bit() != 0).await;
    }

    /// Waits until all steps are done.
    pub(crate) async fn all(&self) {
        let mut done = self.0.subscribe();
        let is_all = |done: &u16| Step::ALL.iter().all(|step| done & step.bit() != 0);
        // The sender lives as long as this.
        let _ = done.wait_for(is_all).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_start_is_complete_when_each_step_is_done() {
        let steps = Steps::default();
        for step in Step::ALL {
            let waited = tokio::time::timeout(Duration::ZERO, steps.all()).await;
            assert!(waited.is_err() && !steps.has(step), "{step:?}");
            let waited = tokio::time::timeout(Duration::ZERO, steps.reach(step)).await;
            assert!(waited.is_err(), "{step:?}");
            steps.done(step);
            steps.done(step);
            steps.reach(step).await;
            assert!(steps.has(step), "{step:?}");
        }
        steps.all().await;
    }
}
