//! Timestamps and durations.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp as Instant};

use super::super::value::{Value, Why};
use crate::values::time::Timestamp;

/// Nanoseconds in a second.
pub(super) const NANOS: i128 = 1_000_000_000;
/// The first and the last second of a timestamp: the years 1 to 9999.
const SECONDS_MIN: i64 = -62_135_596_800;
const SECONDS_MAX: i64 = 253_402_300_799;

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    if !function.starts_with("get") {
        return None;
    }
    match arguments {
        [Value::Duration(nanos)] => {
            let unit: i64 = match function {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return None,
            };
            Some(Ok(Value::Int(nanos / unit)))
        }
        [Value::Timestamp(at)] => Some(field(function, *at, "UTC")),
        [Value::Timestamp(at), Value::String(zone)] => Some(field(function, *at, zone)),
        _ => None,
    }
}

/// A timestamp, if it is within the years 1 to 9999.
pub(super) fn timestamp<'a>(seconds: i64, nanos: u32) -> Result<Value<'a>, Why> {
    if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
        Ok(Value::Timestamp(Timestamp { seconds, nanos }))
    } else {
        Err("timestamp overflow".to_owned())
    }
}

/// A timestamp plus a number of nanoseconds.
pub(super) fn shifted<'a>(at: Timestamp, by: i128) -> Result<Value<'a>, Why> {
    let nanos = i128::from(at.seconds) * NANOS + i128::from(at.nanos) + by;
    let seconds = i64::try_from(nanos.div_euclid(NANOS)).unwrap_or(i64::MAX);
    timestamp(seconds, nanos.rem_euclid(NANOS) as u32)
}

/// A timestamp with only the decimal places that it needs.
pub(super) fn rfc3339(at: Timestamp) -> String {
    let whole = at.to_seconds();
    if at.nanos == 0 {
        return whole;
    }
    let fraction = format!("{:09}", at.nanos);
    let whole = whole.trim_end_matches('Z');
    format!("{whole}.{}Z", fraction.trim_end_matches('0'))
}

/// A duration in seconds, such as `1.5s`.
pub(super) fn seconds(nanos: i64) -> String {
    format!("{}s", nanos as f64 / NANOS as f64)
}

/// A duration of the format `duration`: Go's, or a number and the name of a unit.
pub(in super::super) fn parse_format_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = crate::values::time::parse_go_duration(text) {
        return Some(nanos);
    }
    let mut sum: i64 = 0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "ns" | "nano" | "nanos" => 1,
            "us" | "micro" | "micros" => 1_000,
            "ms" | "milli" | "millis" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "wk" | "week" | "weeks" => 604_800_000_000_000,
            _ => return None,
        };
        sum = sum.checked_add(number.checked_mul(unit)?)?;
        rest = rest[letters..].trim_start();
    }
    (!text.trim().is_empty()).then_some(sum)
}

/// A time of the format `date-time`: RFC 3339, in small letters too, or without a zone.
pub(in super::super) fn parse_date_time(text: &str) -> Option<Timestamp> {
    let upper = text.to_ascii_uppercase();
    Timestamp::parse(&upper).or_else(|| Timestamp::parse(&format!("{upper}Z")))
}

fn field<'a>(function: &str, at: Timestamp, zone: &str) -> Result<Value<'a>, Why> {
    let time = local(at, zone)?;
    Ok(Value::Int(match function {
        "getFullYear" => i64::from(time.year()),
        "getMonth" => i64::from(time.month()) - 1,
        "getDate" => i64::from(time.day()),
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDayOfWeek" => i64::from(time.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getHours" => i64::from(time.hour()),
        "getMinutes" => i64::from(time.minute()),
        "getSeconds" => i64::from(time.second()),
        "getMilliseconds" => i64::from(time.millisecond()),
        _ => return Err(format!("no such overload: {function}")),
    }))
}

/// The date and time in a zone: a name such as `Europe/Berlin`, or an offset such as `-02:30`.
fn local(at: Timestamp, zone: &str) -> Result<DateTime, Why> {
    let unknown = || format!("unknown time zone {zone}");
    let instant = Instant::new(at.seconds, at.nanos as i32).map_err(|why| why.to_string())?;
    let zone = match zone.split_once(':') {
        None if zone.is_empty() => TimeZone::UTC,
        None => TimeZone::get(zone).map_err(|_| unknown())?,
        Some((hours, minutes)) => {
            let hours: i64 = hours.parse().map_err(|_| unknown())?;
            let minutes: i64 = minutes.parse().map_err(|_| unknown())?;
            let minutes = if zone.starts_with('-') {
                -minutes
            } else {
                minutes
            };
            let seconds = hours
                .checked_mul(3600)
                .and_then(|seconds| seconds.checked_add(minutes.checked_mul(60)?));
            let offset = seconds
                .and_then(|seconds| Offset::try_from(SignedDuration::from_secs(seconds)).ok());
            TimeZone::fixed(offset.ok_or_else(unknown)?)
        }
    };
    Ok(instant.to_zoned(zone).datetime())
}
