//! Parses cron schedules and time zones, with the errors of Go's parser. The controller computes
//! the times.

use machinery::time::parse_go_duration;

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
const NAMED: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Areas in the names of time zones, and zones without an area.
const AREAS: [&str; 15] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
];
const PLAIN_ZONES: &str = "CET CST6CDT Cuba EET EST EST5EDT Egypt Eire Factory GB GB-Eire GMT \
     GMT+0 GMT-0 GMT0 Greenwich HST Hongkong Iceland Iran Israel Jamaica Japan Kwajalein Libya \
     MET MST MST7MDT NZ NZ-CHAT Navajo PRC PST8PDT Poland Portugal ROC ROK Singapore Turkey UCT \
     US/Alaska US/Aleutian US/Arizona US/Central US/East-Indiana US/Eastern US/Hawaii \
     US/Indiana-Starke US/Michigan US/Mountain US/Pacific US/Samoa UTC Universal W-SU WET Zulu";
/// Upper bound of one part of a zone's name, in bytes.
const ZONE_PART_MAX: usize = 14;

impl Bounds {
    const fn of(min: u64, max: u64, names: &'static [&'static str]) -> Bounds {
        Bounds { min, max, names }
    }
}

/// The error in a schedule, if any.
pub(crate) fn wrong(schedule: &str) -> Option<String> {
    let schedule = if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        schedule.split_once(' ').map_or("", |(_, rest)| rest).trim()
    } else {
        schedule
    };
    if let Some(every) = schedule.strip_prefix("@every ") {
        let why =
            || format!("failed to parse duration {schedule}: time: invalid duration {every:?}");
        return parse_go_duration(every).is_none().then(why);
    }
    if schedule.starts_with('@') {
        let known = NAMED.contains(&schedule);
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        let list = fields.join(" ");
        return Some(format!(
            "expected exactly 5 fields, found {found}: [{list}]"
        ));
    }
    let mut ranges = fields.iter().zip(&FIELDS).flat_map(|(field, bounds)| {
        let ranges = field.split(',').filter(|one| !one.is_empty());
        ranges.map(move |one| (one, bounds))
    });
    ranges.find_map(|(one, bounds)| range(one, bounds).err())
}

/// One range, such as `*`, `1-5` or `0-30/10`.
fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
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
        return Ok(());
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

/// The error in a time zone, if any. Within an area, every well-formed name is accepted.
pub(crate) fn wrong_zone(zone: &str) -> Option<String> {
    if zone.is_empty() {
        return Some("timeZone must be nil or non-empty string".into());
    }
    let unknown = || Some(format!("unknown time zone {zone}"));
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
    let odd = |part: &str| {
        let size = (1..=ZONE_PART_MAX).contains(&part.len());
        !size || part == "." || part == ".." || part.starts_with('-') || !part.chars().all(allowed)
    };
    if zone.split('/').any(odd) {
        return unknown();
    }
    if zone.eq_ignore_ascii_case("local") {
        let why =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return Some(why.into());
    }
    let in_area = zone
        .split_once('/')
        .is_some_and(|(area, _)| AREAS.contains(&area));
    let plain = PLAIN_ZONES.split_whitespace().any(|one| one == zone);
    if in_area || plain { None } else { unknown() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_by_go() {
        for good in [
            "*/5 * * * *",
            "0 0 1,15 * mon-fri",
            "? 1-5/2 * JAN sun",
            "@daily",
            "@every 1h30m",
            "10/15 * * * *",
        ] {
            assert_eq!(wrong(good), None, "{good}");
        }
        for (bad, why) in [
            ("x", "expected exactly 5 fields, found 1: [x]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(wrong(bad).as_deref(), Some(why), "{bad}");
        }
        assert!(wrong("a * * * *").is_some());
    }

    #[test]
    fn zones_are_those_of_the_world() {
        for good in [
            "UTC",
            "Europe/Berlin",
            "America/Argentina/Ushuaia",
            "Etc/GMT+5",
            "US/Pacific",
        ] {
            assert_eq!(wrong_zone(good), None, "{good}");
        }
        for bad in [
            "Mars",
            "",
            "Local",
            "../etc/passwd",
            "Europe//Berlin",
            "US/Nowhere",
        ] {
            assert!(wrong_zone(bad).is_some(), "{bad}");
        }
    }
}
