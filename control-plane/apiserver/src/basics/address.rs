//! Addresses and ranges as earlier Kubernetes read them: with zeros at the beginning of numbers, and
//! those of IPv4 also in the form of IPv6. New ones must not be written so, but stored ones stay.

use std::net::IpAddr;

/// The address that a text means; that of IPv4 for one in the form of IPv6.
pub(crate) fn read(text: &str) -> Option<IpAddr> {
    let address: IpAddr = match text.parse() {
        Ok(address) => address,
        Err(_) => without_zeros(text).parse().ok().filter(IpAddr::is_ipv4)?,
    };
    Some(address.to_canonical())
}

/// The address and the length of the prefix of a range.
pub(crate) fn read_range(text: &str) -> Option<(IpAddr, u8)> {
    range(text).or_else(|| range(&without_zeros(text)))
}

/// The same of one that is written as it should be.
pub(crate) fn range(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u8 = bits.parse().ok().filter(|_| plain)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

/// The text without zeros at the beginning of its numbers.
pub(crate) fn without_zeros(text: &str) -> String {
    let is_end = |end: char| ['.', '/'].contains(&end);
    let parts = text.split_inclusive(is_end).map(|part| {
        let (number, end) = match part.strip_suffix(is_end) {
            Some(number) => (number, &part[number.len()..]),
            None => (part, ""),
        };
        let bare = number.trim_start_matches('0');
        let is_zero = bare.is_empty() && !number.is_empty();
        format!("{}{end}", if is_zero { "0" } else { bare })
    });
    parts.collect()
}

#[test]
fn earlier_forms_mean_what_they_meant() {
    let read_as = |text: &str| read(text).map(|address| address.to_string());
    for (text, means) in [
        ("10.0.0.7", Some("10.0.0.7")),
        ("010.00.0.07", Some("10.0.0.7")),
        ("::ffff:10.0.0.7", Some("10.0.0.7")),
        ("fd00:0::7", Some("fd00::7")),
        ("0256.0.0.7", None),
        ("0fd00::7", None),
        ("", None),
    ] {
        assert_eq!(read_as(text).as_deref(), means, "{text}");
    }
    let v4 = |bits| Some(([10, 0, 0, 1].into(), bits));
    assert_eq!(read_range("010.0.0.1/08"), v4(8));
    assert_eq!(read_range("10.0.0.1/33"), None);
    assert_eq!(range("010.0.0.1/8"), None);
}
