//! IP addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::value::{Value, Why};

/// A network: an address and how many of its first bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u32,
}

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    Some(match (function, arguments) {
        ("ip", [Value::String(text)]) => parse_ip(text).map(Value::Ip),
        ("ip", [Value::Cidr(cidr)]) => Ok(Value::Ip(cidr.address)),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(parse_ip(text).is_ok())),
        ("ip.isCanonical", [Value::String(text)]) => {
            parse_ip(text).map(|ip| Value::Bool(ip.to_string() == **text))
        }
        ("family", [Value::Ip(ip)]) => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Value::Ip(ip)]) => Ok(Value::Bool(ip.is_unspecified())),
        ("isLoopback", [Value::Ip(ip)]) => Ok(Value::Bool(ip.is_loopback())),
        ("isLinkLocalMulticast", [Value::Ip(ip)]) => Ok(Value::Bool(is_link_local_multicast(*ip))),
        ("isLinkLocalUnicast", [Value::Ip(ip)]) => Ok(Value::Bool(is_link_local_unicast(*ip))),
        ("isGlobalUnicast", [Value::Ip(ip)]) => Ok(Value::Bool(is_global_unicast(*ip))),
        ("cidr", [Value::String(text)]) => parse_cidr(text).map(Value::Cidr),
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(parse_cidr(text).is_ok())),
        ("masked", [Value::Cidr(cidr)]) => Ok(Value::Cidr(cidr.masked())),
        ("prefixLength", [Value::Cidr(cidr)]) => Ok(Value::Int(i64::from(cidr.bits))),
        ("containsIP", [Value::Cidr(cidr), Value::Ip(ip)]) => Ok(Value::Bool(cidr.contains(*ip))),
        ("containsIP", [Value::Cidr(cidr), Value::String(text)]) => {
            parse_ip(text).map(|ip| Value::Bool(cidr.contains(ip)))
        }
        ("containsCIDR", [Value::Cidr(cidr), Value::Cidr(other)]) => {
            Ok(Value::Bool(cidr.contains_all(other)))
        }
        ("containsCIDR", [Value::Cidr(cidr), Value::String(text)]) => {
            parse_cidr(text).map(|other| Value::Bool(cidr.contains_all(&other)))
        }
        _ => return None,
    })
}

impl Cidr {
    fn masked(self) -> Cidr {
        let address = match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask))
            }
        };
        Cidr { address, ..self }
    }

    fn contains(self, ip: IpAddr) -> bool {
        let other = Cidr {
            address: ip,
            bits: self.bits,
        };
        ip.is_ipv4() == self.address.is_ipv4() && self.masked() == other.masked()
    }

    fn contains_all(self, other: &Cidr) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, Why> {
    if let Some((address, zone)) = text.split_once('%')
        && !zone.is_empty()
        && address.parse::<Ipv6Addr>().is_ok()
    {
        return Err(format!(
            "IP address {text:?} with zone value is not allowed"
        ));
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(ip) => Ok(ip),
        Err(_) => Err(format!(
            "IP Address {text:?} parse error during conversion from string: {}",
            unreadable(text)
        )),
    }
}

/// Why a text is no address, in Go's words.
fn unreadable(text: &str) -> Why {
    let fields: Vec<&str> = text.split('.').collect();
    let is_v4 = fields.len() > 1 && !text.contains(':');
    let is_number = |field: &&str| field.bytes().all(|byte| byte.is_ascii_digit());
    let why = if !is_v4 || !fields.iter().all(is_number) {
        "unable to parse IP"
    } else if fields.iter().any(|field| field.is_empty()) {
        "IPv4 field must have at least one digit"
    } else if fields
        .iter()
        .any(|field| field.len() > 1 && field.starts_with('0'))
    {
        "IPv4 field has octet with leading zero"
    } else if fields.iter().any(|field| field.parse::<u8>().is_err()) {
        "IPv4 field has value >255"
    } else if fields.len() < 4 {
        "IPv4 address too short"
    } else {
        "IPv4 address too long"
    };
    format!("ParseAddr({text:?}): {why}")
}

fn parse_cidr(text: &str) -> Result<Cidr, Why> {
    const ERROR: &str = "network address parse error during conversion from string";
    let wrong = |why: &str| format!("{ERROR}: {ERROR}: netip.ParsePrefix({text:?}): {why}");
    let Some((address, bits)) = text.rsplit_once('/') else {
        return Err(wrong("no '/'"));
    };
    let is_number = !bits.is_empty()
        && bits.bytes().all(|digit| digit.is_ascii_digit())
        && (bits.len() == 1 || !bits.starts_with('0'));
    let address: IpAddr = match address.parse() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            return Err(format!(
                "{ERROR}: IPv4-mapped IPv6 address {text:?} is not allowed"
            ));
        }
        Ok(address) => address,
        Err(_) => {
            return Err(wrong(&format!(
                "ParseAddr({address:?}): unable to parse IP"
            )));
        }
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let number = bits.parse().ok().filter(|_| is_number);
    match number {
        None => Err(wrong(&format!("bad bits after slash: {bits:?}"))),
        Some(number) if number > most => Err(wrong("prefix length out of range")),
        Some(bits) => Ok(Cidr { address, bits }),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    !is_broadcast
        && !ip.is_unspecified()
        && !ip.is_loopback()
        && !ip.is_multicast()
        && !is_link_local_unicast(ip)
}
