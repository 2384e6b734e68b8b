//! What pods claim besides room on a node: volumes, which others bind, so that a pod waits until
//! they have done so, and [`devices`]. [`limits`] says how many volumes a node takes, and [`zones`]
//! where those are that have zones as labels.

mod devices;
mod late;
mod limits;
#[cfg(test)]
mod tests;
mod zones;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use machinery::object::{self, Object};
use serde_json::Value;

use crate::affinity::NodeTerms;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, VolumeRef};
use crate::refusal::{Filter, Freed, Refusal, refuse};
use devices::Devices;
pub(crate) use devices::is_elsewhere;
pub use devices::{Allotment, DeviceId, Grant};
pub use late::{Binding, Plan, Selection};
use late::{Late, Topology, Volume, Volumes, Wanted};
use limits::{Attachment, Limits};
use zones::Zones;

/// The annotation of a claim that its controller has finished to bind.
const BOUND: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a volume that did not name its claim when it was made.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation that names the node for which a volume is wanted.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The access mode of a claim that only one pod may use.
const EXCLUSIVE: &str = "ReadWriteOncePod";
/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Claims of the cluster, and what is needed to judge them.
#[derive(Debug, Default)]
pub struct Claims {
    volume_claims: HashMap<Name, VolumeClaim>,
    volumes: Volumes,
    /// The volumes that a decision bound to a claim, until a watch shows it, and the claim's uid.
    assumed: HashMap<String, String>,
    /// The claims whose volumes a decision asked for, until a watch shows it.
    asked: HashSet<Name>,
    classes: HashMap<String, Class>,
    devices: Devices,
    /// By the name of the node.
    limits: HashMap<String, Limits>,
    /// By the name of the node and their own.
    attachments: BTreeMap<(String, String), Attachment>,
}

/// Namespace and name.
pub type Name = (String, String);

/// The kinds of objects that [`Claims`] follows, as group, version and kind.
pub const KINDS: [(&str, &str, &str); 8] = [
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "PersistentVolume"),
    ("storage.k8s.io", "v1", "StorageClass"),
    ("storage.k8s.io", "v1", "CSINode"),
    ("storage.k8s.io", "v1", "VolumeAttachment"),
    ("resource.k8s.io", "v1", "DeviceClass"),
    ("resource.k8s.io", "v1", "ResourceSlice"),
    ("resource.k8s.io", "v1", "ResourceClaim"),
];

#[derive(Debug)]
struct VolumeClaim {
    /// The uid of its controller.
    owner: Option<String>,
    ending: bool,
    lost: bool,
    /// The volume that it names, whether or not it is bound.
    volume: String,
    bound: bool,
    class: String,
    /// The node for which its volume is made.
    selected: Option<String>,
    /// Only one pod may use it at a time.
    exclusive: bool,
    wanted: Wanted,
}

#[derive(Debug)]
struct Class {
    /// Volumes are bound when a pod needs them, not when they are claimed.
    waits: bool,
    /// The driver that makes volumes.
    provisioner: String,
    /// Where volumes can be made; `None` if they are made by hand.
    made: Option<Topology>,
}

/// What could not be asked for.
#[derive(Debug, Default)]
pub struct Failed {
    /// The volumes that no claim got.
    pub volumes: Vec<String>,
    /// The claims whose volumes are not made.
    pub claims: Vec<Name>,
}

impl Failed {
    /// True if all was asked for.
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.claims.is_empty()
    }
}

/// How the claims of a pod stand.
#[derive(Debug)]
pub enum Standing {
    /// The pod may go where its claims allow.
    Known(Needs),
    /// No node can take the pod, says this filter.
    Refused(Filter, String),
    /// The same, for now: a claim is bound to a volume that is not known, perhaps because the watch
    /// of volumes is behind that of claims.
    Unseen(String),
    /// The pod waits for others, who report themselves.
    Waits,
    /// The same for a claim for devices, which may never come: the pod keeps no place meanwhile.
    Lacks,
}

