//! Devices that pods claim. A claim that is allocated says where its devices can be used. For
//! others devices are found on each node, and allocated when the pod goes there. Until a watch shows
//! that, no other claim gets them.

mod capacity;
mod compiled;
mod counters;
mod published;
mod result;
mod search;
mod slice;
mod taken;
#[cfg(test)]
mod tests;
mod wanted;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use machinery::object::{self, Object};
use serde_json::Value;

use super::{Name, key};
use crate::affinity::NodeTerms;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::refusal::{Filter, Freed, Refusal};
use compiled::Compiled;
use counters::Left;
use published::Published;
use search::{Chosen, search};
pub use slice::DeviceId;
use slice::{Slice, node_terms};
use taken::{Given, Taken};
use wanted::{Class, Wanted};

/// The finalizer of a claim that is allocated.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The most users that the API lets one claim have.
const USERS_MAX: usize = 256;
/// What the selectors of a pod's claims may cost before no more nodes are looked at: else one pod
/// could keep all others waiting. Kubernetes looks at each node for up to ten seconds.
const COST_OF_POD_MAX: u64 = 100_000_000;
const TOO_EXPENSIVE: &str = "selectors of devices cost too much to look at more nodes";
const ELSEWHERE: &str = "resourceclaim not available on the node";

/// The claims for devices of the cluster, and the devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    claims: HashMap<Name, Claim>,
    classes: HashMap<String, Arc<Class>>,
    /// The selectors of claims.
    compiled: Compiled,
    slices: BTreeMap<String, Arc<Slice>>,
    /// The claims that decisions allocated, until a watch shows it.
    granted: HashMap<Name, Granted>,
    /// What follows from `slices`, if it is known.
    published: OnceLock<Arc<Published>>,
    /// The devices in use: of the claims that are known, what they have and what they are granted.
    taken: Arc<Taken>,
}

/// A claim for devices.
#[derive(Debug)]
struct Claim {
    object: Object,
    /// The uid of its controller.
    owner: Option<String>,
    ending: bool,
    allocation: Option<Allocation>,
    /// The uids of those that may use it.
    reserved_for: BTreeSet<String>,
}

#[derive(Debug)]
struct Allocation {
    /// Where it can be used; `None` for everywhere.
    reach: Option<NodeTerms>,
    /// What others do not get: devices, or parts of devices.
    devices: Vec<Given>,
    /// Conditions must hold before a pod is bound.
    is_conditional: bool,
}

/// A claim that a decision allocated.
#[derive(Debug)]
struct Granted {
    uid: String,
    devices: Vec<Given>,
    /// The revision of the claim that has it; `None` until the apiserver stored it.
    written: Option<u64>,
}

/// What a pod gets of a claim before it is bound: it may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub claim: String,
    pub uid: String,
    /// What is allocated first; `None` if the claim is.
    pub allotment: Option<Allotment>,
}

/// Devices for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allotment {
    /// The state of the claim that was looked at.
    pub version: String,
    /// The finalizers of the claim, if one has to be added.
    pub finalizers: Option<Vec<String>>,
    /// The allocation as the status of the claim has it.
    pub allocation: Value,
    /// What others do not get: devices, or parts of devices.
    pub devices: Vec<Given>,
}

/// How the claims of a pod stand.
pub(super) enum Standing {
    Known(Needs),
    /// No node can take the pod.
    Refused(String),
    /// The pod waits for others, who report themselves.
    Waits,
}

/// What the claims for devices of a pod need of a node.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Where the allocated claims can be used.
    reach: Vec<NodeTerms>,
    /// The allocated claims that the pod may not use yet.
    unreserved: Vec<Grant>,
    /// `None` if all are allocated.
    unallocated: Option<Box<Unallocated>>,
}

/// The claims of a pod that are not allocated, and the devices of the cluster.
#[derive(Debug)]
struct Unallocated {
    wanted: Vec<Wanted>,
    published: Arc<Published>,
    taken: Arc<Taken>,
    left: Left,
    /// What selectors took on all nodes so far.
    cost: Cell<u64>,
}

impl Unallocated {
    fn search(&self, node: &NodeInfo) -> Result<Vec<Chosen<'_>>, Cow<'static, str>> {
        let in_use = (&*self.taken, &self.left);
        search(&self.wanted, &self.published, in_use, node, &self.cost)
    }
}

