//! Claims of classes that wait for a pod: each gets a volume that exists where the pod goes, the
//! smallest that fits, or has one made there.

#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeSet;

use machinery::object::{self, Object};
use machinery::quantity::Quantity;
use machinery::selector::LabelSelector;
use serde_json::Value;

use super::devices::Grant;
use super::zones::{self, Zones};
use crate::affinity::NodeTerms;
use crate::node::NodeInfo;
pub(super) use volumes::Volumes;

/// What a pod's claims ask for on the node that is chosen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Volumes that are bound to claims.
    pub bind: Vec<Binding>,
    /// The claims whose volumes are made for the node.
    pub provision: Vec<Selection>,
    /// The claims for devices that the pod gets when it is bound.
    pub grants: Vec<Grant>,
}

/// A volume for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub volume: String,
    /// The state of the volume that was looked at.
    pub version: String,
    pub claim: String,
    /// The uid and the version of the claim.
    pub uid: String,
    pub claim_version: String,
    /// The volume named the claim already, so whoever made it bound it.
    pub is_prebound: bool,
}

/// A claim whose volume is made for the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    pub claim: String,
    /// The state of the claim that was looked at.
    pub version: String,
}

impl Plan {
    /// True if no volume has to be asked for before the pod is bound.
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }
}

/// Labels that a node must have, of which the classes of storage have several sets.
#[derive(Debug, Clone, Default)]
pub(super) struct Topology(Vec<Vec<(String, Vec<String>)>>);

/// What a claim asks of a volume.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    claim: Claim,
    namespace: String,
    class: String,
    form: Form,
    /// `None` if it cannot be read: then no volume matches.
    selector: Option<LabelSelector>,
}

/// A PersistentVolume.
#[derive(Debug)]
pub(super) struct Volume {
    name: String,
    version: String,
    /// Where it can be used; `None` for everywhere.
    pub(super) reach: Option<NodeTerms>,
    pub(super) zones: Vec<Zones>,
    class: String,
    size: Quantity,
    form: Form,
    labels: Object,
    ending: bool,
    available: bool,
    /// The namespace, the name and the uid of the claim that it is for.
    claim: Option<[String; 3]>,
    /// The driver that attaches it, and the handle that the driver knows it by.
    pub(super) csi: Option<(String, String)>,
}

/// In which ways a volume can be used.
#[derive(Debug, Default)]
struct Form {
    /// A file system or a device.
    mode: String,
    access: Vec<String>,
    attributes_class: String,
}

/// A claim of a class that waits, with the volumes that fit it somewhere.
#[derive(Debug)]
pub(super) struct Late {
    claim: Claim,
    /// From the smallest on.
    volumes: Vec<Candidate>,
    /// Where a volume can be made; `None` if nowhere.
    made: Option<Topology>,
}

/// A claim, as volumes refer to it.
#[derive(Debug, Clone, Default)]
struct Claim {
    name: String,
    uid: String,
    version: String,
    size: Quantity,
}

#[derive(Debug)]
struct Candidate {
    name: String,
    version: String,
    reach: Option<NodeTerms>,
    is_prebound: bool,
}

impl Topology {
    /// Reads the `allowedTopologies` of a class.
    pub(super) fn read(class: &Object) -> Topology {
        let terms = object::items(class, &["allowedTopologies"]).iter();
        let term = |term: &Value| {
            let all = object::items(term, &["matchLabelExpressions"]).iter();
            let one = |one: &Value| {
                let values = object::items(one, &["values"]).iter();
                let values = values.filter_map(|value| value.as_str().map(str::to_owned));
                (object::text(one, &["key"]).to_owned(), values.collect())
            };
            all.map(one).collect()
        };
        Topology(terms.map(term).collect())
    }

    /// True if a node has the labels of one of the sets, or if there are none.
    fn matches(&self, node: &NodeInfo) -> bool {
        let has = |(key, values): &(String, Vec<String>)| {
            node.labels
                .get(key)
                .is_some_and(|value| values.contains(value))
        };
        self.0.is_empty()
            || self
                .0
                .iter()
                .any(|all| !all.is_empty() && all.iter().all(has))
    }
}

impl Form {
    fn read(spec: &Value) -> Form {
        let text = |key: &str| object::text(spec, &[key]).to_owned();
        let access = object::items(spec, &["accessModes"]).iter();
        let access = access.filter_map(|mode| mode.as_str().map(str::to_owned));
        Form {
            mode: match text("volumeMode") {
                none if none.is_empty() => "Filesystem".to_owned(),
                mode => mode,
            },
            access: access.collect(),
            attributes_class: text("volumeAttributesClassName"),
        }
    }
}

impl Wanted {
    pub(super) fn read(claim: &Object) -> Wanted {
        let spec = claim.get("spec").unwrap_or(&Value::Null);
        let selector = spec.get("selector").unwrap_or(&Value::Null);
        Wanted {
            claim: Claim {
                name: object::name(claim).to_owned(),
                uid: object::uid(claim).to_owned(),
                version: object::resource_version(claim).to_owned(),
                size: amount(spec, &["resources", "requests", "storage"]),
            },
            namespace: object::namespace(claim).to_owned(),
            class: object::storage_class(claim).to_owned(),
            form: Form::read(spec),
            selector: LabelSelector::from_object(selector).ok(),
        }
    }