/// What the claims of a pod need of a node.
#[derive(Debug, Default)]
pub struct Needs {
    /// Of each bound volume that is not everywhere, where it is.
    volumes: Vec<NodeTerms>,
    /// The zones of bound volumes.
    zones: Vec<Zones>,
    /// The claims whose volumes depend on the node.
    late: Vec<Late>,
    /// The nodes for which volumes of other claims are being made. The pod can only go there.
    selected: BTreeSet<String>,
    /// The claims that no other pod may use.
    exclusive: Vec<Name>,
    devices: devices::Needs,
}

impl Standing {
    /// True if every claim of the pod has its volume.
    pub fn is_settled(&self) -> bool {
        matches!(self, Standing::Known(needs) if needs.late.is_empty() && needs.selected.is_empty())
    }

    /// True if a volume of the pod is being made for a node.
    pub fn is_made(&self) -> bool {
        matches!(self, Standing::Known(needs) if !needs.selected.is_empty())
    }
}

impl Needs {
    /// The claims that no other pod may use, by namespace and name.
    pub fn exclusive(&self) -> &[(String, String)] {
        &self.exclusive
    }

    /// The filter for volumes.
    pub fn check_volumes(&self, node: &NodeInfo) -> Result<(), Refusal> {
        let refused = |reason| Err(refuse(Filter::VolumeBinding, reason, false));
        let mut volumes = self.volumes.iter();
        if !volumes.all(|terms| terms.matches(&node.name, &node.labels)) {
            return refused("node(s) didn't match PersistentVolume's node affinity");
        }
        let is_made_elsewhere = self.selected.iter().any(|name| *name != node.name);
        if is_made_elsewhere || late::plan(&self.late, node).is_none() {
            return refused("node(s) didn't find available persistent volumes to bind");
        }
        Ok(())
    }

    /// The filter for zones of volumes.
    pub fn check_zones(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if zones::are_of(&self.zones, &node.labels) {
            return Ok(());
        }
        let reason = "node(s) had no available volume zone";
        Err(refuse(Filter::VolumeZone, reason, false))
    }

    /// What is asked for if the pod goes to the node; `None` if it cannot.
    pub fn plan(&self, node: &NodeInfo) -> Option<Plan> {
        let plan = late::plan(&self.late, node)?;
        Some(Plan {
            grants: self.devices.plan(node)?,
            ..plan
        })
    }

    /// The filter for devices.
    pub fn check_devices(&self, node: &NodeInfo) -> Result<(), Refusal> {
        self.devices.check(node)
    }
}

impl Claims {
    /// An object of one of [`KINDS`] is new or changed.
    pub fn set(&mut self, kind: &str, object: &Object) {
        let name = object::name(object).to_owned();
        match kind {
            "PersistentVolumeClaim" => {
                let (name, claim) = (key(object), volume_claim(object));
                // An older state may still arrive.
                if claim.selected.is_some() || !claim.volume.is_empty() {
                    self.asked.remove(&name);
                }
                self.volume_claims.insert(name, claim);
            }
            "PersistentVolume" => {
                let volume = Volume::read(object, reach(object));
                // An older state may still arrive.
                if volume.is_bound() {
                    self.assumed.remove(&name);
                }
                self.volumes.insert(volume);
            }
            "StorageClass" => {
                let provisioner = object::text(object, &["provisioner"]);
                let class = Class {
                    waits: object::text(object, &["volumeBindingMode"]) == "WaitForFirstConsumer",
                    made: (provisioner != NO_PROVISIONER).then(|| Topology::read(object)),
                    provisioner: provisioner.to_owned(),
                };
                self.classes.insert(name, class);
            }
            "CSINode" => {
                self.limits.insert(name, limits::read(object));
            }
            "VolumeAttachment" => {
                let attachment = Attachment::read(object);
                self.attachments.insert(on_node(object), attachment);
            }
            "DeviceClass" => self.devices.set_class(object),
            "ResourceSlice" => self.devices.set_slice(object),
            _ => self.devices.set_claim(object),
        }
    }

