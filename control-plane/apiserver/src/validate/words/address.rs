//! IP addresses and CIDR ranges.

use std::net::{IpAddr, Ipv4Addr};

use machinery::status::Cause;
use serde_json::Value;

use crate::basics::address::{range, read, without_zeros};
use crate::basics::cidr::Cidr;
use crate::validate::Causes;

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// The error if a text is not an IP address, or is written in a way that not everybody reads alike.
pub(crate) fn wrong(field: &str, text: &str) -> Option<Cause> {
    let why = match text.parse::<IpAddr>() {
        Ok(address) if is_mapped(address) => "must not be an IPv4-mapped IPv6 address",
        Ok(_) => return None,
        Err(_) if without_zeros(text).parse::<Ipv4Addr>().is_ok() => "must not have leading 0s",
        Err(_) => ADDRESS,
    };
    Some(Cause::invalid(field, &text.into(), why))
}

/// The same of an address that an object gets: it may keep those that it had.
pub(crate) fn wrong_new(field: &str, text: &str, had: &[&str]) -> Option<Cause> {
    wrong(field, text).filter(|_| !had.contains(&text))
}

/// The same of a range that an object gets.
pub(crate) fn wrong_new_range(field: &str, text: &str, had: &[&str]) -> Option<Cause> {
    wrong_range(field, text).filter(|_| !had.contains(&text))
}

/// The texts of a list.
pub(crate) fn texts(list: &[Value]) -> Vec<&str> {
    list.iter().filter_map(Value::as_str).collect()
}

/// The rule of objects that are called like an address.
pub(crate) fn name(text: &str) -> Vec<String> {
    let good = text.parse::<IpAddr>().is_ok();
    (!good).then(|| ADDRESS.to_owned()).into_iter().collect()
}

/// The error if a text is not a CIDR range, or is written in a way that not everybody reads alike.
pub(crate) fn wrong_range(field: &str, text: &str) -> Option<Cause> {
    let why = match Cidr::parse(text).zip(range(text)) {
        Some((_, (address, _))) if is_mapped(address) => {
            "must not have an IPv4-mapped IPv6 address"
        }
        Some((cidr, (address, _))) if cidr.at(0) != address => {
            "must not have bits set beyond the prefix length"
        }
        Some(_) => return None,
        None if Cidr::parse(&without_zeros(text)).is_some() => {
            "must not have leading 0s in IP or prefix length"
        }
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    };
    Some(Cause::invalid(field, &text.into(), why))
}

/// True for an address of IPv4 in the form of IPv6.
fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// The error if a text is not an address with the length of the prefix of its network, written in the
/// usual way.
pub(crate) fn wrong_interface(field: &str, text: &str) -> Option<Cause> {
    let why = match range(text) {
        None => "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)".into(),
        Some((address, bits)) => {
            let usual = format!("{address}/{bits}");
            if text == usual {
                return None;
            }
            format!("must be in canonical form ({usual:?})")
        }
    };
    Some(Cause::invalid(field, &text.into(), &why))
}

/// Addresses of endpoints; an address that means another host to each reader is invalid.
pub(crate) fn endpoint(field: &str, text: &str) -> Causes {
    let invalid = |why: &str| Cause::invalid(field, &text.into(), why);
    let Some(address) = read(text) else {
        return Causes::from(invalid("must be a valid IP address"));
    };
    let (local, local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (
            v6.is_unicast_link_local(),
            v6.is_multicast() && v6.segments()[0] & 0xf == 2,
        ),
    };
    let mut causes = Causes::default();
    if address.is_unspecified() {
        causes.push(invalid(&format!("may not be unspecified ({text})")));
    }
    if address.is_loopback() {
        causes.push(invalid(
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ));
    }
    if local {
        causes.push(invalid(
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ));
    }
    if local_multicast {
        causes.push(invalid(
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ));
    }
    causes
}

#[test]
fn every_reader_reads_an_address_alike() {
    let says = |cause: Option<Cause>, text: &str, why: &str| {
        let told = cause.map(|cause| cause.message).unwrap_or_default();
        assert!(
            told.contains(why) && told.is_empty() == why.is_empty(),
            "{text}: {told}"
        );
    };
    for (text, why) in [
        ("10.0.0.7", ""),
        ("fd00:0::7", ""),
        ("010.0.0.7", "must not have leading 0s"),
        ("10.0.0.00", "must not have leading 0s"),
        ("0256.0.0.7", "must be a valid IP address"),
        ("10..0.7", "must be a valid IP address"),
        ("::ffff:10.0.0.7", "must not be an IPv4-mapped IPv6 address"),
        ("", "must be a valid IP address"),
    ] {
        says(wrong("f", text), text, why);
    }
    for (text, why) in [
        ("10.0.0.0/8", ""),
        ("fd00:0::/64", ""),
        (
            "10.0.0.1/8",
            "must not have bits set beyond the prefix length",
        ),
        (
            "010.0.0.0/8",
            "must not have leading 0s in IP or prefix length",
        ),
        (
            "10.0.0.0/08",
            "must not have leading 0s in IP or prefix length",
        ),
        (
            "::ffff:10.0.0.0/104",
            "must not have an IPv4-mapped IPv6 address",
        ),
        ("10.0.0.0", "must be a valid CIDR value"),
    ] {
        says(wrong_range("f", text), text, why);
    }
}