impl Needs {
    pub(super) fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        if let Some(unallocated) = &self.unallocated {
            if unallocated.cost.get() > COST_OF_POD_MAX {
                return Err(refused(Cow::Borrowed(TOO_EXPENSIVE)));
            }
            unallocated.search(node).map(drop).map_err(refused)?;
        }
        if is_out_of_reach(self.reach.iter(), node) {
            return Err(refused(Cow::Borrowed(ELSEWHERE)));
        }
        Ok(())
    }

    /// What the pod gets if it goes to the node; `None` if it cannot.
    pub(super) fn plan(&self, node: &NodeInfo) -> Option<Vec<Grant>> {
        let mut grants = self.unreserved.clone();
        let Some(unallocated) = &self.unallocated else {
            return Some(grants);
        };
        let chosen = unallocated.search(node).ok()?;
        for (at, wanted) in unallocated.wanted.iter().enumerate() {
            let own = chosen.iter().filter(|one| one.at.claim == at);
            let own: Vec<_> = own.copied().collect();
            let allocation = result::allocation(wanted, &own);
            let mut finalizers = wanted.finalizers.clone();
            let is_protected = finalizers.iter().any(|one| one == FINALIZER);
            finalizers.push(FINALIZER.to_owned());
            grants.push(Grant {
                claim: wanted.name.clone(),
                uid: wanted.uid.clone(),
                allotment: Some(Allotment {
                    version: wanted.version.clone(),
                    finalizers: (!is_protected).then_some(finalizers),
                    devices: devices_of(&allocation),
                    allocation,
                }),
            });
        }
        Some(grants)
    }
}

impl Devices {
    pub(super) fn set_claim(&mut self, object: &Object) {
        let (name, claim) = (key(object), Claim::read(object));
        self.count(&name, Taken::give_back);
        let granted = self.granted.get(&name);
        if granted.is_some_and(|granted| granted.is_over(&claim)) {
            self.granted.remove(&name);
        }
        self.claims.insert(name.clone(), claim);
        self.count(&name, Taken::take);
    }

    pub(super) fn remove_claim(&mut self, object: &Object) {
        let name = key(object);
        self.count(&name, Taken::give_back);
        self.granted.remove(&name);
        self.claims.remove(&name);
    }

    pub(super) fn clear_claims(&mut self) {
        // A list may be older than what was written while it was on its way, so `granted` stays.
        self.claims.clear();
        self.taken = Arc::default();
    }

    pub(super) fn set_class(&mut self, object: &Object) {
        let class = Class::read(object);
        self.classes.insert(class.name.clone(), Arc::new(class));
    }

    pub(super) fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    pub(super) fn clear_classes(&mut self) {
        self.classes.clear();
    }

    pub(super) fn set_slice(&mut self, object: &Object) {
        let name = object::name(object).to_owned();
        self.slices.insert(name, Arc::new(Slice::read(object)));
        self.published = OnceLock::new();
    }

    pub(super) fn remove_slice(&mut self, name: &str) {
        self.slices.remove(name);
        self.published = OnceLock::new();
    }

    pub(super) fn clear_slices(&mut self) {
        self.slices.clear();
        self.published = OnceLock::new();
    }

    /// How the claims of a pod stand.
    pub(super) fn of(&self, pod: &PodInfo) -> Standing {
        let mut needs = Needs::default();
        let mut wanted = Vec::new();
        for named in &pod.device_claims {
            let Some(named) = named else {
                return Standing::Waits;
            };
            let name = (pod.namespace.clone(), named.claim.clone());
            let Some(claim) = self.claims.get(&name) else {
                return Standing::Waits;
            };
            let is_others = named.generated && claim.owner.as_ref() != Some(&pod.uid);
            if claim.ending || is_others || self.granted.contains_key(&name) {
                return Standing::Waits;
            }
            let Some(allocation) = &claim.allocation else {
                match Wanted::read(&claim.object, &self.classes, &self.compiled) {
                    Ok(one) => wanted.push(one),
                    Err(why) => return Standing::Refused(why),
                }
                continue;
            };
            if allocation.is_conditional {
                let (space, name) = name;
                let why = format!("claim {space}/{name}: binding conditions are not supported");
                return Standing::Refused(why);
            }
            needs.reach.extend(allocation.reach.clone());
            if !claim.reserved_for.contains(&pod.uid) {
                if claim.reserved_for.len() >= USERS_MAX {
                    return Standing::Refused("resourceclaim in use".to_owned());
                }
                needs.unreserved.push(Grant {
                    claim: name.1,
                    uid: object::uid(&claim.object).to_owned(),
                    allotment: None,
                });
            }
        }
        if !wanted.is_empty() {
            needs.unallocated = Some(Box::new(Unallocated {
                wanted,
                published: Arc::clone(self.published()),
                taken: Arc::clone(&self.taken),
                left: Left::default(),
                cost: Cell::default(),
            }));
        }
        Standing::Known(needs)
    }