    /// An object of one of [`KINDS`] is gone.
    pub fn remove(&mut self, kind: &str, object: &Object) {
        match kind {
            "PersistentVolumeClaim" => {
                self.asked.remove(&key(object));
                self.volume_claims.remove(&key(object));
            }
            "PersistentVolume" => {
                self.assumed.remove(object::name(object));
                self.volumes.remove(object::name(object));
            }
            "StorageClass" => drop(self.classes.remove(object::name(object))),
            "CSINode" => drop(self.limits.remove(object::name(object))),
            "VolumeAttachment" => drop(self.attachments.remove(&on_node(object))),
            "DeviceClass" => self.devices.remove_class(object::name(object)),
            "ResourceSlice" => self.devices.remove_slice(object::name(object)),
            _ => self.devices.remove_claim(object),
        }
    }

    /// Removes all objects of one of [`KINDS`].
    pub fn clear(&mut self, kind: &str) {
        match kind {
            "PersistentVolumeClaim" => {
                self.asked.clear();
                self.volume_claims.clear();
            }
            "PersistentVolume" => {
                self.assumed.clear();
                self.volumes.clear();
            }
            "StorageClass" => self.classes.clear(),
            "CSINode" => self.limits.clear(),
            "VolumeAttachment" => self.attachments.clear(),
            "DeviceClass" => self.devices.clear_classes(),
            "ResourceSlice" => self.devices.clear_slices(),
            _ => self.devices.clear_claims(),
        }
    }

    /// How the claims of a pod stand.
    pub fn of(&self, pod: &PodInfo) -> Standing {
        let refused = |why| Standing::Refused(Filter::VolumeBinding, why);
        let mut needs = Needs::default();
        match self.devices.of(pod) {
            devices::Standing::Known(known) => needs.devices = known,
            devices::Standing::Refused(why) => {
                return Standing::Refused(Filter::DynamicResources, why);
            }
            devices::Standing::Waits => return Standing::Lacks,
        }
        let mut claims = Vec::new();
        for volume in &pod.volume_claims {
            match self.volume_claim(pod, volume) {
                Ok(claim) => {
                    if claim.exclusive && !volume.ephemeral {
                        let name = (pod.namespace.clone(), volume.claim.clone());
                        needs.exclusive.push(name);
                    }
                    claims.push((&volume.claim, claim));
                }
                Err(why) => return refused(why),
            }
        }
        let unbound = claims.iter().filter(|(_, claim)| !claim.bound);
        let mut late = Vec::new();
        for (name, claim) in unbound {
            match self.classes.get(&claim.class) {
                Some(class) if class.waits && claim.volume.is_empty() => {
                    let name = (pod.namespace.clone(), (*name).clone());
                    late.push((name, *claim, class));
                }
                _ => {
                    let why = "pod has unbound immediate PersistentVolumeClaims";
                    return refused(why.to_owned());
                }
            }
        }
        for (_, claim) in claims.iter().filter(|(_, claim)| claim.bound) {
            match self.volumes.get(&claim.volume) {
                Some(volume) => {
                    needs.volumes.extend(volume.reach.clone());
                    needs.zones.extend_from_slice(&volume.zones);
                }
                None => {
                    let volume = &claim.volume;
                    return Standing::Unseen(format!("persistentvolume {volume:?} not found"));
                }
            }
        }
        let mut waits = false;
        for (name, claim, class) in late {
            if let Some(node) = &claim.selected {
                needs.selected.insert(node.clone());
                continue;
            }
            if self.asked.contains(&name) || self.is_given_to(claim) {
                waits = true;
                continue;
            }
            let volumes = self.volumes.of(&claim.wanted);
            let free = volumes.filter(|volume| !self.assumed.contains_key(volume.name()));
            let wanted = claim.wanted.among(free, class.made.clone());
            needs.late.push(wanted);
        }
        // A pod has a place where a volume is made for it, also while it waits for the others.
        if waits && needs.selected.is_empty() {
            return Standing::Waits;
        }
        late::sort(&mut needs.late);
        Standing::Known(needs)
    }

    /// Counts what a plan asks for in a namespace as done before a watch shows it: no other pod
    /// gets the volumes, and none asks for the same claims on another node.
    pub fn assume(&mut self, namespace: &str, plan: &Plan) {
        let bound = plan.bind.iter();
        self.assumed
            .extend(bound.map(|one| (one.volume.clone(), one.uid.clone())));
        let asked = plan.provision.iter();
        self.asked
            .extend(asked.map(|one| (namespace.to_owned(), one.claim.clone())));
    }

