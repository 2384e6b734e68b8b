//! When a cron job is due.

use std::time::Duration;

use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::jiff;
use machinery::schedule::{Schedule, Zone};
use machinery::time::Timestamp;

use crate::meta;

/// How long after the time the loop looks, as clocks differ a little.
const LATE: Duration = Duration::from_millis(100);
/// More missed times than this are worth a warning.
const MISSED_MAX: i64 = 100;

/// A schedule in its time zone.
pub(super) struct Plan {
    schedule: Schedule,
    zone: Zone,
    /// The zone in which jobs say for which time they were made.
    shown: Zone,
}

/// How many times were missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    None,
    Few,
    Many,
}

/// The last time that the cron job was due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recent {
    /// Where the search began.
    earliest: Timestamp,
    pub(super) due: Option<Timestamp>,
    pub(super) missed: Missed,
}

impl Plan {
    /// `None` if the schedule or its zone cannot be read.
    pub(super) fn of(cron: &CronJob) -> Option<Plan> {
        let zone = match &cron.spec.time_zone {
            Some(zone) => Some(Zone::named(zone)?),
            None => None,
        };
        Some(Plan {
            schedule: Schedule::parse(&cron.spec.schedule).ok()?,
            shown: zone.clone().unwrap_or(Zone::UTC),
            zone: zone.unwrap_or_else(Zone::local),
        })
    }

    /// A time as the annotation of a job shows it.
    pub(super) fn write(&self, time: Timestamp) -> String {
        self.shown.write(time)
    }

    fn after(&self, time: Timestamp) -> Option<Timestamp> {
        self.schedule.next(time, &self.zone)
    }

    /// How long it is until the cron job is due again.
    pub(super) fn next(&self, cron: &CronJob, now: Timestamp) -> Option<Duration> {
        let last = cron.status.as_ref().and_then(super::last_due);
        let from = match self.recent(cron, last, now, false) {
            Ok(Recent { due: Some(due), .. }) => due,
            Ok(recent) if recent.missed == Missed::None => recent.earliest,
            _ => now,
        };
        Some(self.after(from)?.plus(LATE).since(now))
    }

    /// The last time that it was due after `last`, or after its creation, and within its deadline if
    /// that matters. An error if its times do not follow each other.
    pub(super) fn recent(
        &self,
        cron: &CronJob,
        last: Option<Timestamp>,
        now: Timestamp,
        within_deadline: bool,
    ) -> Result<Recent, &'static str> {
        const NEVER: &str = "time difference between two schedules is less than 1 second";
        let mut earliest = last.unwrap_or_else(|| meta::created(&cron.metadata));
        let deadline = cron.spec.starting_deadline_seconds;
        if let Some(deadline) = deadline.filter(|_| within_deadline) {
            let mut from = now;
            from.seconds = from.seconds.saturating_sub(deadline);
            earliest = earliest.max(from);
        }
        let recent = |due, missed| Recent {
            earliest,
            due,
            missed,
        };
        let first = self.after(earliest).ok_or(NEVER)?;
        if now < first {
            return Ok(recent(None, Missed::None));
        }
        let second = self.after(first).ok_or(NEVER)?;
        if now < second {
            return Ok(recent(Some(first), Missed::None));
        }
        // A guess of how many were missed, as if they were evenly spaced.
        let between = second.seconds - first.seconds;
        let missed = (now.seconds - first.seconds) / between + 1;
        let mut from = first;
        from.seconds += (missed - 2) * between;
        let mut due = None;
        while let Some(next) = self.after(due.unwrap_or(from)).filter(|next| *next <= now) {
            due = Some(next);
        }
        let many = missed > MISSED_MAX;
        Ok(recent(due, if many { Missed::Many } else { Missed::Few }))
    }
}

/// A time such as `Fri, 02 Jan 2026 03:04:05 UTC`.
pub(super) fn in_words(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_second(time.seconds).unwrap_or_default();
    time.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()
}
