//! Identifiers with digits, and colours.

use super::{is_digits, is_hex};

/// The lengths of a UUID's groups, in digits.
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// A UUID, also without dashes, of this version or of any.
pub(super) fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut groups = [""; 5];
    for (index, length) in UUID_GROUPS.into_iter().enumerate() {
        let Some((group, after)) = rest.split_at_checked(length) else {
            return false;
        };
        groups[index] = group;
        rest = if index < 4 {
            after.strip_prefix('-').unwrap_or(after)
        } else {
            after
        };
    }
    let is_version = version.is_none_or(|version| groups[2].starts_with(version));
    // The variant is part of the rule for versions 4 and 5 only.
    let has_variant = matches!(version, Some('4' | '5'));
    let is_variant = !has_variant || groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    rest.is_empty() && groups.iter().all(|group| is_hex(group)) && is_version && is_variant
}

/// A book's number of ten digits, the last of them maybe X, with dashes and spaces.
pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = without_separators(text);
    let Some((body, check)) = digits.split_at_checked(9) else {
        return false;
    };
    let check = match check {
        "X" => 10,
        digit if digit.len() == 1 && is_digits(digit) => u32::from(digit.as_bytes()[0] - b'0'),
        _ => return false,
    };
    let weighted = body
        .bytes()
        .zip(1..)
        .map(|(digit, weight)| u32::from(digit) * weight);
    is_digits(body) && (weighted.sum::<u32>() - 45 * u32::from(b'0') + 10 * check) % 11 == 0
}

/// A book's number of thirteen digits, with dashes and spaces.
pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = without_separators(text);
    if digits.len() != 13 || !is_digits(&digits) {
        return false;
    }
    let weighted = digits
        .bytes()
        .zip([1, 3].into_iter().cycle())
        .map(|(digit, weight)| u32::from(digit - b'0') * weight);
    weighted.sum::<u32>() % 10 == 0
}

/// A number of a credit card, with anything between its digits.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let begins = |from: u32, to: u32, length: usize| {
        let prefix = digits.get(..length).and_then(|prefix| prefix.parse().ok());
        prefix.is_some_and(|prefix: u32| (from..=to).contains(&prefix))
    };
    let is_issued = match digits.len() {
        13 => begins(4, 4, 1),
        14 => begins(300, 305, 3) || begins(36, 36, 2) || begins(38, 38, 2),
        15 => {
            begins(34, 34, 2) || begins(37, 37, 2) || begins(2131, 2131, 4) || begins(1800, 1800, 4)
        }
        16 => {
            begins(4, 4, 1)
                || begins(51, 55, 2)
                || begins(6011, 6011, 4)
                || begins(65, 65, 2)
                || begins(35, 35, 2)
        }
        _ => false,
    };
    let from_right = digits.bytes().rev().zip([1, 2].into_iter().cycle());
    let sum = from_right.map(|(digit, weight)| {
        let value = u32::from(digit - b'0') * weight;
        value / 10 + value % 10
    });
    is_issued && sum.sum::<u32>() % 10 == 0
}

/// `123-45-6789`, also with spaces.
pub(super) fn is_social_security_number(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_right = |(at, byte): (usize, &u8)| match at {
        3 | 6 => matches!(byte, b'-' | b' '),
        _ => byte.is_ascii_digit(),
    };
    bytes.len() == 11 && bytes.iter().enumerate().all(is_right)
}

/// `#fff` or `ffffff`.
pub(super) fn is_hex_colour(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

/// `rgb(255, 0, 10)`
pub(super) fn is_rgb_colour(text: &str) -> bool {
    let inside = text
        .strip_prefix("rgb(")
        .and_then(|text| text.strip_suffix(')'));
    let is_part = |part: &str| {
        let part = part.trim_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let is_plain = part == "0" || !part.starts_with('0');
        is_digits(part) && is_plain && part.parse::<u8>().is_ok()
    };
    inside.is_some_and(|inside| {
        let parts: Vec<&str> = inside.split(',').collect();
        parts.len() == 3 && parts.into_iter().all(is_part)
    })
}

fn without_separators(text: &str) -> String {
    let is_kept = |c: &char| !matches!(c, '-' | '\t' | '\n' | '\x0c' | '\r' | ' ');
    text.chars().filter(is_kept).collect()
}
