//! Formats and parses booleans, integers and durations as Go does.
//!
//! etcd's flags are parsed by Go's `flag` package, and Kubernetes' objects hold durations as Go
//! prints them, so Go's rules are part of the interface. Pure functions on text; does not know any
//! flag or object.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::time::Duration;

const NANOSECOND: u64 = 1;
const MICROSECOND: u64 = 1000 * NANOSECOND;
const MILLISECOND: u64 = 1000 * MICROSECOND;
const SECOND: u64 = 1000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Exponents that Go does not write.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -4..6;

/// The words that `strconv.ParseBool` accepts.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// An integer as `strconv.ParseInt(text, 0, 64)` reads it: decimal, 0x, 0o, 0b, or a leading 0
/// for octal.
pub fn parse_int(text: &str) -> Option<i128> {
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

/// A duration such as `1h2m`, `-1.5s`, `300ms` or `0`, in nanoseconds. The error is Go's text.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(end_of(rest, is_of_number));
        let (name, after) = after.split_at(end_of(after, |c| !is_of_number(c)));
        let (whole, digits, scale) = parse_decimal(number).ok_or_else(invalid)?;
        let unit = match name {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => NANOSECOND,
            "us" | "µs" | "μs" => MICROSECOND,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            name => return Err(format!("time: unknown unit {name:?} in duration {text:?}")),
        };
        // Less than one unit. In floating point, so that a third of an hour is 20 minutes.
        let part = (digits as f64 * (unit as f64 / scale)) as u64;
        let whole = whole.checked_mul(unit).ok_or_else(invalid)?;
        let sum = total.checked_add(whole).and_then(|t| t.checked_add(part));
        total = sum.ok_or_else(invalid)?;
        rest = after;
    }
    let nanos = i128::from(total);
    i64::try_from(if negative { -nanos } else { nanos }).map_err(|_| invalid())
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// Where the text stops being of one sort.
fn end_of(text: &str, is_of_sort: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_of_sort(c)).unwrap_or(text.len())
}

/// The whole part, the digits behind the point as a number, and the power of ten that divides them.
/// Digits that no longer fit are dropped.
fn parse_decimal(text: &str) -> Option<(u64, u64, f64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let only_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !only_digits(whole) || !only_digits(fraction) {
        return None;
    }
    let whole = match whole {
        "" => 0,
        whole => whole.parse().ok()?,
    };
    let (mut digits, mut scale) = (0u64, 1.0);
    for digit in fraction.bytes() {
        let longer = digits.checked_mul(10);
        let Some(longer) = longer.and_then(|digits| digits.checked_add((digit - b'0').into()))
        else {
            break;
        };
        (digits, scale) = (longer, scale * 10.0);
    }
    Some((whole, digits, scale))
}

/// A float as Go's `%g` prints it: the shortest digits that read back, with an exponent below 0.0001
/// and from a million on.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if PLAIN_EXPONENTS.contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// [`duration`] of nanoseconds that may be negative.
pub fn signed_duration(nanos: i64) -> String {
    let size = duration(Duration::from_nanos(nanos.unsigned_abs()));
    if nanos < 0 { format!("-{size}") } else { size }
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
    fn floats_print_as_go_prints_them() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.0001, "0.0001"),
            (6.7611e-05, "6.7611e-05"),
            (524288.0, "524288"),
            (1048576.0, "1.048576e+06"),
            (2147483648.0, "2.147483648e+09"),
            (20480.0, "20480"),
            (3.3947648e+07, "3.3947648e+07"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }

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
    fn a_sign_or_a_point_alone_is_no_duration() {
        for text in [
            "-", "+", "--1s", "+-1s", ".", ".s", "-.s", "1..5s", "1.5.s", "1e3s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for (text, nanos) in [
            ("+0", 0),
            ("-0", 0),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("0.100000000000000000000000h", 360_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn the_longest_durations_lose_no_nanosecond() {
        for nanos in [i64::MAX, i64::MIN, i64::MIN + 1, -1, 9_007_199_254_740_993] {
            assert_eq!(parse_duration(&signed_duration(nanos)), Ok(nanos));
            assert_eq!(parse_duration(&format!("{nanos}ns")), Ok(nanos));
        }
        for text in [
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "2562048h",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
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
