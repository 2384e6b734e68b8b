//! The thread of the watch hub, and the applying thread's turn at it.

use parking_lot::Mutex;

use super::{Links, fatal};
use crate::state::watch::{Hub, HubHandle};

pub(super) fn run_hub(hub: &Mutex<Hub>, inbox: &HubHandle) {
    loop {
        inbox.wait();
        let mut hub = hub.lock();
        hub.turn().unwrap_or_else(|error| unwatchable(&error));
        if hub.is_stopped() {
            return;
        }
        let rest = hub.rest();
        drop(hub);
        inbox.rest(rest);
    }
}

/// Tells the watchers, here if that is soon done and the hub is free, else by its thread.
pub(super) fn advance_hub(revision: i64, links: &Links) {
    let done = match links.hub.try_lock() {
        Some(mut hub) => hub
            .advance_if_brief(revision)
            .unwrap_or_else(|error| unwatchable(&error)),
        None => false,
    };
    if !done {
        links.hub_inbox.advanced(revision);
    }
}

fn unwatchable(error: &dyn std::fmt::Display) -> ! {
    fatal("failed to read the changes to be watched", error)
}
