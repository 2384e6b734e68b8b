//! The volumes of the cluster. There may be ten thousand, so nobody looks at all of them for one
//! claim: those that name a claim are kept by its name, the others by class and size.

use std::collections::{BTreeSet, HashMap};

use machinery::quantity::Quantity;

use super::{Volume, Wanted};
use crate::claims::Name;

/// Volumes by their names, and what they are found by. Invariant: each is in one of both indices.
#[derive(Debug, Default)]
pub(in crate::claims) struct Volumes {
    all: HashMap<String, Volume>,
    /// Those that name no claim, by class and from the smallest on.
    unnamed: HashMap<String, BTreeSet<(Quantity, String)>>,
    /// The names of the others, by the claim.
    naming: HashMap<Name, BTreeSet<String>>,
}

impl Volumes {
    pub(in crate::claims) fn get(&self, name: &str) -> Option<&Volume> {
        self.all.get(name)
    }

    /// The volumes that name a claim, or an earlier one with its name.
    pub(in crate::claims) fn naming(&self, wanted: &Wanted) -> impl Iterator<Item = &Volume> {
        let claim = (wanted.namespace.clone(), wanted.claim.name.clone());
        let names = self.naming.get(&claim).into_iter().flatten();
        names.filter_map(|name| self.all.get(name))
    }

    /// The volumes that a claim may get: those that name it, and those of its class that are large
    /// enough.
    pub(in crate::claims) fn of(&self, wanted: &Wanted) -> impl Iterator<Item = &Volume> {
        let least = (wanted.claim.size, String::new());
        let of_class = self.unnamed.get(&wanted.class).into_iter();
        let large = of_class.flat_map(move |volumes| volumes.range(least.clone()..));
        let large = large.filter_map(|(_, name)| self.all.get(name));
        self.naming(wanted).chain(large)
    }

    pub(in crate::claims) fn insert(&mut self, volume: Volume) {
        self.remove(&volume.name);
        let name = volume.name.clone();
        match claim_of(&volume) {
            Some(claim) => {
                self.naming.entry(claim).or_default().insert(name.clone());
            }
            None => {
                let volumes = self.unnamed.entry(volume.class.clone()).or_default();
                volumes.insert((volume.size, name.clone()));
            }
        }
        self.all.insert(name, volume);
    }

    pub(in crate::claims) fn remove(&mut self, name: &str) {
        let Some(volume) = self.all.remove(name) else {
            return;
        };
        if let Some(claim) = claim_of(&volume) {
            if let Some(names) = self.naming.get_mut(&claim) {
                names.remove(name);
                if names.is_empty() {
                    self.naming.remove(&claim);
                }
            }
        } else if let Some(volumes) = self.unnamed.get_mut(&volume.class) {
            volumes.remove(&(volume.size, volume.name));
            if volumes.is_empty() {
                self.unnamed.remove(&volume.class);
            }
        }
    }

    pub(in crate::claims) fn clear(&mut self) {
        *self = Volumes::default();
    }
}

/// The namespace and the name of the claim that a volume names.
fn claim_of(volume: &Volume) -> Option<Name> {
    let [namespace, name, _] = volume.claim.as_ref()?;
    Some((namespace.clone(), name.clone()))
}
