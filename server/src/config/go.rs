//! Formats and parses the scalars of a command line as Go does: numbers, booleans, durations.
//!
//! etcd's flags are parsed by Go's `flag` package, so its rules are part of the interface. Does not
//! know any flag.

use std::fmt::Write as _;
use std::time::Duration;

const NANOSECOND: f64 = 1.0;
const MICROSECOND: f64 = 1e3;
const MILLISECOND: f64 = 1e6;
const SECOND: f64 = 1e9;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;

/// The words that `strconv.ParseBool` accepts.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// An integer as `strconv.ParseInt(text, 0, 64)` reads it: decimal, 0x, 0o, 0b, or a leading 0
/// for octal.
pub(crate) fn parse_int(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // from_str_radix would accept a second sign.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -value } else { value })
}

/// A duration such as `1h2m`, `1.5s`, `300ms` or `0`, in nanoseconds. The error is Go's text.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (sign, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => NANOSECOND,
            "us" | "µs" | "μs" => MICROSECOND,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            unit => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
        };
        rest = &rest[letters..];
        total += number * unit;
    }
    if total >= i64::MAX as f64 {
        return Err(invalid());
    }
    Ok((sign * total) as i64)
}

/// A duration as Go prints it: `1h0m0s`, `1.5s`, `1.279214ms`, `0s`.
pub fn duration(value: Duration) -> String {
    let nanos = value.as_nanos();
    if nanos == 0 {
        return "0s".into();
    }
    let mut out = String::new();
    if nanos < 1_000_000_000 {
        let (unit, name) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        fraction(&mut out, nanos, unit);
        out.push_str(name);
        return out;
    }
    let (minutes, nanos) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
    if minutes >= 60 {
        let _ = write!(out, "{}h", minutes / 60);
    }
    if minutes > 0 {
        let _ = write!(out, "{}m", minutes % 60);
    }
    fraction(&mut out, nanos, 1_000_000_000);
    out.push('s');
    out
}

/// `nanos / unit` as a decimal without trailing zeros.
fn fraction(out: &mut String, nanos: u128, unit: u128) {
    let _ = write!(out, "{}", nanos / unit);
    let rest = nanos % unit;
    if rest > 0 {
        let width = unit.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_as_go_prints_them() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (1_279_214, "1.279214ms"),
            (100_000_000, "100ms"),
            (1_000_000_000, "1s"),
            (60_000_000_000, "1m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (5_025_500_000_000, "1h23m45.5s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
            assert_eq!(parse_duration(text), Ok(nanos as i64), "{text}");
        }
    }

    #[test]
    fn bad_durations_are_told_apart() {
        assert_eq!(
            parse_duration("x"),
            Err("time: invalid duration \"x\"".into())
        );
        assert_eq!(
            parse_duration(""),
            Err("time: invalid duration \"\"".into())
        );
        assert_eq!(
            parse_duration("1.5"),
            Err("time: missing unit in duration \"1.5\"".into())
        );
        assert_eq!(
            parse_duration("3d"),
            Err("time: unknown unit \"d\" in duration \"3d\"".into())
        );
        assert!(parse_duration("9999999999h").is_err());
        assert_eq!(parse_duration("-1m"), Ok(-60_000_000_000));
    }

    #[test]
    fn integers_take_gos_prefixes() {
        for (text, value) in [
            ("12", 12),
            ("-3", -3),
            ("0x10", 16),
            ("010", 8),
            ("0b11", 3),
            ("0", 0),
        ] {
            assert_eq!(parse_int(text), Some(value), "{text}");
        }
        for text in ["", "-", "x", "1.0", "--1", "0x", "1e3"] {
            assert_eq!(parse_int(text), None, "{text}");
        }
    }
}
