//! Ranges of addresses.

use std::net::IpAddr;

/// A range of IPv4 or IPv6 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    /// The first address, in the upper bits.
    first: u128,
    length: u32,
    is_v4: bool,
}

impl Prefix {
    /// Parses a range such as `10.96.0.0/16`.
    pub(super) fn parse(text: &str) -> Option<Prefix> {
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let length: u32 = length.parse().ok()?;
        let is_v4 = address.is_ipv4();
        (length <= if is_v4 { 32 } else { 128 }).then(|| Prefix {
            first: bits(address) & mask(length),
            length,
            is_v4,
        })
    }

    /// True if all addresses of the other range are in this one.
    pub(super) fn contains_all_of(&self, other: &Prefix) -> bool {
        self.is_v4 == other.is_v4
            && self.length <= other.length
            && other.first & mask(self.length) == self.first
    }

    /// True if a service may get the address from this range: it is not the first, nor the last one
    /// of IPv4.
    pub(super) fn gives(&self, address: IpAddr) -> bool {
        let bits = bits(address);
        let last_v4 = self.first | !mask(self.length) & mask(32);
        self.is_v4 == address.is_ipv4()
            && bits & mask(self.length) == self.first
            && bits != self.first
            && !(self.is_v4 && bits == last_v4)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

fn mask(length: u32) -> u128 {
    u128::MAX.checked_shl(128 - length).unwrap_or(0)
}
