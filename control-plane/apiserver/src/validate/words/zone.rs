//! The names of time zones, with the errors of Go's library.

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

/// The error in a time zone, if any. Within an area, every well-formed name is accepted.
pub(crate) fn wrong(zone: &str) -> Option<String> {
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
    fn zones_are_those_of_the_world() {
        for good in [
            "UTC",
            "Europe/Berlin",
            "America/Argentina/Ushuaia",
            "Etc/GMT+5",
            "US/Pacific",
        ] {
            assert_eq!(wrong(good), None, "{good}");
        }
        for bad in [
            "Mars",
            "",
            "Local",
            "../etc/passwd",
            "Europe//Berlin",
            "US/Nowhere",
        ] {
            assert!(wrong(bad).is_some(), "{bad}");
        }
    }
}
