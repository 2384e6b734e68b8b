//! Tells the watch hub about new revisions: on the applier's thread when that takes little time,
//! otherwise at the hub's own turn.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Fatal;
use crate::state::watch::{Hub, HubHandle};

/// Cheap to clone.
#[derive(Clone)]
pub struct Watch {
    hub: Arc<Mutex<Hub>>,
    inbox: HubHandle,
}

impl Watch {
    pub fn new(hub: Hub, inbox: HubHandle) -> Watch {
        let hub = Arc::new(Mutex::new(hub));
        Watch { hub, inbox }
    }

    pub fn inbox(&self) -> &HubHandle {
        &self.inbox
    }

    /// Readers see this revision. If the hub is free and has little to do, it notifies watchers
    /// here: that saves them one switch of threads.
    pub(super) fn advanced(&self, revision: i64) -> Result<(), Fatal> {
        let done = match self.hub.try_lock() {
            Some(mut hub) => hub.advance_if_brief(revision).map_err(unwatchable)?,
            None => false,
        };
        if !done {
            self.inbox.advanced(revision);
        }
        Ok(())
    }

    /// One turn of the hub; `ask` runs while the hub is locked.
    pub fn turn<T>(&self, ask: impl FnOnce(&mut Hub, bool) -> T) -> Result<T, Fatal> {
        let mut hub = self.hub.lock();
        let was_busy = hub.turn().map_err(unwatchable)?;
        Ok(ask(&mut hub, was_busy))
    }
}

fn unwatchable(error: storage::Error) -> Fatal {
    Fatal::new("failed to read the changes to be watched", error)
}
