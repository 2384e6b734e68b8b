//! The address range of services.

use std::net::Ipv4Addr;

use crate::basics::clock;

/// A range of IPv4 addresses.
pub(crate) struct Cidr {
    first: u32,
    bits: u32,
}

impl Cidr {
    /// Parses a range such as `10.96.0.0/16`.
    pub(crate) fn parse(text: &str) -> Option<Cidr> {
        let (address, bits) = text.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let bits = 32
            - bits
                .parse::<u32>()
                .ok()
                .filter(|bits| (8..=30).contains(bits))?;
        let first = u32::from(address) >> bits << bits;
        Some(Cidr { first, bits })
    }

    /// The address at an offset; offset 0 is the network address.
    pub(crate) fn at(&self, place: u64) -> Ipv4Addr {
        Ipv4Addr::from(self.first + u32::try_from(place).unwrap_or(0))
    }

    /// A random host address.
    pub(crate) fn random(&self) -> Ipv4Addr {
        self.at(1 + clock::below((1 << self.bits) - 2))
    }

    /// True unless it is the first or the last of the range: the network, or all of its hosts.
    pub(crate) fn is_host(&self, address: Ipv4Addr) -> bool {
        let all = (1 << self.bits) - 1;
        self.contains(address) && ![0, all].contains(&(u32::from(address) - self.first))
    }

    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        u32::from(address) >> self.bits == self.first >> self.bits
    }
}
