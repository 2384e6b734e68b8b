//! Cron schedules: when they are due in a time zone. They are parsed with the errors of Go's parser.

#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};

use super::time::{Timestamp, parse_go_duration};

/// The range of a field, and the names of some of its numbers.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] = [
    Bounds::of(0, 59, &[]),
    Bounds::of(0, 23, &[]),
    Bounds::of(1, 31, &[]),
    Bounds::of(1, 12, &MONTHS),
    Bounds::of(0, 6, &DAYS),
];
/// Names of schedules, and their fields.
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
/// A day that does not come within so many years never comes.
const YEARS_MAX: i16 = 5;

impl Bounds {
    const fn of(min: u64, max: u64, names: &'static [&'static str]) -> Bounds {
        Bounds { min, max, names }
    }
}

/// When something is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Again and again after this many seconds.
    Every(i64),
    /// In every minute that the fields match.
    At([Field; 5]),
}

/// The numbers that match a field, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Field {
    numbers: u64,
    /// Written as `*`: it says nothing.
    any: bool,
}

/// A time zone.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of this name; `None` if the system does not know it.
    pub fn named(name: &str) -> Option<Zone> {
        TimeZone::get(name).ok().map(Zone)
    }

    /// The zone of this process.
    pub fn local() -> Zone {
        Zone(TimeZone::system())
    }

    /// UTC.
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// A time in this zone in RFC 3339, such as `2026-01-02T04:04:05+01:00`.
    pub fn write(&self, time: Timestamp) -> String {
        let Some(zoned) = self.zoned(time) else {
            return time.to_seconds();
        };
        let text = zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        match text.strip_suffix("+00:00") {
            Some(utc) => format!("{utc}Z"),
            None => text,
        }
    }

    fn zoned(&self, time: Timestamp) -> Option<Zoned> {
        let time = jiff::Timestamp::from_second(time.seconds).ok()?;
        Some(time.to_zoned(self.0.clone()))
    }
}

impl Schedule {
    /// Parses five fields, `@every` with a duration, or a name such as `@daily`; a zone in front is
    /// skipped.
    pub fn parse(schedule: &str) -> Result<Schedule, String> {
        let schedule = if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
            schedule.split_once(' ').map_or("", |(_, rest)| rest).trim()
        } else {
            schedule
        };
        if let Some(every) = schedule.strip_prefix("@every ") {
            let every = parse_go_duration(every).ok_or_else(|| {
                format!("failed to parse duration {schedule}: time: invalid duration {every:?}")
            })?;
            return Ok(Schedule(Form::Every((every / 1_000_000_000).max(1))));
        }
        let named = NAMED.iter().find(|(name, _)| *name == schedule);
        let text = match named {
            Some((_, fields)) => fields,
            None if schedule.starts_with('@') => {
                return Err(format!("unrecognized descriptor: {schedule}"));
            }
            None => schedule,
        };
        let texts: Vec<&str> = text.split_whitespace().collect();
        if texts.len() != FIELDS.len() {
            let found = texts.len();
            let list = texts.join(" ");
            return Err(format!(
                "expected exactly 5 fields, found {found}: [{list}]"
            ));
        }
        let mut fields = [Field::default(); 5];
        for ((field, text), bounds) in fields.iter_mut().zip(texts).zip(&FIELDS) {
            for one in text.split(',').filter(|one| !one.is_empty()) {
                let range = range(one, bounds)?;
                field.numbers |= range.numbers;
                field.any |= range.any;
            }
        }
        Ok(Schedule(Form::At(fields)))
    }

    /// The first time after this one when it is due; `None` if that is not within five years. A
    /// time that a zone skips is not due, and one that comes twice is due twice.
    pub fn next(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let fields = match &self.0 {
            Form::Every(seconds) => {
                return Some(Timestamp {
                    seconds: after.seconds + seconds,
                    nanos: 0,
                });
            }
            Form::At(fields) => fields,
        };
        // Go accepts a field that is only commas. To look for such a minute takes years of minutes.
        let is_empty = |field: &Field| field.numbers == 0;
        if fields[..2].iter().any(is_empty) {
            return None;
        }
        let minute = Timestamp {
            seconds: after.seconds - after.seconds.rem_euclid(60) + 60,
            nanos: 0,
        };
        let mut time = zone.zoned(minute)?;
        let last = time.year() + YEARS_MAX;
        while time.year() <= last {
            let wait = if !is_day(fields, &time) {
                time = time.tomorrow().ok()?.start_of_day().ok()?;
                continue;
            } else if !fields[1].has(time.hour()) {
                60 - i64::from(time.minute())
            } else if !fields[0].has(time.minute()) {
                1
            } else {
                let seconds = time.timestamp().as_second();
                return Some(Timestamp { seconds, nanos: 0 });
            };
            time = time.checked_add(SignedDuration::from_mins(wait)).ok()?;
        }
        None
    }
}

impl Field {
    fn has(self, number: i8) -> bool {
        self.numbers >> number & 1 == 1
    }
}

/// True if it is due on this day. If the fields for the day of the month and that of the week both
/// say something, one of them is enough.
fn is_day(fields: &[Field; 5], time: &Zoned) -> bool {
    let [_, _, days, months, weekdays] = fields;
    let day = days.has(time.day());
    let weekday = weekdays.has(time.weekday().to_sunday_zero_offset());
    let both = days.any || weekdays.any;
    let matches = if both { day && weekday } else { day || weekday };
    months.has(time.month()) && matches
}

/// One range, such as `*`, `1-5` or `0-30/10`.
fn range(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let mut slashes = text.split('/');
    let ends = slashes.next().unwrap_or_default();
    let (step, more) = (slashes.next(), slashes.next());
    let mut ends = ends.split('-');
    let first = ends.next().unwrap_or_default();
    let (last, another) = (ends.next(), ends.next());
    let single = last.is_none();
    let (start, mut end) = match first {
        "*" | "?" => (bounds.min, bounds.max),
        first => {
            let start = number_or_name(first, bounds)?;
            if another.is_some() {
                return Err(format!("too many hyphens: {text}"));
            }
            let end = last.map(|last| number_or_name(last, bounds));
            (start, end.transpose()?.unwrap_or(start))
        }
    };
    let stepped = step.is_some();
    let step = match step {
        None => 1,
        Some(_) if more.is_some() => return Err(format!("too many slashes: {text}")),
        Some(step) => {
            if single {
                end = bounds.max;
            }
            number(step)?
        }
    };
    let (min, max) = (bounds.min, bounds.max);
    let why = if start < min {
        format!("beginning of range ({start}) below minimum ({min})")
    } else if end > max {
        format!("end of range ({end}) above maximum ({max})")
    } else if start > end {
        format!("beginning of range ({start}) beyond end of range ({end})")
    } else if step == 0 {
        "step of range should be a positive number".to_owned()
    } else {
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        let numbers = (start..=end).step_by(step).map(|number| 1 << number);
        return Ok(Field {
            numbers: numbers.fold(0, |all, one: u64| all | one),
            any: ["*", "?"].contains(&first) && (step == 1 || !stepped),
        });
    };
    Err(format!("{why}: {text}"))
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(at) => Ok(bounds.min + at as u64),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}