    /// These were not asked for after all.
    pub fn forget(&mut self, failed: &Failed) {
        self.assumed
            .retain(|name, _| !failed.volumes.contains(name));
        self.asked.retain(|name| !failed.claims.contains(name));
    }

    /// True if a volume was bound to the claim, and waits for its controller.
    fn is_given_to(&self, claim: &VolumeClaim) -> bool {
        let mut assumed = self.assumed.values();
        let mut naming = self.volumes.naming(&claim.wanted);
        assumed.any(|uid| uid == claim.wanted.uid())
            || naming.any(|volume| claim.wanted.is_bound_by(volume))
    }

    /// A claim for devices of the pod that can be deallocated, because its devices are out of reach
    /// of one of the nodes.
    pub fn freed<'n>(
        &self,
        pod: &PodInfo,
        nodes: impl Iterator<Item = &'n NodeInfo>,
    ) -> Option<Freed> {
        self.devices.freed(pod, nodes)
    }

    /// A decision gives these claims for devices to a pod.
    pub fn grant(&mut self, namespace: &str, grants: &[Grant]) {
        self.devices.grant(namespace, grants);
    }

    /// The apiserver stored that in this version of the claim, or refused it.
    pub fn settle(&mut self, namespace: &str, grant: &Grant, version: Option<&str>) {
        self.devices.settle(namespace, grant, version);
    }

    /// The error is kube-scheduler's reason.
    fn volume_claim(&self, pod: &PodInfo, volume: &VolumeRef) -> Result<&VolumeClaim, String> {
        let name = &volume.claim;
        let found = self
            .volume_claims
            .get(&(pod.namespace.clone(), name.clone()));
        let Some(claim) = found else {
            return Err(if volume.ephemeral {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                )
            } else {
                format!("persistentvolumeclaim {name:?} not found")
            });
        };
        if claim.lost {
            let volume = &claim.volume;
            return Err(format!(
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            ));
        }
        if claim.ending {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if volume.ephemeral && claim.owner.as_ref() != Some(&pod.uid) {
            let (space, own) = (&pod.namespace, &pod.name);
            return Err(format!(
                "PVC {space}/{name} was not created for pod {space}/{own} (pod is not owner)"
            ));
        }
        Ok(claim)
    }
}

fn key(object: &Object) -> Name {
    (
        object::namespace(object).to_owned(),
        object::name(object).to_owned(),
    )
}

/// The node of an attachment, and its name.
fn on_node(attachment: &Object) -> (String, String) {
    (
        object::text(attachment, &["spec", "nodeName"]).to_owned(),
        object::name(attachment).to_owned(),
    )
}

fn volume_claim(claim: &Object) -> VolumeClaim {
    let text = |path: &[&str]| object::text(claim, path).to_owned();
    let annotated = |name: &str| object::at(claim, &["metadata", "annotations", name]);
    let mut owners = object::items(claim, &["metadata", "ownerReferences"]).iter();
    let owner = owners.find(|owner| owner["controller"] == true);
    let volume = text(&["spec", "volumeName"]);
    let modes = object::items(claim, &["spec", "accessModes"]);
    VolumeClaim {
        owner: owner.map(|owner| object::text(owner, &["uid"]).to_owned()),
        ending: object::deletion_timestamp(claim).is_some(),
        lost: text(&["status", "phase"]) == "Lost",
        bound: !volume.is_empty() && annotated(BOUND).is_some(),
        volume,
        class: object::storage_class(claim).to_owned(),
        selected: annotated(SELECTED_NODE).map(|node| node.as_str().unwrap_or_default().to_owned()),
        exclusive: modes.contains(&Value::from(EXCLUSIVE)),
        wanted: Wanted::read(claim),
    }
}

/// Where a volume can be used; `None` for everywhere.
fn reach(volume: &Object) -> Option<NodeTerms> {
    let terms = object::at(
        volume,
        &["spec", "nodeAffinity", "required", "nodeSelectorTerms"],
    )?;
    let terms: Vec<NodeSelectorTerm> = serde_json::from_value(terms.clone()).unwrap_or_default();
    Some(NodeTerms::read(&terms))
}
