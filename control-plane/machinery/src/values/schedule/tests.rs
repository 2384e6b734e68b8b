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
        assert!(Schedule::parse(good).is_ok(), "{good}");
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
        assert_eq!(Schedule::parse(bad), Err(why.to_owned()), "{bad}");
    }
    assert!(Schedule::parse("a * * * *").is_err());
}

/// The first times when a schedule is due, in a zone.
fn due(schedule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let (schedule, zone) = (
        Schedule::parse(schedule).unwrap(),
        Zone::named(zone).unwrap(),
    );
    let mut time = Timestamp::parse(after).unwrap();
    let mut due = Vec::new();
    while let Some(next) = schedule.next(time, &zone) {
        if due.len() == count {
            break;
        }
        due.push(zone.write(next));
        time = next;
    }
    due
}

#[test]
fn a_schedule_is_due_when_its_fields_match() {
    const AFTER: &str = "2026-01-30T10:00:00Z";
    for (schedule, expected) in [
        (
            "* * * * *",
            ["2026-01-30T10:01:00Z", "2026-01-30T10:02:00Z"],
        ),
        (
            "*/20 9-10 * * *",
            ["2026-01-30T10:20:00Z", "2026-01-30T10:40:00Z"],
        ),
        (
            "0 10 * * *",
            ["2026-01-31T10:00:00Z", "2026-02-01T10:00:00Z"],
        ),
        (
            "30 0 31 * *",
            ["2026-01-31T00:30:00Z", "2026-03-31T00:30:00Z"],
        ),
        (
            "0 0 * * mon",
            ["2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"],
        ),
        // Of two fields for the day one is enough; one that begins with a star but has a step
        // says something, too.
        (
            "0 0 1 * mon",
            ["2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z"],
        ),
        (
            "0 0 */30 * sun",
            ["2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"],
        ),
        ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
        (
            "0 0 29 feb *",
            ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
        ),
        (
            "@every 90s",
            ["2026-01-30T10:01:30Z", "2026-01-30T10:03:00Z"],
        ),
    ] {
        assert_eq!(due(schedule, "UTC", AFTER, 2), expected, "{schedule}");
    }
    assert!(due("0 0 31 feb *", "UTC", AFTER, 1).is_empty());
}

#[test]
fn a_field_of_commas_alone_never_comes_and_is_known_at_once() {
    for schedule in [", * * * *", "* , * * *", "0 ,, * * *"] {
        for _ in 0..1000 {
            assert!(
                due(schedule, "UTC", "2026-03-02T10:15:30Z", 1).is_empty(),
                "{schedule}"
            );
        }
    }
}

#[test]
fn a_skipped_hour_is_left_out_and_one_that_comes_twice_counts_twice() {
    let spring = due("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
    assert_eq!(
        spring,
        ["2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"]
    );
    let autumn = due("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(
        autumn,
        ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]
    );
    // In Cuba the day begins at one o'clock.
    let late = due("0 1 * * *", "America/Havana", "2026-03-07T12:00:00Z", 1);
    assert_eq!(late, ["2026-03-08T01:00:00-04:00"]);
}

#[test]
fn zones_are_those_of_the_system() {
    assert!(Zone::named("Mars/Olympus").is_none());
    let time = Timestamp::parse("2026-07-01T10:00:00Z").unwrap();
    assert_eq!(Zone::UTC.write(time), "2026-07-01T10:00:00Z");
    let kathmandu = Zone::named("Asia/Kathmandu").unwrap();
    assert_eq!(kathmandu.write(time), "2026-07-01T15:45:00+05:45");
}
