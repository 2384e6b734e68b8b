//! Ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

    /// True for IPv4 addresses.
    pub(super) fn is_v4(&self) -> bool {
        self.is_v4
    }

    /// The number of leading bits that its addresses have in common.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// The number of parts of this length, which is not below its own, nor more than 32 above.
    pub(super) fn parts(&self, length: u32) -> u64 {
        1 << (length - self.length)
    }

    /// The part of this length with this number, from 0.
    pub(super) fn part(&self, length: u32, number: u64) -> Prefix {
        let offset = u128::from(number).checked_shl(128 - length);
        Prefix {
            first: self.first | offset.unwrap_or(0),
            length,
            is_v4: self.is_v4,
        }
    }

    /// The numbers of the first and the last part of this length that have an address of another
    /// range; `None` if none has.
    pub(super) fn parts_with(&self, length: u32, other: &Prefix) -> Option<(u64, u64)> {
        if other.contains_all_of(self) {
            return Some((0, self.parts(length) - 1));
        }
        if !self.contains_all_of(other) {
            return None;
        }
        let number = |bits: u128| {
            let number = (bits ^ self.first).checked_shr(128 - length);
            number.unwrap_or(0) as u64
        };
        let last = other.first | !mask(other.length);
        Some((number(other.first), number(last)))
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

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address: IpAddr = if self.is_v4 {
            Ipv4Addr::from((self.first >> 96) as u32).into()
        } else {
            Ipv6Addr::from(self.first).into()
        };
        write!(f, "{address}/{}", self.length)
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