    pub(super) fn uid(&self) -> &str {
        &self.claim.uid
    }

    /// True if a volume is for this claim.
    fn is_named_by(&self, volume: &Volume) -> bool {
        let claim = volume.claim.as_ref();
        claim.is_some_and(|[namespace, name, uid]| {
            (namespace, name) == (&self.namespace, &self.claim.name)
                && (uid.is_empty() || *uid == self.claim.uid)
        })
    }

    /// True if a volume was bound to this claim, and waits for its controller.
    pub(super) fn is_bound_by(&self, volume: &Volume) -> bool {
        self.is_named_by(volume) && volume.is_bound()
    }

    /// True if a volume has what is asked, wherever it is.
    fn fits(&self, volume: &Volume) -> bool {
        let (form, its) = (&self.form, &volume.form);
        let smaller = volume.size < self.claim.size;
        let is_other = (&form.mode, &form.attributes_class) != (&its.mode, &its.attributes_class);
        let free = volume.claim.is_none() || self.is_named_by(volume);
        if smaller || is_other || volume.ending || !free {
            return false;
        }
        if self.is_named_by(volume) {
            return true;
        }
        let selected = |selector: &LabelSelector| selector.matches(volume.labels.as_object());
        volume.available
            && self.selector.as_ref().is_some_and(selected)
            && self.class == volume.class
            && form.access.iter().all(|mode| its.access.contains(mode))
    }

    /// The claim with the volumes that fit it. One that names it excludes all others.
    pub(super) fn among<'v>(
        &self,
        volumes: impl Iterator<Item = &'v Volume>,
        made: Option<Topology>,
    ) -> Late {
        let mut all: Vec<&Volume> = volumes.filter(|volume| self.fits(volume)).collect();
        all.sort_by(|a, b| (a.size, &a.name).cmp(&(b.size, &b.name)));
        if let Some(own) = all.iter().find(|volume| self.is_named_by(volume)) {
            all = vec![own];
        }
        let candidate = |volume: &Volume| Candidate {
            name: volume.name.clone(),
            version: volume.version.clone(),
            reach: volume.reach.clone(),
            is_prebound: volume.claim.is_some(),
        };
        Late {
            claim: self.claim.clone(),
            volumes: all.into_iter().map(candidate).collect(),
            made,
        }
    }
}

impl Volume {
    pub(super) fn read(volume: &Object, reach: Option<NodeTerms>) -> Volume {
        let spec = volume.get("spec").unwrap_or(&Value::Null);
        let claim = spec.get("claimRef").filter(|claim| claim.is_object());
        let csi = spec.get("csi").filter(|csi| csi.is_object());
        let part = |of: &Value, key: &str| object::text(of, &[key]).to_owned();
        Volume {
            name: object::name(volume).to_owned(),
            version: object::resource_version(volume).to_owned(),
            reach,
            zones: zones::read(volume),
            class: object::storage_class(volume).to_owned(),
            size: amount(spec, &["capacity", "storage"]),
            form: Form::read(spec),
            labels: object::at(volume, &["metadata", "labels"])
                .cloned()
                .unwrap_or_default(),
            ending: object::deletion_timestamp(volume).is_some(),
            available: object::text(volume, &["status", "phase"]) == "Available",
            claim: claim.map(|claim| ["namespace", "name", "uid"].map(|key| part(claim, key))),
            csi: csi.map(|csi| (part(csi, "driver"), part(csi, "volumeHandle"))),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// True if somebody has given it to a claim.
    pub(super) fn is_bound(&self) -> bool {
        let claim = self.claim.as_ref();
        claim.is_some_and(|[_, _, uid]| !uid.is_empty())
    }
}

/// Orders claims as kube-scheduler looks for their volumes: the smallest first.
pub(super) fn sort(claims: &mut [Late]) {
    claims.sort_by_key(|late| late.claim.size);
}

/// What the claims need on a node; `None` if it is not to be had there.
pub(super) fn plan(claims: &[Late], node: &NodeInfo) -> Option<Plan> {
    let mut plan = Plan::default();
    let mut taken = BTreeSet::new();
    for late in claims {
        let mut volumes = late.volumes.iter();
        let found = volumes.find(|volume| {
            let reach = volume.reach.as_ref();
            !taken.contains(volume.name.as_str())
                && reach.is_none_or(|terms| terms.matches(&node.name, &node.labels))
        });
        if let Some(volume) = found {
            taken.insert(volume.name.as_str());
            plan.bind.push(Binding {
                volume: volume.name.clone(),
                version: volume.version.clone(),
                claim: late.claim.name.clone(),
                uid: late.claim.uid.clone(),
                claim_version: late.claim.version.clone(),
                is_prebound: volume.is_prebound,
            });
        } else if late.made.as_ref().is_some_and(|made| made.matches(node)) {
            plan.provision.push(Selection {
                claim: late.claim.name.clone(),
                version: late.claim.version.clone(),
            });
        } else {
            return None;
        }
    }
    Some(plan)
}

/// A quantity; a missing one is zero.
fn amount(object: &Value, path: &[&str]) -> Quantity {
    Quantity::parse(object::text(object, path)).unwrap_or_default()
}