    /// A claim of the pod that nobody else uses and whose devices are out of reach of a node.
    pub(super) fn freed<'n>(
        &self,
        pod: &PodInfo,
        mut nodes: impl Iterator<Item = &'n NodeInfo>,
    ) -> Option<Freed> {
        let named = pod.device_claims.iter().flatten();
        let claims = named.filter_map(|named| {
            let name = (pod.namespace.clone(), named.claim.clone());
            self.claims.get(&name)
        });
        let own: Vec<(&Claim, &NodeTerms)> = claims
            .filter(|claim| claim.reserved_for.iter().all(|uid| *uid == pod.uid))
            .filter_map(|claim| Some((claim, claim.allocation.as_ref()?.reach.as_ref()?)))
            .collect();
        let (claim, _) = nodes.find_map(|node| {
            let mut own = own.iter();
            own.find(|(_, reach)| is_out_of_reach(std::iter::once(*reach), node))
        })?;
        Some(Freed {
            claim: object::name(&claim.object).to_owned(),
            uid: object::uid(&claim.object).to_owned(),
            version: object::resource_version(&claim.object).to_owned(),
        })
    }

    /// A decision allocates these claims.
    pub(super) fn grant(&mut self, namespace: &str, grants: &[Grant]) {
        // Claims that are gone, which a list did not show any more.
        self.granted
            .retain(|name, _| self.claims.contains_key(name));
        for grant in grants {
            let Some(allotment) = &grant.allotment else {
                continue;
            };
            let name = (namespace.to_owned(), grant.claim.clone());
            let granted = Granted {
                uid: grant.uid.clone(),
                devices: allotment.devices.clone(),
                written: None,
            };
            self.count(&name, Taken::give_back);
            self.granted.insert(name.clone(), granted);
            self.count(&name, Taken::take);
        }
    }

    /// The apiserver stored this in that version of the claim, or refused it.
    pub(super) fn settle(&mut self, namespace: &str, grant: &Grant, version: Option<&str>) {
        let name = (namespace.to_owned(), grant.claim.clone());
        let known = self.granted.get_mut(&name);
        let Some(granted) = known.filter(|granted| granted.uid == grant.uid) else {
            return;
        };
        granted.written = version.map(revision);
        let claim = self.claims.get(&name);
        // A list may already be newer than that.
        if version.is_none() || claim.is_none_or(|claim| granted.is_over(claim)) {
            self.count(&name, Taken::give_back);
            self.granted.remove(&name);
            self.count(&name, Taken::take);
        }
    }

    fn published(&self) -> &Arc<Published> {
        let published = || Arc::new(Published::of(self.slices.values()));
        self.published.get_or_init(published)
    }

    /// Counts the devices of a claim, before it changes and after that. Only a search shares the
    /// count: while there is none, it is not copied.
    fn count(&mut self, name: &Name, by: fn(&mut Taken, &Given)) {
        let Some(claim) = self.claims.get(name) else {
            return;
        };
        let taken = Arc::make_mut(&mut self.taken);
        let allocated = claim.allocation.iter().flat_map(|one| &one.devices);
        let granted = self.granted.get(name).into_iter();
        let granted = granted.flat_map(|one| &one.devices);
        allocated
            .chain(granted)
            .for_each(|device| by(taken, device));
    }
}

impl Granted {
    /// True if this state of the claim tells what became of it: it is no older state, which a watch
    /// or a list may still bring after the write.
    fn is_over(&self, claim: &Claim) -> bool {
        let now = revision(object::resource_version(&claim.object));
        let is_newer = self.written.is_some_and(|written| now >= written);
        claim.allocation.is_some() || object::uid(&claim.object) != self.uid || is_newer
    }
}

impl Claim {
    fn read(object: &Object) -> Claim {
        let allocation = object::at(object, &["status", "allocation"]);
        let reserved = object::items(object, &["status", "reservedFor"]).iter();
        let uids = reserved.map(|one| object::text(one, &["uid"]).to_owned());
        let owner = object::controller(object);
        let mut kept = object.clone();
        object::remove(&mut kept, &["metadata", "managedFields"]);
        Claim {
            owner: owner.map(|owner| object::text(owner, &["uid"]).to_owned()),
            ending: object::is_deleting(object),
            allocation: allocation.map(Allocation::read),
            reserved_for: uids.collect(),
            object: kept,
        }
    }
}

impl Allocation {
    fn read(allocation: &Value) -> Allocation {
        let selector = allocation.get("nodeSelector").filter(|one| one.is_object());
        let mut results = object::items(allocation, &["devices", "results"]).iter();
        Allocation {
            reach: selector.map(node_terms),
            devices: devices_of(allocation),
            is_conditional: results
                .any(|one| !object::items(one, &["bindingConditions"]).is_empty()),
        }
    }
}

/// What others do not get of an allocation. Administrators look at devices of others, and take
/// nothing.
fn devices_of(allocation: &Value) -> Vec<Given> {
    let results = object::items(allocation, &["devices", "results"]).iter();
    let own = results.filter(|one| one["adminAccess"] != true);
    own.map(Given::read).collect()
}

/// A version as a number, so that two of one object can be compared.
fn revision(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

fn is_out_of_reach<'t>(mut reach: impl Iterator<Item = &'t NodeTerms>, node: &NodeInfo) -> bool {
    reach.any(|terms| !terms.matches(&node.name, &node.labels))
}

fn refused(reason: Cow<'static, str>) -> Refusal {
    Refusal {
        filter: Filter::DynamicResources,
        reasons: vec![reason],
        resolvable: false,
    }
}

/// True if a node was refused because the devices of an allocated claim are elsewhere.
pub(crate) fn is_elsewhere(refusal: &Refusal) -> bool {
    refusal.reasons.iter().any(|reason| *reason == ELSEWHERE)
}
