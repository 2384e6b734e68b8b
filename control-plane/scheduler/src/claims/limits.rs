//! How many volumes of a driver a node can have attached (`CSINode`).
//!
//! A volume counts once, however many pods on the node use it, and as long as it is attached.
//! Volumes of drivers that were part of Kubernetes once (such as `awsElasticBlockStore`) are not
//! counted.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use machinery::object::{self, Object};

use super::Claims;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::refusal::{Filter, Refusal, refuse};

/// The largest number of volumes on a node, by driver. Other drivers have no limit.
pub(super) type Limits = HashMap<String, i64>;

/// Reads the limits of a CSINode.
pub(super) fn read(node: &Object) -> Limits {
    let drivers = object::items(node, &["spec", "drivers"]).iter();
    let limited = drivers.filter_map(|driver| {
        let count = object::integer(driver, &["allocatable", "count"])?;
        Some((object::text(driver, &["name"]).to_owned(), count))
    });
    limited.collect()
}

/// A VolumeAttachment.
#[derive(Debug)]
pub(super) struct Attachment {
    driver: String,
    volume: String,
}

impl Attachment {
    pub(super) fn read(object: &Object) -> Attachment {
        let text = |path: &[&str]| object::text(object, path).to_owned();
        Attachment {
            driver: text(&["spec", "attacher"]),
            volume: text(&["spec", "source", "persistentVolumeName"]),
        }
    }
}

/// A volume that a driver attaches to a node.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Attached<'a> {
    driver: &'a str,
    volume: Which<'a>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Which<'a> {
    /// By the handle that the driver knows it by.
    Made(&'a str),
    /// One that is still to be made, by namespace and name of its claim.
    Claimed(&'a str, &'a str),
}

impl Claims {
    /// The filter for the number of volumes on a node.
    pub fn check_limits(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
        if pod.volume_claims.is_empty() {
            return Ok(());
        }
        let Some(limits) = self.limits.get(&node.name) else {
            return Ok(());
        };
        let wanted = self.attached_for(pod);
        let wanted: HashSet<Attached<'_>> = wanted
            .filter(|one| limits.contains_key(one.driver))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let there = self.attached_to(node);
        let mut counts: HashMap<&str, i64> = HashMap::new();
        for one in there.union(&wanted) {
            *counts.entry(one.driver).or_default() += 1;
        }
        let mut new = wanted.difference(&there);
        if new.any(|one| counts[one.driver] > limits[one.driver]) {
            let reason = "node(s) exceed max volume count";
            return Err(refuse(Filter::NodeVolumeLimits, reason, true));
        }
        Ok(())
    }

    /// The volumes that a node has, or gets for the pods on it.
    fn attached_to<'a>(&'a self, node: &'a NodeInfo) -> HashSet<Attached<'a>> {
        let pods = node.pods.values();
        let mut there: HashSet<Attached<'a>> =
            pods.flat_map(|pod| self.attached_for(pod)).collect();
        let from = (node.name.clone(), String::new());
        let attachments = self
            .attachments
            .range(from..)
            .take_while(|((name, _), _)| *name == node.name);
        there.extend(attachments.filter_map(|(_, one)| {
            let (_, handle) = self.volumes.get(&one.volume)?.csi.as_ref()?;
            Some(Attached {
                driver: &one.driver,
                volume: Which::Made(handle),
            })
        }));
        there
    }

    /// The volumes of a pod's claims. A claim without a volume gets one of its class.
    fn attached_for<'a>(&'a self, pod: &'a PodInfo) -> impl Iterator<Item = Attached<'a>> {
        pod.volume_claims.iter().filter_map(move |volume| {
            let name = (pod.namespace.clone(), volume.claim.clone());
            let claim = self.volume_claims.get(&name)?;
            if let Some(made) = self.volumes.get(&claim.volume) {
                let (driver, handle) = made.csi.as_ref()?;
                return Some(Attached {
                    driver,
                    volume: Which::Made(handle),
                });
            }
            Some(Attached {
                driver: &self.classes.get(&claim.class)?.provisioner,
                volume: Which::Claimed(&pod.namespace, &volume.claim),
            })
        })
    }
}
