//! IP addresses and CIDR ranges.

use std::net::IpAddr;

use machinery::status::Cause;

use crate::validate::Causes;

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// The error if a text is not an IP address.
pub(crate) fn wrong(field: &str, text: &str) -> Option<Cause> {
    let good = text.parse::<IpAddr>().is_ok();
    (!good).then(|| Cause::invalid(field, &text.into(), ADDRESS))
}

/// The rule of objects that are called like an address.
pub(crate) fn name(text: &str) -> Vec<String> {
    let good = text.parse::<IpAddr>().is_ok();
    (!good).then(|| ADDRESS.to_owned()).into_iter().collect()
}

/// The error if a text is not a CIDR range.
pub(crate) fn wrong_range(field: &str, text: &str) -> Option<Cause> {
    let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let good = range(text).is_some();
    (!good).then(|| Cause::invalid(field, &text.into(), why))
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

/// Parses a range into its address and the length of its prefix.
pub(crate) fn range(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u8 = bits.parse().ok().filter(|_| plain)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

/// Addresses of endpoints; an address that means another host to each reader is invalid.
pub(crate) fn endpoint(field: &str, text: &str) -> Causes {
    let invalid = |why: &str| Cause::invalid(field, &text.into(), why);
    let Ok(address) = text.parse::<IpAddr>() else {
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
