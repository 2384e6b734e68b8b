//! The managers of a Scale, which is a view of its parent's number of replicas.

use super::fields::{Path, Set};
use super::managers::{Managers, Owned};

/// The `apiVersion` of scales.
const SCALE: &str = "autoscaling/v1";

/// Where a version of the parent has its number of replicas.
pub enum Replicas {
    /// The version is not known.
    Unknown,
    /// It has none.
    Nowhere,
    /// At this path.
    At(Path),
}

fn of_scale() -> Set {
    Set::of_names(&[&["spec", "replicas"]])
}

/// The managers of the Scale of a parent: those that own the number of replicas.
#[must_use]
pub fn to_scale(parent: &Managers, replicas: impl Fn(&str) -> Replicas) -> Managers {
    let owners = parent.0.iter().filter_map(|(manager, owned)| {
        let Replicas::At(path) = replicas(&owned.api_version) else {
            return None;
        };
        let mut manager = manager.clone();
        if !manager.api_version.is_empty() {
            manager.api_version = SCALE.to_owned();
        }
        let of_scale = Owned {
            set: of_scale(),
            api_version: SCALE.to_owned(),
            time: owned.time.clone(),
        };
        owned.set.has(&path).then_some((manager, of_scale))
    });
    Managers(owners.collect())
}

/// The managers of a parent after a write of its Scale. `version` is the parent's `apiVersion`.
#[must_use]
pub fn to_parent(
    parent: &Managers,
    mut scale: Managers,
    version: &str,
    replicas: impl Fn(&str) -> Replicas,
) -> Managers {
    let mut merged = Managers::default();
    for (manager, owned) in &parent.0 {
        let mut owned = owned.clone();
        match replicas(&owned.api_version) {
            Replicas::Unknown => continue,
            Replicas::Nowhere => {}
            Replicas::At(path) => {
                if owned.set.has(&path) && scale.0.remove(manager).is_none() {
                    let mut taken = Set::default();
                    taken.insert(&path);
                    owned.set = owned.set.difference(&taken);
                }
            }
        }
        if !owned.set.is_empty() {
            merged.0.insert(manager.clone(), owned);
        }
    }
    let Replicas::At(path) = replicas(version) else {
        return merged;
    };
    for (manager, owned) in scale.0 {
        if owned.set.intersection(&of_scale()).is_empty() {
            continue;
        }
        let mut set = Set::default();
        set.insert(&path);
        // The parent does not know this manager under the version of scales, so there is no time.
        let before = parent.0.get(&manager);
        let owned = Owned {
            set,
            api_version: version.to_owned(),
            time: before.and_then(|owned| owned.time.clone()),
        };
        merged.0.insert(manager, owned);
    }
    merged
}
