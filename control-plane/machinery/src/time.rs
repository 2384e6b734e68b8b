//! Times as Kubernetes writes them. Knows no clock: `now` is always passed in.

use std::time::Duration;

/// A moment: seconds and nanoseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Whole seconds since 1970.
    pub seconds: i64,
    /// And this many nanoseconds; below 1,000,000,000.
    pub nanos: u32,
}

impl Timestamp {
    /// Reads RFC 3339.
    pub fn parse(_text: &str) -> Option<Timestamp> {
        unimplemented!()
    }

    /// The form of most fields: whole seconds, such as `2026-01-02T03:04:05Z`.
    pub fn to_seconds(self) -> String {
        unimplemented!()
    }

    /// The form of leases and events: microseconds, such as `2026-01-02T03:04:05.000006Z`.
    pub fn to_micros(self) -> String {
        unimplemented!()
    }

    /// How long after `earlier` this is; nothing when it is before.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let later = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos);
        let earlier = i128::from(earlier.seconds) * 1_000_000_000 + i128::from(earlier.nanos);
        let nanos = u64::try_from((later - earlier).max(0)).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos)
    }

    /// This long after.
    pub fn plus(self, by: Duration) -> Timestamp {
        let nanos = u64::from(self.nanos) + u64::from(by.subsec_nanos());
        let carried = i64::try_from(by.as_secs() + nanos / 1_000_000_000).unwrap_or(i64::MAX);
        Timestamp {
            seconds: self.seconds.saturating_add(carried),
            nanos: (nanos % 1_000_000_000) as u32,
        }
    }
}

/// The age kubectl prints, such as `5m30s` or `3d`.
pub fn human(_age: Duration) -> String {
    unimplemented!()
}
