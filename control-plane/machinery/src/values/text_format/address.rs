//! Addresses of networks, hosts and people.

use std::net::Ipv6Addr;

/// An IPv4 address, also with leading zeros, or one within IPv6.
pub(super) fn is_ipv4(text: &str) -> bool {
    let is_within_ipv6 = || {
        let (front, last) = text.rsplit_once(':')?;
        // The address within may have leading zeros, so it is not parsed with the rest.
        Some(is_dotted(last) && is_ipv6(&format!("{front}:0:0")))
    };
    is_dotted(text) || is_within_ipv6() == Some(true)
}

/// An IPv6 address without a zone.
pub(super) fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

/// An address and the length of its prefix.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let longest = match address.contains(':') {
        true if is_ipv6(address) => 128,
        false if is_dotted(address) => 32,
        _ => return false,
    };
    super::is_digits(length) && length.parse::<u32>().is_ok_and(|length| length <= longest)
}

/// A hardware address of 6, 8 or 20 bytes: pairs of digits with `:` or `-`, fours with `.`, or
/// digits alone.
pub(super) fn is_mac(text: &str) -> bool {
    let separator = text.chars().find(|c| !c.is_ascii_hexdigit());
    let groups: Vec<&str> = text.split(|c| Some(c) == separator).collect();
    let digits = match separator {
        None => text.len(),
        Some(':' | '-') => 2,
        Some('.') => 4,
        Some(_) => return false,
    };
    let is_group = |group: &&str| group.len() == digits && super::is_hex(group);
    matches!(groups.len() * digits, 12 | 16 | 40) && groups.iter().all(is_group)
}

/// A URI or an absolute path, as Go reads the target of a request.
pub(super) fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((has_scheme, rest)) = after_scheme(text) else {
        return false;
    };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        return has_scheme;
    }
    let path = match rest.strip_prefix("//").filter(|_| has_scheme) {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            if !is_authority(&rest[..end]) {
                return false;
            }
            &rest[end..]
        }
        None => rest,
    };
    has_valid_escapes(path)
}

/// An address such as `a@example.com` or `A <a@example.com>`.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim();
    match text
        .strip_suffix('>')
        .and_then(|text| text.rsplit_once('<'))
    {
        Some((name, address)) => is_display_name(name.trim()) && is_address(address),
        None => is_address(text),
    }
}

fn is_dotted(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_byte = |part: &&str| {
        super::is_digits(part) && part.trim_start_matches('0').len() <= 3 && {
            let value = part
                .bytes()
                .fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0'));
            value <= 255
        }
    };
    parts.len() == 4 && parts.iter().all(is_byte)
}

/// Whether there is a scheme, and what follows it; `None` if a scheme is missing before a colon.
fn after_scheme(text: &str) -> Option<(bool, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at > 0 => return Some((true, &text[at + 1..])),
            b':' => return None,
            _ => break,
        }
    }
    Some((false, text))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = text.rsplit_once('@').unwrap_or(("", text));
    let is_of_user =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_of_user) || !has_valid_escapes(user) {
        return false;
    }
    let (host, port) = match host.strip_prefix('[') {
        Some(literal) => match literal.rsplit_once(']') {
            Some((host, port)) => (host, port),
            None => return false,
        },
        None => host.split_at(host.rfind(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_of_host = |byte: u8| {
        byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte)
    };
    // Only what is not ASCII may be escaped, and the sign itself before a zone.
    let may_be_escaped = |digits: &str| digits.starts_with("25") || digits.as_bytes()[0] > b'7';
    let mut escaped = host.split('%').skip(1);
    is_port
        && host.bytes().all(is_of_host)
        && has_valid_escapes(host)
        && escaped.all(may_be_escaped)
}

/// Whether two hexadecimal digits follow each `%`.
fn has_valid_escapes(text: &str) -> bool {
    let mut parts = text.as_bytes().split(|byte| *byte == b'%').skip(1);
    parts.all(|part| part.len() >= 2 && part[..2].iter().all(u8::is_ascii_hexdigit))
}

fn is_display_name(name: &str) -> bool {
    is_quoted(name)
        || name
            .split_ascii_whitespace()
            .all(|word| is_quoted(word) || word.chars().all(|c| c == '.' || is_atom(c)))
}

fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let is_literal = domain
        .strip_prefix('[')
        .and_then(|domain| domain.strip_suffix(']'))
        .is_some_and(|domain| is_dotted(domain) || is_ipv6(domain.trim_start_matches("IPv6:")));
    (is_dot_atom(local) || is_quoted(local)) && (is_dot_atom(domain) || is_literal)
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.')
        .all(|atom| !atom.is_empty() && atom.chars().all(is_atom))
}

fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

fn is_quoted(text: &str) -> bool {
    let inside = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let mut is_escaped = false;
    inside.is_some_and(|inside| {
        let is_valid = inside.chars().all(|c| {
            let is_valid = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            is_valid && (c == '\t' || !c.is_control())
        });
        is_valid && !is_escaped
    })
}
