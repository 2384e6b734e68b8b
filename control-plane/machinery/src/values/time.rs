//! Times in Kubernetes' formats. There is no clock here: the caller passes `now` in.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time, datetime};

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

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
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
            return None;
        }
        let two = |at: usize| number(bytes.get(at..at + 2)?).map(|number| number as i8);
        let date = Date::new(number(&bytes[..4])?, two(5)?, two(8)?).ok()?;
        let time = Time::new(two(11)?, two(14)?, two(17)?, 0).ok()?;
        let (nanos, zone) = fraction(bytes.get(19..)?)?;
        let offset = match zone {
            b"Z" => SignedDuration::ZERO,
            [sign @ (b'+' | b'-'), hours @ .., b':', _, _] if hours.len() == 2 => {
                let at = bytes.len() - 5;
                let time = Time::new(two(at)?, two(at + 3)?, 0, 0).ok()?;
                let east = time.duration_since(Time::midnight());
                if *sign == b'-' { -east } else { east }
            }
            _ => return None,
        };
        let since = date.to_datetime(time).duration_since(EPOCH) - offset;
        let seconds = since.as_secs();
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

    /// The format of HTTP headers, such as `Fri, 02 Jan 2026 03:04:05 GMT`.
    pub fn to_http(self) -> String {
        let time = self.civil().strftime("%a, %d %b %Y %H:%M:%S GMT");
        time.to_string()
    }

    fn write(self, fraction: &str) -> String {
        let time = self.civil().strftime("%Y-%m-%dT%H:%M:%S");
        format!("{time}{fraction}Z")
    }

    /// Whole seconds, within the calendar.
    fn civil(self) -> DateTime {
        let end = if self.seconds < 0 {
            DateTime::MIN
        } else {
            DateTime::MAX
        };
        let time = EPOCH.checked_add(SignedDuration::from_secs(self.seconds));
        time.unwrap_or(end)
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
    go_text::signed_duration(nanos)
}

/// Parses a duration in Go's format, such as `1h30m` or `-1.5s`, into nanoseconds.
pub fn parse_go_duration(text: &str) -> Option<i64> {
    go_text::parse_duration(text).ok()
}

fn number(digits: &[u8]) -> Option<i16> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i16::from(digit - b'0'))
    })
}

/// Nanoseconds from `.123…`, if that is how the text begins, and the rest of it. Digits after the
/// ninth are dropped.
fn fraction(text: &[u8]) -> Option<(u32, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(count);
    let nine = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
    let nanos = nine.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    (count > 0).then_some((nanos, rest))
}
