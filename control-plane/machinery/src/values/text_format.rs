//! The formats of texts that Kubernetes checks, such as `uuid`. It ignores all others.

mod address;
mod code;
mod moment;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use crate::values::name;

/// Maximum length of a host name, in bytes.
const HOST_NAME_MAX: usize = 255;

/// A host name: one label, or labels with a top-level domain of letters. Symbols are letters too,
/// except in that last one. A dash in a single label may only come second.
static HOST_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const CHAR: &str = r"[a-zA-Z0-9\p{S}\p{L}]";
    let label = format!(r"{CHAR}(?:[a-zA-Z0-9\p{{S}}\p{{L}}-]{{0,61}}{CHAR})?");
    let single = format!(r"{CHAR}-?{CHAR}{{0,62}}");
    Regex::new(&format!(
        r"^(?:{single}|(?:{label}\.)+[a-zA-Z\p{{L}}]{{2,63}})$"
    ))
    .ok()
});

/// Whether a text has a format.
pub(crate) type Accepts = fn(&str) -> bool;

/// The formats of texts by their names without dashes.
const OF_TEXT: &[(&str, Accepts)] = &[
    ("bsonobjectid", |text| is_hex(text) && text.len() == 24),
    ("uri", address::is_uri),
    ("email", address::is_email),
    ("hostname", is_host_name),
    ("ipv4", address::is_ipv4),
    ("ipv6", address::is_ipv6),
    ("cidr", address::is_cidr),
    ("mac", address::is_mac),
    ("uuid", |text| code::is_uuid(text, None)),
    ("uuid3", |text| code::is_uuid(text, Some('3'))),
    ("uuid4", |text| code::is_uuid(text, Some('4'))),
    ("uuid5", |text| code::is_uuid(text, Some('5'))),
    ("isbn", |text| {
        code::is_isbn10(text) || code::is_isbn13(text)
    }),
    ("isbn10", code::is_isbn10),
    ("isbn13", code::is_isbn13),
    ("creditcard", code::is_credit_card),
    ("ssn", code::is_social_security_number),
    ("hexcolor", code::is_hex_colour),
    ("rgbcolor", code::is_rgb_colour),
    ("byte", |text| {
        !text.is_empty() && STANDARD.decode(text).is_ok()
    }),
    ("password", |_| true),
    ("date", moment::is_date),
    ("duration", moment::is_duration),
    ("datetime", moment::is_date_time),
    ("k8sshortname", |text| name::dns1123_label(text).is_empty()),
    ("k8slongname", |text| {
        name::dns1123_subdomain(text).is_empty()
    }),
];

/// The check of the format with this name; `None` if the format is ignored.
pub(crate) fn find(name: &str) -> Option<Accepts> {
    let plain = name.replace('-', "");
    let row = OF_TEXT.iter().find(|(known, _)| *known == plain)?;
    Some(row.1)
}

fn is_host_name(text: &str) -> bool {
    let pattern = HOST_NAME.as_ref();
    text.len() <= HOST_NAME_MAX
        && text.split('.').all(|label| label.len() <= 63)
        && pattern.is_some_and(|pattern| pattern.is_match(text))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
