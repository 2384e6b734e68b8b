//! Ranges of addresses, and the families that they are of.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::basics::clock;

/// Every so manieth address of a range is left to services that name theirs, within these bounds, as
/// in Kubernetes.
const NAMED_PART: u128 = 16;
const NAMED_MIN: u128 = 16;
const NAMED_MAX: u128 = 256;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Family {
        if address.is_ipv4() {
            Family::V4
        } else {
            Family::V6
        }
    }

    /// The family with this name.
    pub(crate) fn named(name: &str) -> Option<Family> {
        [Family::V4, Family::V6]
            .into_iter()
            .find(|family| family.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    pub(crate) fn other(self) -> Family {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }

    fn bits(self) -> u32 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cidr {
    family: Family,
    first: u128,
    /// Number of bits that differ within the range.
    bits: u32,
}

impl Cidr {
    /// Parses a range such as `10.96.0.0/16`.
    pub(crate) fn parse(text: &str) -> Option<Cidr> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let family = Family::of(address);
        let length: u32 = prefix.parse().ok()?;
        if prefix != length.to_string() {
            return None;
        }
        let bits = family.bits().checked_sub(length)?;
        let first = shifted(number(address), bits)
            .checked_shl(bits)
            .unwrap_or(0);
        Some(Cidr {
            family,
            first,
            bits,
        })
    }

    pub(crate) fn family(&self) -> Family {
        self.family
    }

    /// The length of the common prefix.
    pub(crate) fn prefix(&self) -> u32 {
        self.family.bits() - self.bits
    }

    /// The address at an offset; offset 0 is the network address.
    pub(crate) fn at(&self, place: u128) -> IpAddr {
        let number = self.first.wrapping_add(place);
        match self.family {
            // The range is within the family, and so is each place in it.
            Family::V4 => Ipv4Addr::from(number as u32).into(),
            Family::V6 => Ipv6Addr::from(number).into(),
        }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let same = |number| shifted(number, self.bits) == shifted(self.first, self.bits);
        Family::of(address) == self.family && same(number(address))
    }

    /// True unless it is the first of the range, which is the network, or the last one of IPv4, which
    /// is all hosts.
    pub(crate) fn is_host(&self, address: IpAddr) -> bool {
        let place = number(address).wrapping_sub(self.first);
        self.contains(address) && (1..=self.hosts()).contains(&place)
    }

    /// All addresses of hosts in the order in which they are drawn: from a random one on, and those
    /// at the beginning last, which are left to services that name theirs.
    pub(crate) fn drawn(&self) -> impl Iterator<Item = IpAddr> {
        let hosts = self.hosts();
        let named = match self.size() {
            small if small <= NAMED_MIN => 0,
            size => (size / NAMED_PART).clamp(NAMED_MIN, NAMED_MAX),
        };
        let turn = |first: u128, count: u128| {
            let begin = u128::from(clock::below(u64::try_from(count).unwrap_or(u64::MAX)));
            (0..count).map(move |step| first + (begin + step) % count)
        };
        let places = turn(1 + named, hosts.saturating_sub(named)).chain(turn(1, named));
        places.map(|place| self.at(place))
    }

    /// Number of addresses, those of no hosts included.
    pub(crate) fn size(&self) -> u128 {
        1_u128.checked_shl(self.bits).unwrap_or(u128::MAX)
    }

    /// Number of addresses that hosts may have; they begin at place 1.
    fn hosts(&self) -> u128 {
        let others = match self.family {
            Family::V4 => 2,
            Family::V6 => 1,
        };
        self.size().saturating_sub(others)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at(0), self.prefix())
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn shifted(number: u128, bits: u32) -> u128 {
    number.checked_shr(bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn range(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_is_of_one_family_and_begins_with_its_network() {
        for (text, canonical) in [
            ("10.0.0.7/24", "10.0.0.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00:0:0::1/64", "fd00::/64"),
            ("::/0", "::/0"),
            ("fd00::7/128", "fd00::7/128"),
        ] {
            assert_eq!(range(text).to_string(), canonical);
        }
        for bad in [
            "10.0.0.0",
            "10.0.0.0/33",
            "fd00::/129",
            "x/8",
            "10.0.0.0/-1",
            "10.0.0.0/08",
            "10.0.0.0/+8",
        ] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
        assert_eq!(range("fd00::/112").at(1), address("fd00::1"));
        assert!(!range("::/0").contains(address("10.0.0.1")));
        assert!(range("fd00::/112").contains(address("fd00::ffff")));
        assert!(!range("fd00::/112").contains(address("fd00::1:0")));
    }

    #[test]
    fn networks_and_broadcasts_are_no_hosts() {
        let hosts = |text: &str, addresses: [&str; 3]| {
            addresses.map(|one| range(text).is_host(address(one)))
        };
        let v4 = ["10.0.0.0", "10.0.0.1", "10.0.0.255"];
        assert_eq!(hosts("10.0.0.0/24", v4), [false, true, false]);
        let v6 = ["fd00::", "fd00::1", "fd00::ff"];
        assert_eq!(hosts("fd00::/120", v6), [false, true, true]);
        assert!(!range("10.0.0.7/32").is_host(address("10.0.0.7")));
    }

    #[test]
    fn every_host_is_drawn_once_and_those_that_are_named_last() {
        for (text, hosts, named) in [
            ("10.0.0.0/29", 6, 0),
            ("10.0.0.0/24", 254, 16),
            ("fd00::/120", 255, 16),
            ("fd00::/115", 8191, 256),
        ] {
            let range = range(text);
            let drawn: Vec<IpAddr> = range.drawn().collect();
            assert!(drawn.iter().all(|one| range.is_host(*one)), "{text}");
            let different: BTreeSet<&IpAddr> = drawn.iter().collect();
            assert_eq!([drawn.len(), different.len()], [hosts, hosts], "{text}");
            let last: BTreeSet<IpAddr> = drawn[hosts - named..].iter().copied().collect();
            let wanted = (1..=named as u128).map(|place| range.at(place)).collect();
            assert_eq!(last, wanted, "{text}");
        }
        assert_eq!(range("10.0.0.0/32").drawn().count(), 0);
        let large = range("fd00::/64");
        assert!(large.drawn().take(3).all(|one| large.is_host(one)));
    }
}
