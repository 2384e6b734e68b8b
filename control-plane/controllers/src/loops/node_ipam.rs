//! Ranges of pod addresses: a node that has none gets one of each family, out of the cluster's.
//!
//! One key stands for all nodes, so no two decisions give ranges at the same time. A write whose
//! answer was lost may be stored: after a failure the apiserver is asked which ranges nodes have.

#[cfg(test)]
mod tests;

use std::iter::Peekable;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use k8s_openapi::api::core::v1::Node;
use machinery::api::Call;
use machinery::object;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::cache::{Caches, Changed};
use crate::decision::{Decision, Note, merge};
use crate::known::{Key, Shared, kind_of};
use crate::loops::prefix::Prefix;
use crate::loops::{Context, Loop, service_cidr, turn};
use crate::meta;

/// The length of a node's range if none is asked for.
const LENGTH_V4: u32 = 24;
const LENGTH_V6: u32 = 64;
/// How much longer than the cluster's range that of a node may be with IPv6, as in Kubernetes.
const LONGER_V6_MAX: u32 = 16;
/// Maximum number of nodes that are told in one decision that there is no range for them: the
/// youngest, since the others have been told.
const TOLD_MAX: usize = 32;
/// Delay before nodes are listed again, after that failed once.
const LISTED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Gives nodes their ranges; it does not run if there are none.
pub(crate) struct NodeIpam(pub(crate) Option<NodeRanges>);

/// The ranges of a cluster out of which nodes get theirs, that of the primary family first.
#[derive(Debug, Clone)]
pub struct NodeRanges(Vec<Share>);

/// The lengths of the ranges of nodes that are asked for; `None` and 0 for the defaults.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaskSizes {
    /// Of a cluster with one family.
    pub any: Option<u32>,
    pub v4: Option<u32>,
    pub v6: Option<u32>,
}

/// A range, and how long its parts are that nodes get.
#[derive(Debug, Clone, Copy)]
struct Share {
    range: Prefix,
    length: u32,
}

impl NodeRanges {
    /// Reads a list of one range, or two of different families. The errors are
    /// kube-controller-manager's.
    pub fn parse(list: &str, sizes: MaskSizes) -> Result<NodeRanges, String> {
        if list.trim().is_empty() {
            let why = "Must specify --cluster-cidr if --allocate-node-cidrs is set";
            return Err(why.to_owned());
        }
        let parse = |text: &str| {
            let range = Prefix::parse(text);
            range.ok_or_else(|| format!("failed to parse cidr value:{text:?}"))
        };
        let ranges: Result<Vec<Prefix>, String> = list.trim().split(',').map(parse).collect();
        let ranges = ranges?;
        let count = ranges.len();
        let is_v4 = |range: &Prefix| range.is_v4();
        if count > 1 && (ranges.iter().all(is_v4) || !ranges.iter().any(is_v4)) {
            return Err(format!(
                "len of ClusterCIDRs=={count} and they are not configured as dual stack (at least \
                 one from each IPFamily"
            ));
        }
        if count > 2 {
            return Err(format!(
                "length of clusterCIDRs is:{count} more than max allowed of 2"
            ));
        }
        let [v4, v6] = sizes.of(&ranges)?;
        let share = |range: Prefix| Share::new(range, if range.is_v4() { v4 } else { v6 });
        let shares: Result<Vec<Share>, &str> = ranges.into_iter().map(share).collect();
        Ok(NodeRanges(shares?))
    }
}

impl MaskSizes {
    /// The length for each family. One that is not used may be anything.
    fn of(self, ranges: &[Prefix]) -> Result<[u32; 2], &'static str> {
        let [any, v4, v6] = [self.any, self.v4, self.v6].map(|size| size.filter(|one| *one > 0));
        let is_v4 = ranges.iter().all(Prefix::is_v4);
        let dual = ranges.len() > 1;
        let why = match (any, v4, v6) {
            (Some(_), ..) if dual => {
                "usage of --node-cidr-mask-size is not allowed with dual-stack clusters"
            }
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed \
                 if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use \
                 IPFamily specific flags"
            }
            (Some(any), None, None) => return Ok([any, any]),
            (None, Some(_), _) if !dual && !is_v4 => {
                "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster"
            }
            (None, _, Some(_)) if !dual && is_v4 => {
                "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster"
            }
            _ => return Ok([v4.unwrap_or(LENGTH_V4), v6.unwrap_or(LENGTH_V6)]),
        };
        Err(why)
    }
}

impl Share {
    fn new(range: Prefix, length: u32) -> Result<Share, &'static str> {
        if length < range.length() {
            return Err(
                "Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to \
                 --node-cidr-mask-size configured for CIDR family",
            );
        }
        let longest = if range.is_v4() {
            32
        } else {
            (range.length() + LONGER_V6_MAX).min(128)
        };
        if length > longest {
            return Err("New CIDR set failed; the node CIDR size is too big");
        }
        Ok(Share { range, length })
    }
}

