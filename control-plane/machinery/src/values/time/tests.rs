use super::*;

#[test]
fn times_survive_the_round_trip() {
    for seconds in [
        -1,
        0,
        951_782_400,
        1_709_164_800,
        1_700_000_000,
        4_102_444_799,
        -62_135_596_800,
    ] {
        let time = Timestamp { seconds, nanos: 0 };
        assert_eq!(Timestamp::parse(&time.to_seconds()), Some(time));
    }
    let time = Timestamp {
        seconds: 1_709_164_800,
        nanos: 123_456_000,
    };
    assert_eq!(time.to_micros(), "2024-02-29T00:00:00.123456Z");
    assert_eq!(Timestamp::parse(&time.to_micros()), Some(time));
    assert_eq!(time.to_seconds(), "2024-02-29T00:00:00Z");
    assert_eq!(time.to_http(), "Thu, 29 Feb 2024 00:00:00 GMT");
}

#[test]
fn times_at_the_ends_of_the_calendar_are_read() {
    for text in [
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
    ] {
        assert_eq!(Timestamp::parse(text).unwrap().to_seconds(), text);
    }
    let late = Timestamp::parse("9999-12-31T23:59:59.999999999-23:59").unwrap();
    assert_eq!(late.nanos, 999_999_999);
    assert_eq!(late.to_seconds(), "9999-12-31T23:59:59Z");
}

#[test]
fn offsets_count_and_nonsense_is_refused() {
    let utc = Timestamp::parse("2024-01-01T00:30:00Z");
    assert_eq!(Timestamp::parse("2024-01-01T02:00:00+01:30"), utc);
    for text in [
        "",
        "2024",
        "2024-02-30T00:00:00Z",
        "2024-01-01T00:00:00",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:00.Z",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00:00+1:00",
        "20é4-01-01T00:00:00Z",
    ] {
        assert_eq!(Timestamp::parse(text), None, "{text}");
    }
}

#[test]
fn ages_and_durations_are_those_of_go() {
    for line in include_str!("../../../testdata/age.jsonl").lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let seconds = line["seconds"].as_i64().unwrap();
        if let Ok(age) = u64::try_from(seconds) {
            assert_eq!(
                human(Duration::from_secs(age)),
                line["human"].as_str().unwrap()
            );
        }
        let nanos = seconds * 1_000_000_000 + 1_500_000;
        assert_eq!(go_duration(nanos), line["go"].as_str().unwrap());
        assert_eq!(parse_go_duration(&go_duration(nanos)), Some(nanos));
    }
    for text in ["", "5", "-", "+"] {
        assert_eq!(parse_go_duration(text), None, "{text}");
    }
}
