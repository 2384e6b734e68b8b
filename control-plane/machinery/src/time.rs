//! Times in Kubernetes' formats. There is no clock here: the caller passes `now` in.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::time::Duration;

const SECONDS_OF_DAY: i64 = 86_400;

/// A moment: seconds and nanoseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Whole seconds since 1970.
    pub seconds: i64,
    /// Plus this many nanoseconds; below 1,000,000,000.
    pub nanos: u32,
}

impl Timestamp {
    /// Parses RFC 3339, with any number of decimal places and any offset.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = bytes.get(from..to)?;
            digits.iter().try_fold(0, |sum, digit| {
                digit
                    .is_ascii_digit()
                    .then(|| sum * 10 + i64::from(digit - b'0'))
            })
        };
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if !(1..=12).contains(&month) || !(1..=days_of_month(year, month)).contains(&day) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut at = 19;
        let mut nanos = 0;
        if bytes.get(at) == Some(&b'.') {
            let digits = bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit());
            let count = digits.count();
            if count == 0 {
                return None;
            }
            for place in 0..9 {
                let digit = if place < count {
                    bytes[at + 1 + place] - b'0'
                } else {
                    0
                };
                nanos = nanos * 10 + u32::from(digit);
            }
            at += 1 + count;
        }
        let offset = match bytes.get(at)? {
            b'Z' if bytes.len() == at + 1 => 0,
            sign @ (b'+' | b'-') if bytes.len() == at + 6 && bytes[at + 3] == b':' => {
                let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                let seconds = hours * 3600 + minutes * 60;
                if *sign == b'-' { -seconds } else { seconds }
            }
            _ => return None,
        };
        let of_day = hour * 3600 + minute * 60 + second;
        let seconds = days_since_1970(year, month, day) * SECONDS_OF_DAY + of_day - offset;
        Some(Timestamp { seconds, nanos })
    }

    /// The format of most fields: whole seconds, such as `2026-01-02T03:04:05Z`.
    pub fn to_seconds(self) -> String {
        self.write("")
    }

    /// The format of leases and events: microseconds, such as `2026-01-02T03:04:05.000006Z`.
    pub fn to_micros(self) -> String {
        self.write(&format!(".{:06}", self.nanos / 1000))
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let later = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos);
        let earlier = i128::from(earlier.seconds) * 1_000_000_000 + i128::from(earlier.nanos);
        let nanos = u64::try_from((later - earlier).max(0)).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos)
    }

    /// This time plus a duration.
    pub fn plus(self, by: Duration) -> Timestamp {
        let nanos = u64::from(self.nanos) + u64::from(by.subsec_nanos());
        let carried = by.as_secs().saturating_add(nanos / 1_000_000_000);
        Timestamp {
            seconds: self
                .seconds
                .saturating_add(i64::try_from(carried).unwrap_or(i64::MAX)),
            nanos: (nanos % 1_000_000_000) as u32,
        }
    }

    fn write(self, fraction: &str) -> String {
        let days = self.seconds.div_euclid(SECONDS_OF_DAY);
        let second = self.seconds.rem_euclid(SECONDS_OF_DAY);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }
}

/// The age as kubectl prints it, such as `5m30s` or `3d`: two units for small values, then one.
pub fn human(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: u64, unit: &str, rest: u64, small: &str| match rest {
        0 => format!("{large}{unit}"),
        rest => format!("{large}{unit}{rest}{small}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if years < 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// A duration in Go's format, such as `1h0m0s` or `1.5s`.
pub fn go_duration(nanos: i64) -> String {
    let size = nanos.unsigned_abs();
    let mut text = String::new();
    if nanos < 0 {
        text.push('-');
    }
    let units = [(1_000_000, 1000, "µs"), (1_000_000_000, 1_000_000, "ms")];
    if size == 0 {
        return "0s".into();
    }
    if size < 1000 {
        return format!("{text}{size}ns");
    }
    for (below, unit, name) in units {
        if size < below {
            return format!("{text}{}{name}", decimal(size, unit));
        }
    }
    let seconds = size / 1_000_000_000;
    if seconds >= 3600 {
        let _ = write!(text, "{}h", seconds / 3600);
    }
    if seconds >= 60 {
        let _ = write!(text, "{}m", seconds / 60 % 60);
    }
    format!("{text}{}s", decimal(size % 60_000_000_000, 1_000_000_000))
}

/// Parses a duration in Go's format, such as `1h30m` or `-1.5s`, into nanoseconds.
pub fn parse_go_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum: i64 = 0;
    while !rest.is_empty() || sum == 0 && text.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 6e10,
            "h" => 3.6e12,
            _ => return None,
        };
        rest = &rest[end..];
        sum = sum.checked_add((number * unit) as i64)?;
    }
    Some(if negative { -sum } else { sum })
}

/// `size / unit` with as many decimal places as needed.
fn decimal(size: u64, unit: u64) -> String {
    let places = unit.ilog10() as usize;
    let fraction = format!("{:0places$}", size % unit);
    match fraction.trim_end_matches('0') {
        "" => (size / unit).to_string(),
        fraction => format!("{}.{fraction}", size / unit),
    }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Counts eras of 400 years that begin in March, so that the leap day is the
/// last day of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}