impl Loop for NodeIpam {
    fn name(&self) -> &'static str {
        "node-ipam"
    }

    fn component(&self) -> String {
        "cidrAllocator".to_owned()
    }

    fn can_run(&self) -> bool {
        self.0.is_some()
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        // Not the heartbeats.
        if let Changed::Node(diff) = changed
            && diff.old.as_deref().map(texts) != diff.new.as_deref().map(texts)
        {
            wake(turn());
        }
    }

    fn decide(&self, context: &Context<'_>, _: &Key) -> Decision {
        let caches = context.caches;
        let mut decision = Decision::nothing();
        let Some(NodeRanges(shares)) = &self.0 else {
            return decision;
        };
        let nodes = caches.nodes.all();
        let waits = |node: &&Shared<Node>| !meta::is_deleting(&node.metadata) && !has_range(node);
        let mut waiting: Vec<&Shared<Node>> = nodes.filter(waits).collect();
        if waiting.is_empty() {
            return decision;
        }
        let mut used = used(caches);
        if context.failure.is_some() {
            let list = Call::List {
                kind: Arc::clone(kind_of::<Node>()),
                namespace: String::new(),
            };
            match context.answers.to(&list) {
                Some(Ok(nodes)) => add_stored(nodes, &mut used, &mut waiting),
                Some(Err(_)) => {
                    decision.push(list);
                    decision.again(LISTED_AGAIN_AFTER);
                    return decision;
                }
                None => return Decision::asking(vec![list]),
            }
        }
        waiting.sort_by(|one, other| order(one).cmp(&order(other)));
        let mut free: Vec<Free> = shares.iter().map(|one| Free::of(*one, &used)).collect();
        for (at, node) in waiting.iter().enumerate() {
            let found: Option<Vec<Prefix>> = free.iter_mut().map(Free::take).collect();
            let Some(found) = found else {
                let untold = waiting.len().saturating_sub(TOLD_MAX).max(at);
                let left = waiting[untold..].iter();
                decision
                    .notes
                    .extend(left.map(|node| note(node, "CIDRNotAvailable")));
                break;
            };
            decision
                .push(give(node, &found))
                .only_for(0)
                .tell_failure(note(node, "CIDRAssignmentFailed"));
        }
        decision
    }
}

/// The parts of a range that are in no other, from the lowest on.
struct Free {
    share: Share,
    /// The first and last numbers of parts that are in use, in order. They may overlap.
    used: Peekable<vec::IntoIter<(u64, u64)>>,
    /// The lowest part that may be free.
    next: u64,
}

impl Free {
    fn of(share: Share, used: &[Prefix]) -> Free {
        let parts = |other: &Prefix| share.range.parts_with(share.length, other);
        let mut used: Vec<(u64, u64)> = used.iter().filter_map(parts).collect();
        used.sort_unstable();
        Free {
            share,
            used: used.into_iter().peekable(),
            next: 0,
        }
    }

    fn take(&mut self) -> Option<Prefix> {
        let Share { range, length } = self.share;
        while let Some((_, last)) = self.used.next_if(|(first, _)| *first <= self.next) {
            self.next = self.next.max(last + 1);
        }
        if self.next >= range.parts(length) {
            return None;
        }
        self.next += 1;
        Some(range.part(length, self.next - 1))
    }
}

fn order(node: &Node) -> (Timestamp, &str) {
    (meta::created(&node.metadata), meta::name(&node.metadata))
}

/// The ranges of all nodes and of services, which no node may get.
fn used(caches: &Caches) -> Vec<Prefix> {
    let nodes = caches.nodes.all().flat_map(|node| {
        let texts = texts(node).into_iter();
        texts.filter_map(Prefix::parse).collect::<Vec<Prefix>>()
    });
    let services = caches.service_ranges.all();
    let services = services.flat_map(|range| service_cidr::prefixes(range));
    nodes.chain(services).collect()
}

/// Adds the ranges of a list of nodes to those that are in use. Nodes that have one wait no more.
fn add_stored(nodes: &Value, used: &mut Vec<Prefix>, waiting: &mut Vec<&Shared<Node>>) {
    for node in object::items(nodes, &["items"]) {
        let ranges = object::items(node, &["spec", "podCIDRs"]);
        if !ranges.is_empty() {
            let texts = ranges.iter().filter_map(Value::as_str);
            used.extend(texts.filter_map(Prefix::parse));
            waiting.retain(|one| meta::uid(&one.metadata) != object::uid(node));
        }
    }
}

fn has_range(node: &Node) -> bool {
    !texts(node).is_empty()
}

/// The ranges of a node.
fn texts(node: &Node) -> Vec<&str> {
    let spec = node.spec.iter();
    let all = spec.flat_map(|spec| spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr));
    all.map(String::as_str).collect()
}

/// The call that gives ranges to a node. The apiserver refuses it if the node has others by now.
fn give(node: &Node, ranges: &[Prefix]) -> Call {
    let texts: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    let patch = json!({
        "metadata": {"uid": meta::uid(&node.metadata)},
        "spec": {"podCIDR": texts.first(), "podCIDRs": texts},
    });
    merge(kind_of::<Node>(), "", meta::name(&node.metadata), patch)
}

fn note(node: &Node, reason: &'static str) -> Note {
    let name = meta::name(&node.metadata);
    Note::new(node, reason, format!("Node {name} status is now: {reason}"))
}
