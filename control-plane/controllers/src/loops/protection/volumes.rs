//! Volumes: kept while they are bound to a claim.

use super::{Due, due, wake_due, write};
use crate::cache::{Caches, Changed};
use crate::decision::Decision;
use crate::known::Key;
use crate::loops::{Context, Loop};

const FINALIZER: &str = "kubernetes.io/pv-protection";

pub(crate) struct VolumeProtection;

impl Loop for VolumeProtection {
    fn name(&self) -> &'static str {
        "persistentvolume-protection"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        if let Changed::PersistentVolume(diff) = changed {
            wake_due(diff, FINALIZER, wake);
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let Some(volume) = context.caches.volumes.at(key) else {
            return Decision::nothing();
        };
        let status = volume.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        match due(&volume.metadata, FINALIZER) {
            None => Decision::nothing(),
            Some(Due::Remove) if phase == Some("Bound") => Decision::nothing(),
            Some(due) => Decision::of(write(volume.as_ref(), FINALIZER, due)),
        }
    }
}
