//! The volumes and the claims that wait for each other.
//!
//! A claim gets the smallest volume that has what it asks for. There may be ten thousand of each,
//! so nobody looks at all volumes for one claim, or at all claims for one volume: both are kept by
//! what must be equal, then by their access modes, of which there are few sets, and then by size.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::api::resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::quantity::Quantity;
use machinery::selector::LabelSelector;

use super::store::Diff;
use crate::known::{Key, Known as _};
use crate::{meta, used_claims};

/// The annotation of a claim that was bound once.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The class of a claim or a volume, from the time before there was a field for it.
pub(crate) const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The mode of a claim or a volume that names none.
const FILESYSTEM: &str = "Filesystem";
/// The resource that volumes have.
pub(crate) const STORAGE: &str = "storage";

/// What a volume has, or what a claim asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) form: Form,
    /// The access modes.
    pub(crate) access: Access,
    pub(crate) size: Quantity,
}

/// What must be the same for a volume and a claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Form {
    /// The storage class; empty for none.
    pub(crate) class: String,
    /// A file system or a device.
    pub(crate) mode: String,
    /// The class of attributes; empty for none.
    pub(crate) attributes: String,
}

/// A set of access modes. A volume must have all that a claim asks for.
pub(crate) type Access = BTreeSet<String>;

/// The volumes and claims that have nobody, and the pods that name claims. Like all caches this is
/// lost with the process.
#[derive(Debug, Default)]
pub(crate) struct Unbound {
    free: Shelf<String, ()>,
    /// Names of volumes, by the claim that they name.
    promised: BTreeMap<Key, BTreeSet<String>>,
    /// With their selectors; `None` for one that cannot be read.
    waiting: Shelf<Key, Option<LabelSelector>>,
    /// Names of pods, and whether they have ended, by the claim that they name.
    pods: BTreeMap<Key, BTreeMap<String, bool>>,
}

/// Things by their form, their access modes and their size, from the smallest on.
#[derive(Debug)]
struct Shelf<K, V>(BTreeMap<Form, BTreeMap<Access, BySize<K, V>>>);

type BySize<K, V> = BTreeMap<(Quantity, K), V>;

impl Shape {
    pub(crate) fn of_volume(volume: &PersistentVolume) -> Shape {
        let spec = volume.spec.as_ref();
        let class = spec.and_then(|spec| spec.storage_class_name.as_deref());
        let attributes = spec.and_then(|spec| spec.volume_attributes_class_name.as_ref());
        Shape {
            form: Form {
                class: class_of(&volume.metadata, class),
                mode: mode_of(spec.and_then(|spec| spec.volume_mode.as_deref())),
                attributes: attributes.cloned().unwrap_or_default(),
            },
            access: access_of(spec.and_then(|spec| spec.access_modes.as_deref())),
            size: size_of(spec.and_then(|spec| spec.capacity.as_ref())),
        }
    }

    pub(crate) fn of_claim(claim: &PersistentVolumeClaim) -> Shape {
        let spec = claim.spec.as_ref();
        let class = spec.and_then(|spec| spec.storage_class_name.as_deref());
        let attributes = spec.and_then(|spec| spec.volume_attributes_class_name.as_ref());
        let resources = spec.and_then(|spec| spec.resources.as_ref());
        Shape {
            form: Form {
                class: class_of(&claim.metadata, class),
                mode: mode_of(spec.and_then(|spec| spec.volume_mode.as_deref())),
                attributes: attributes.cloned().unwrap_or_default(),
            },
            access: access_of(spec.and_then(|spec| spec.access_modes.as_deref())),
            size: size_of(resources.and_then(|resources| resources.requests.as_ref())),
        }
    }
}

impl Unbound {
    /// The names of the free volumes that have what is asked for, the most suitable first: with few
    /// access modes, then small. Their labels are not looked at.
    pub(crate) fn fitting<'a>(&'a self, asked: &'a Shape) -> impl Iterator<Item = &'a str> {
        let sets = self.free.0.get(&asked.form).into_iter().flatten();
        let mut sets: Vec<_> = sets
            .filter(|(has, _)| asked.access.is_subset(has))
            .collect();
        sets.sort_by_key(|(has, _)| has.len());
        let sets = sets.into_iter();
        sets.flat_map(move |(_, volumes)| volumes.range((asked.size, String::new())..))
            .map(|((_, name), ())| name.as_str())
    }

