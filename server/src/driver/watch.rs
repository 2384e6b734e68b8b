//! Telling the watch hub what is new: by the applier itself when that is soon done, else by the
//! hub's own turn.

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

    /// The store shows this revision. When the hub is free and soon done, its watchers are told
    /// here: one thread fewer between a change and those who wait for it.
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

    /// One turn of the hub, and what is to be asked of it while nobody else can.
    pub fn turn<T>(&self, ask: impl FnOnce(&mut Hub, bool) -> T) -> Result<T, Fatal> {
        let mut hub = self.hub.lock();
        let was_busy = hub.turn().map_err(unwatchable)?;
        Ok(ask(&mut hub, was_busy))
    }
}

fn unwatchable(error: storage::Error) -> Fatal {
    Fatal::new("failed to read the changes to be watched", error)
}
