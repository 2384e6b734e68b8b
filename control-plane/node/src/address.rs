//! IP addresses: one of each family for each node, and one range per node and family for its pods.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of node 0 is the next after this.
const NODES: u32 = u32::from_be_bytes([172, 18, 0, 1]);
const NODES_V6: u128 = Ipv6Addr::new(0xfd00, 0x172, 0x18, 0, 0, 0, 0, 1).to_bits();
/// Where the ranges of pods begin, and the lowest range, from which numbering continues after
/// the end.
const PODS: u32 = u32::from_be_bytes([10, 244, 0, 0]);
const PODS_LOWEST: u32 = u32::from_be_bytes([10, 128, 0, 0]);
const PODS_HIGHEST: u32 = u32::from_be_bytes([10, 255, 255, 255]);
/// Number of addresses in a node's range. Of a larger one only so many are used.
const RANGE: u32 = 256;
/// Number of addresses of the smallest range that has one for a pod.
const RANGE_LEAST: u32 = 4;
/// Number of nodes whose addresses differ.
const NODES_MAX: u32 = 1 << 17;
/// Maximum number of pods on a node: its range without the first two addresses and the last.
pub const PODS_MAX: u32 = RANGE - 3;

/// The addresses of a pod, one of each family of the node.
#[derive(Debug, Clone, Copy)]
pub struct PodAddresses<'a> {
    /// The node's addresses, the primary one first.
    pub host: &'a [&'a str],
    /// The pod's own addresses, the same way.
    pub pod: &'a [&'a str],
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// The family with this name.
    pub fn named(name: &str) -> Option<Family> {
        match name {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        }
    }

    /// The address of the node with this number.
    pub fn of_node(self, number: u32) -> String {
        let at = 1 + number % NODES_MAX;
        match self {
            Family::V4 => Ipv4Addr::from(NODES + at).to_string(),
            Family::V6 => Ipv6Addr::from(NODES_V6 + u128::from(at)).to_string(),
        }
    }

    /// The range of the node's pods, such as `10.244.3.0/24`.
    pub fn range(self, number: u32) -> String {
        match self {
            Family::V4 => format!("{}/24", Ipv4Addr::from(base(number))),
            Family::V6 => format!("{}/64", base_v6(number)),
        }
    }
}

/// A range of pod addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    family: Family,
    first: u128,
    /// How many of its addresses are used, at most [`RANGE`].
    size: u32,
}

impl Range {
    /// Reads a range such as `10.244.3.0/24`.
    fn parse(text: &str) -> Option<Range> {
        let (address, length) = text.split_once('/')?;
        let (family, bits) = read(address)?;
        let width: u32 = match family {
            Family::V4 => 32,
            Family::V6 => 128,
        };
        let free_bits = width.checked_sub(length.parse().ok()?)?;
        let size = 1_u128.checked_shl(free_bits);
        let low = size.map_or(u128::MAX, |size| size - 1);
        Some(Range {
            family,
            first: bits & !low,
            size: size.map_or(RANGE, |size| size.min(u128::from(RANGE)) as u32),
        })
    }

    /// The address at a place of the range.
    fn at(&self, place: u32) -> String {
        let bits = self.first + u128::from(place);
        match self.family {
            Family::V4 => Ipv4Addr::from(bits as u32).to_string(),
            Family::V6 => Ipv6Addr::from(bits).to_string(),
        }
    }

    /// The place of an address in the range.
    fn place(&self, address: &str) -> Option<u32> {
        let (family, bits) = read(address)?;
        let place = u32::try_from(bits.checked_sub(self.first)?).ok()?;
        (family == self.family && place < self.size).then_some(place)
    }
}

/// The addresses of a node's pods.
#[derive(Debug)]
pub struct Pool {
    /// One range of each family, the primary one first.
    ranges: Vec<Range>,
    /// The place of each pod in the range of each family.
    by_pod: HashMap<String, u32>,
    taken: BTreeSet<u32>,
    /// Where the search for a free address begins, so that a released one is not reused at once.
    next: u32,
}

impl Pool {
    /// The pool of the node with this number, for addresses of these families.
    pub fn new(number: u32, families: &[Family]) -> Pool {
        let texts = families.iter().map(|family| family.range(number));
        let ranges = texts.filter_map(|text| Range::parse(&text));
        Pool::of(ranges.collect())
    }

    fn of(ranges: Vec<Range>) -> Pool {
        Pool {
            ranges,
            by_pod: HashMap::new(),
            taken: BTreeSet::new(),
            next: 2,
        }
    }

    /// Takes addresses out of these ranges from now on, which the Node has. Ranges of other families
    /// than the node's, and such that have no address for a pod, change nothing.
    pub fn move_to(&mut self, texts: &[&str]) {
        let ranges: Vec<Range> = texts.iter().filter_map(|text| Range::parse(text)).collect();
        let families = ranges.iter().map(|range| range.family);
        let same = families.eq(self.ranges.iter().map(|range| range.family));
        let usable = ranges.iter().all(|range| range.size >= RANGE_LEAST);
        if same && usable && ranges != self.ranges {
            *self = Pool::of(ranges);
        }
    }

    /// The pod's addresses, one of each family. A pod keeps its current address, `has`, if it is in
    /// this range and free.
    pub fn of_pod(&mut self, uid: &str, has: &str) -> Vec<String> {
        let at = match self.by_pod.get(uid) {
            Some(at) => *at,
            None => self.take(uid, has),
        };
        self.ranges.iter().map(|range| range.at(at)).collect()
    }

    fn take(&mut self, uid: &str, has: &str) -> u32 {
        let mut ranges = self.ranges.iter();
        let has = ranges.find_map(|range| range.place(has));
        let has = has.filter(|at| !self.taken.contains(at));
        let at = has.unwrap_or_else(|| self.free());
        self.taken.insert(at);
        self.by_pod.insert(uid.to_owned(), at);
        at
    }

    /// Releases the addresses of a pod that is gone.
    pub fn give_back(&mut self, uid: &str) {
        if let Some(at) = self.by_pod.remove(uid) {
            self.taken.remove(&at);
        }
    }

    /// A free place. If there is none, one is used twice, which is safe: no packet is sent.
    fn free(&mut self) -> u32 {
        let sizes = self.ranges.iter().map(|range| range.size);
        let last = sizes.min().unwrap_or(RANGE) - 1;
        let usable = |at: &u32| !self.taken.contains(at);
        let after = (self.next..last).find(usable);
        let at = after.or_else(|| (2..self.next).find(usable)).unwrap_or(2);
        self.next = if at + 1 < last { at + 1 } else { 2 };
        at
    }
}

fn read(address: &str) -> Option<(Family, u128)> {
    Some(match address.parse().ok()? {
        IpAddr::V4(address) => (Family::V4, u128::from(address.to_bits())),
        IpAddr::V6(address) => (Family::V6, address.to_bits()),
    })
}

fn base(number: u32) -> u32 {
    let ranges = (PODS_HIGHEST - PODS_LOWEST + 1) / RANGE;
    let first = (PODS - PODS_LOWEST) / RANGE;
    PODS_LOWEST + (first + number) % ranges * RANGE
}

fn base_v6(number: u32) -> Ipv6Addr {
    // A node more than there are numbers shares a range, as with the other family.
    Ipv6Addr::new(0xfd00, 0x10, 0x244, number as u16, 0, 0, 0, 0)
}