    /// The names of the volumes that name a claim, or an earlier one with its name.
    pub(crate) fn promised(&self, claim: &Key) -> impl Iterator<Item = &str> {
        let names = self.promised.get(claim).into_iter().flatten();
        names.map(String::as_str)
    }

    /// The waiting claims that a volume would fit, the smallest first of each set of access modes.
    pub(crate) fn waiting_for<'a>(
        &'a self,
        volume: &'a PersistentVolume,
        shape: &'a Shape,
    ) -> impl Iterator<Item = &'a Key> {
        let sets = self.waiting.0.get(&shape.form).into_iter().flatten();
        let sets = sets.filter(move |(asked, _)| asked.is_subset(&shape.access));
        let claims = sets.flat_map(move |(_, claims)| {
            let claims = claims.iter();
            claims.take_while(move |((size, _), _)| *size <= shape.size)
        });
        let labels = volume.metadata.labels.as_ref();
        let selecting = claims.filter(move |(_, selector)| {
            let selector = selector.as_ref();
            selector.is_some_and(|selector| meta::matches(selector, labels))
        });
        selecting.map(|((_, claim), _)| claim)
    }

    /// The waiting claims that ask for what a claim asked for, of any size and access modes, as
    /// far as there are volumes for them.
    pub(crate) fn rivals<'a>(
        &'a self,
        claim: &PersistentVolumeClaim,
    ) -> impl Iterator<Item = &'a Key> {
        let form = Shape::of_claim(claim).form;
        let same = selector_of(claim);
        let sets = self.waiting.0.get(&form).into_iter().flatten();
        sets.flat_map(move |(access, claims)| {
            let (form, same) = (form.clone(), same.clone());
            let is_served = move |size: Quantity| {
                let asked = Shape {
                    form: form.clone(),
                    access: access.clone(),
                    size,
                };
                self.fitting(&asked).next().is_some()
            };
            // If there is no volume for one, there is none for a larger one.
            claims
                .iter()
                .filter(move |(_, selector)| **selector == same)
                .map(|((size, claim), _)| (*size, claim))
                .take_while(move |(size, _)| is_served(*size))
                .map(|(_, claim)| claim)
        })
    }

    /// The waiting claims of a storage class; those without one for the empty name.
    pub(crate) fn of_class<'a>(&'a self, class: &'a str) -> impl Iterator<Item = &'a Key> {
        let first = Form {
            class: class.to_owned(),
            mode: String::new(),
            attributes: String::new(),
        };
        let forms = self.waiting.0.range(first..);
        let forms = forms.take_while(move |(form, _)| form.class == class);
        let sets = forms.flat_map(|(_, sets)| sets.values());
        sets.flat_map(|claims| claims.keys().map(|(_, claim)| claim))
    }

    /// The names of the pods that name a claim and have not ended.
    pub(crate) fn pods(&self, claim: &Key) -> impl Iterator<Item = &str> {
        let pods = self.pods.get(claim).into_iter().flatten();
        let pods = pods.filter(|(_, has_ended)| !**has_ended);
        pods.map(|(name, _)| name.as_str())
    }

    /// The same with those that have ended.
    pub(crate) fn all_pods(&self, claim: &Key) -> impl Iterator<Item = &str> {
        let pods = self.pods.get(claim).into_iter();
        pods.flat_map(|pods| pods.keys().map(String::as_str))
    }

    pub(super) fn note_volume(&mut self, volume: &Diff<PersistentVolume>) {
        if let Some(old) = &volume.old {
            let name = meta::name(&old.metadata).to_owned();
            if let Some(claim) = promise(old) {
                unlist(&mut self.promised, &claim, &name);
            }
            if is_free(old) {
                self.free.take(&Shape::of_volume(old), name);
            }
        }
        if let Some(new) = &volume.new {
            let name = meta::name(&new.metadata).to_owned();
            if let Some(claim) = promise(new) {
                self.promised.entry(claim).or_default().insert(name.clone());
            }
            if is_free(new) {
                self.free.put(Shape::of_volume(new), name, ());
            }
        }
    }

    pub(super) fn note_claim(&mut self, claim: &Diff<PersistentVolumeClaim>) {
        if let Some(old) = claim.old.as_ref().filter(|old| is_waiting(old)) {
            let key = meta::key(&old.metadata);
            self.waiting.take(&Shape::of_claim(old), key);
        }
        if let Some(new) = claim.new.as_ref().filter(|new| is_waiting(new)) {
            let key = meta::key(&new.metadata);
            self.waiting
                .put(Shape::of_claim(new), key, selector_of(new));
        }
    }

    pub(super) fn note_pod(&mut self, pod: &Diff<Pod>) {
        if let Some(old) = &pod.old {
            for claim in claims_of(old) {
                if let Some(pods) = self.pods.get_mut(&claim) {
                    pods.remove(meta::name(&old.metadata));
                    if pods.is_empty() {
                        self.pods.remove(&claim);
                    }
                }
            }
        }
        if let Some(new) = &pod.new {
            for claim in claims_of(new) {
                let name = meta::name(&new.metadata).to_owned();
                let pods = self.pods.entry(claim).or_default();
                pods.insert(name, has_ended(new));
            }
        }
    }
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Shelf<K, V> {
        Shelf(BTreeMap::new())
    }
}

