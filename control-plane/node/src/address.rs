//! IP addresses: one for each node, and one range per node for its pods.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

/// The address of node 0 is the next after this.
const NODES: u32 = u32::from_be_bytes([172, 18, 0, 1]);
/// Where the ranges of pods begin, and the lowest range, from which numbering continues after
/// the end.
const PODS: u32 = u32::from_be_bytes([10, 244, 0, 0]);
const PODS_LOWEST: u32 = u32::from_be_bytes([10, 128, 0, 0]);
const PODS_HIGHEST: u32 = u32::from_be_bytes([10, 255, 255, 255]);
/// Number of addresses in a node's range.
const RANGE: u32 = 256;
/// Maximum number of pods on a node: its range without the first two addresses and the last.
pub const PODS_MAX: u32 = RANGE - 3;

/// The address of the node with this number.
pub fn of_node(number: u32) -> String {
    Ipv4Addr::from(NODES + 1 + number % (1 << 17)).to_string()
}

/// The range of the node's pods, such as `10.244.3.0/24`.
pub fn range(number: u32) -> String {
    format!("{}/24", Ipv4Addr::from(base(number)))
}

/// The addresses of a node's pods.
#[derive(Debug)]
pub struct Pool {
    base: u32,
    by_pod: HashMap<String, u32>,
    taken: BTreeSet<u32>,
    /// Where the search for a free address begins, so that a released one is not reused at once.
    next: u32,
}

impl Pool {
    /// The pool of the node with this number.
    pub fn new(number: u32) -> Pool {
        Pool {
            base: base(number),
            by_pod: HashMap::new(),
            taken: BTreeSet::new(),
            next: 2,
        }
    }

    /// The pod's address. A pod keeps its current address, `has`, if it is in this range and free.
    pub fn of_pod(&mut self, uid: &str, has: &str) -> String {
        if let Some(at) = self.by_pod.get(uid) {
            return Ipv4Addr::from(self.base + at).to_string();
        }
        let has = has.parse::<Ipv4Addr>().ok().map(u32::from);
        let has = has.and_then(|has| has.checked_sub(self.base));
        let has = has.filter(|at| *at < RANGE && !self.taken.contains(at));
        let at = has.unwrap_or_else(|| self.free());
        self.taken.insert(at);
        self.by_pod.insert(uid.to_owned(), at);
        Ipv4Addr::from(self.base + at).to_string()
    }

    /// Releases the address of a pod that is gone.
    pub fn give_back(&mut self, uid: &str) {
        if let Some(at) = self.by_pod.remove(uid) {
            self.taken.remove(&at);
        }
    }

    /// A free address. If there is none, one is used twice, which is safe: no packet is sent.
    fn free(&mut self) -> u32 {
        let usable = |at: &u32| !self.taken.contains(at);
        let after = (self.next..RANGE - 1).find(usable);
        let at = after.or_else(|| (2..self.next).find(usable)).unwrap_or(2);
        self.next = if at + 1 < RANGE - 1 { at + 1 } else { 2 };
        at
    }
}

fn base(number: u32) -> u32 {
    let ranges = (PODS_HIGHEST - PODS_LOWEST + 1) / RANGE;
    let first = (PODS - PODS_LOWEST) / RANGE;
    PODS_LOWEST + (first + number) % ranges * RANGE
}
