//! Integers in JSON, as Go's `protojson` reads them: `1e2` and `1.50e1` are integers too.

use std::ops::Range;

/// Digits of the largest 64-bit integer.
const DIGITS_MAX: i64 = 20;

/// True if the byte can be part of a number or a word.
pub(super) fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_')
}

/// The decimal digits, with sign, of a JSON number that is an integer. `None` otherwise.
pub(super) fn integer(raw: &[u8]) -> Option<String> {
    let parts = Parts::of(raw)?;
    let (whole, fraction) = (&raw[parts.whole], &raw[parts.fraction]);
    let whole = match whole {
        b"0" => &[],
        whole => whole,
    };
    let zeros = fraction
        .iter()
        .rev()
        .take_while(|byte| **byte == b'0')
        .count();
    let fraction = &fraction[..fraction.len() - zeros];
    if whole.is_empty() && fraction.is_empty() {
        return Some("0".to_owned());
    }
    let exponent: i64 = match parts.exponent {
        None => 0,
        Some(range) => std::str::from_utf8(&raw[range])
            .ok()?
            .parse::<i32>()
            .ok()?
            .into(),
    };
    let mut digits = Vec::new();
    if exponent >= 0 {
        if fraction.len() as i64 > exponent || whole.len() as i64 + exponent > DIGITS_MAX {
            return None;
        }
        digits.extend_from_slice(whole);
        digits.extend_from_slice(fraction);
        digits.resize(whole.len() + exponent as usize, b'0');
    } else {
        let kept = usize::try_from(whole.len() as i64 + exponent).ok()?;
        if !fraction.is_empty() || whole[kept..].iter().any(|digit| *digit != b'0') {
            return None;
        }
        digits.extend_from_slice(&whole[..kept]);
    }
    let digits = String::from_utf8(digits).ok()?;
    Some(if parts.negative {
        format!("-{digits}")
    } else {
        digits
    })
}

/// The digits of a number inside a string: no surrounding blanks, and only up to the first byte
/// that cannot be part of a number.
pub(super) fn in_text(text: &str) -> Option<String> {
    if text.trim().len() != text.len() {
        return None;
    }
    let length = text.bytes().take_while(|byte| is_part(*byte)).count();
    integer(&text.as_bytes()[..length])
}

struct Parts {
    negative: bool,
    whole: Range<usize>,
    fraction: Range<usize>,
    exponent: Option<Range<usize>>,
}

impl Parts {
    /// `None` unless the whole of `raw` is one number.
    fn of(raw: &[u8]) -> Option<Parts> {
        let digits = |from: usize| {
            let count = raw[from..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            from..from + count
        };
        let negative = raw.first() == Some(&b'-');
        let start = usize::from(negative);
        let whole = match raw.get(start)? {
            b'0' => start..start + 1,
            b'1'..=b'9' => digits(start),
            _ => return None,
        };
        let mut place = whole.end;
        let mut fraction = place..place;
        if raw.get(place) == Some(&b'.') && raw.get(place + 1).is_some_and(u8::is_ascii_digit) {
            fraction = digits(place + 1);
            place = fraction.end;
        }
        let mut exponent = None;
        if matches!(raw.get(place), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(raw.get(place + 1), Some(b'+' | b'-')));
            let power = digits((place + 1 + signed).min(raw.len()));
            exponent = Some(place + 1..power.end);
            place = power.end;
        }
        (place == raw.len()).then_some(Parts {
            negative,
            whole,
            fraction,
            exponent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_an_integer_is_read_as_one() {
        let read = |text: &str| integer(text.as_bytes());
        let cases = [
            ("0", "0"),
            ("-0", "0"),
            ("0.000", "0"),
            ("12", "12"),
            ("-12", "-12"),
            ("1e2", "100"),
            ("1.50e1", "15"),
            ("1.5E+1", "15"),
            ("100e-2", "1"),
            ("-1200e-1", "-120"),
            ("9223372036854775807", "9223372036854775807"),
        ];
        for (text, want) in cases {
            assert_eq!(read(text).as_deref(), Some(want), "{text}");
        }
        for text in [
            "1.5",
            "1e-1",
            "15e-1",
            "1e30",
            "1e99999999999",
            "1e",
            "1e+",
            "01",
            "",
            "-",
            "a",
            "1_0",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_in_strings_have_no_blanks_around_them() {
        assert_eq!(in_text("7").as_deref(), Some("7"));
        assert_eq!(in_text("7 8").as_deref(), Some("7"));
        assert_eq!(in_text(" 7"), None);
        assert_eq!(in_text("7 "), None);
        assert_eq!(in_text("7x"), None);
        assert_eq!(in_text(""), None);
    }
}
