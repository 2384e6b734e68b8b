//! Classes of volume attributes: kept while a claim or a volume names them.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::{Due, due, wake_due, write};
use crate::cache::{Caches, Changed};
use crate::decision::{Decision, cluster_key};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::meta;

const FINALIZER: &str = "kubernetes.io/vac-protection";

pub(crate) struct ClassProtection;

impl Loop for ClassProtection {
    fn name(&self) -> &'static str {
        "volumeattributesclass-protection"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        // Only the end of a use can free a class.
        let mut left = |names: &mut dyn Iterator<Item = &str>| {
            for key in names.map(cluster_key) {
                let class = caches.attribute_classes.at(&key);
                if class.is_some_and(|one| meta::is_deleting(&one.metadata)) {
                    wake(key);
                }
            }
        };
        match changed {
            Changed::PersistentVolumeClaim(diff) => {
                left(&mut diff.old.iter().flat_map(|claim| of_claim(claim)));
            }
            Changed::PersistentVolume(diff) => {
                left(&mut diff.old.iter().filter_map(|volume| of_volume(volume)));
            }
            Changed::VolumeAttributesClass(diff) => {
                wake_due(diff, FINALIZER, wake);
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let Some(class) = context.caches.attribute_classes.at(key) else {
            return Decision::nothing();
        };
        match due(&class.metadata, FINALIZER) {
            None => Decision::nothing(),
            Some(Due::Remove) if is_used(context.caches, &key.1) => Decision::nothing(),
            Some(due) => Decision::of(write(class.as_ref(), FINALIZER, due)),
        }
    }
}

fn is_used(caches: &Caches, name: &str) -> bool {
    let mut volumes = caches.volumes.all();
    let mut claims = caches.volume_claims.all();
    volumes.any(|volume| of_volume(volume) == Some(name))
        || claims.any(|claim| of_claim(claim).any(|one| one == name))
}

fn of_volume(volume: &PersistentVolume) -> Option<&str> {
    let spec = volume.spec.as_ref()?;
    spec.volume_attributes_class_name.as_deref()
}

/// The classes that a claim asks for, has, and is changing to.
fn of_claim(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &str> {
    let (spec, status) = (claim.spec.as_ref(), claim.status.as_ref());
    let changing = status.and_then(|status| status.modify_volume_status.as_ref());
    let asked = spec.and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let current = status.and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let target = changing.and_then(|one| one.target_volume_attributes_class_name.as_deref());
    [asked, current, target].into_iter().flatten()
}