impl<K: Ord, V> Shelf<K, V> {
    fn put(&mut self, shape: Shape, key: K, value: V) {
        let sets = self.0.entry(shape.form).or_default();
        let things = sets.entry(shape.access).or_default();
        things.insert((shape.size, key), value);
    }

    /// Removes a thing, and what is empty without it.
    fn take(&mut self, shape: &Shape, key: K) {
        let Some(sets) = self.0.get_mut(&shape.form) else {
            return;
        };
        if let Some(things) = sets.get_mut(&shape.access) {
            things.remove(&(shape.size, key));
            if things.is_empty() {
                sets.remove(&shape.access);
            }
        }
        if sets.is_empty() {
            self.0.remove(&shape.form);
        }
    }
}

/// True if any claim may get the volume.
pub(crate) fn is_free(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    let status = volume.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase == Some("Available")
        && !meta::is_deleting(&volume.metadata)
        && spec.is_some_and(|spec| spec.claim_ref.is_none())
}

/// True if the claim has no volume, and never had one.
pub(crate) fn is_waiting(claim: &PersistentVolumeClaim) -> bool {
    let is_bound = meta::annotation(&claim.metadata, BIND_COMPLETED).is_some();
    !is_bound && claim.place().is_empty()
}

/// The selector of a claim, which selects everything if it has none; `None` if it cannot be read.
pub(crate) fn selector_of(claim: &PersistentVolumeClaim) -> Option<LabelSelector> {
    let spec = claim.spec.as_ref();
    let selector = spec.and_then(|spec| spec.selector.as_ref());
    let Some(selector) = selector else {
        return Some(LabelSelector::default());
    };
    let json = serde_json::to_value(selector).ok()?;
    LabelSelector::from_object(&json).ok()
}

/// The claim that a volume names.
fn promise(volume: &PersistentVolume) -> Option<Key> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some((text(&claim.namespace), text(&claim.name)))
}

fn has_ended(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    ["Succeeded", "Failed"].contains(&phase.unwrap_or_default())
}

fn claims_of(pod: &Pod) -> impl Iterator<Item = Key> {
    let namespace = meta::namespace(&pod.metadata);
    used_claims::named(pod).map(move |name| (namespace.to_owned(), name))
}

fn class_of(metadata: &ObjectMeta, field: Option<&str>) -> String {
    let annotated = meta::annotation(metadata, STORAGE_CLASS);
    annotated.or(field).unwrap_or_default().to_owned()
}

fn mode_of(mode: Option<&str>) -> String {
    mode.unwrap_or(FILESYSTEM).to_owned()
}

fn access_of(modes: Option<&[String]>) -> Access {
    modes.into_iter().flatten().cloned().collect()
}

/// The storage among amounts of resources; none if there is no such amount.
pub(crate) fn size_of(amounts: Option<&BTreeMap<String, resource::Quantity>>) -> Quantity {
    let amount = amounts.and_then(|amounts| amounts.get(STORAGE));
    amount
        .and_then(|amount| Quantity::parse(&amount.0).ok())
        .unwrap_or_default()
}

fn unlist(index: &mut BTreeMap<Key, BTreeSet<String>>, under: &Key, name: &str) {
    if let Some(names) = index.get_mut(under) {
        names.remove(name);
        if names.is_empty() {
            index.remove(under);
        }
    }
}
