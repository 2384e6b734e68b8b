use super::draw;
use super::{Faults, IN_A_ROW_MAX, Kind, Meeting, Request, kind};

fn request<'a>(verb: &'a str, name: &'a str) -> Request<'a> {
    Request {
        user: "u",
        verb,
        group: "",
        resource: "configmaps",
        subresource: "",
        namespace: "n",
        name,
        label_selector: "",
        field_selector: "",
    }
}

fn many(faults: &Faults, verb: &str, name: &str) -> Vec<Meeting> {
    (0..200)
        .map(|_| faults.meet(&request(verb, name)))
        .collect()
}

#[test]
fn the_same_seed_decides_the_same_whatever_else_is_asked() {
    let one = Faults::parse(7, "all,restarts=0.000001").unwrap();
    let other = Faults::parse(7, "all,restarts=0.000001").unwrap();
    let alone = many(&one, "update", "a");
    let mut among = Vec::new();
    for at in 0..200 {
        other.meet(&request("update", &format!("b-{at}")));
        other.meet(&request("get", "a"));
        among.push(other.meet(&request("update", "a")));
    }
    assert_eq!(alone, among);
    let seeded = Faults::parse(8, "all,restarts=0.000001").unwrap();
    assert_ne!(alone, many(&seeded, "update", "a"));
}

#[test]
fn a_kind_more_changes_nothing_about_another() {
    let one = Faults::parse(7, "conflicts").unwrap();
    let more = Faults::parse(7, "conflicts,throttling,cuts,errors").unwrap();
    let conflicts = |faults: &Faults| -> Vec<bool> {
        let all = many(faults, "update", "a");
        all.iter().map(|one| one.hits(Kind::Conflicts)).collect()
    };
    let alone = conflicts(&one);
    assert!(alone.contains(&true) && alone.contains(&false));
    assert_eq!(alone, conflicts(&more));
}

#[test]
fn no_request_is_refused_for_ever() {
    let faults = Faults::parse(1, "throttling=1,errors=1,cuts=1,conflicts=1").unwrap();
    let refuses = [Kind::Throttling, Kind::Errors, Kind::Cuts];
    for kinds in [&refuses[..], &[Kind::Conflicts]] {
        let mut in_a_row = 0;
        for meeting in many(&faults, "update", "a") {
            let hits = kinds.iter().filter(|kind| meeting.hits(**kind)).count();
            assert!(hits <= 1);
            in_a_row = if hits == 0 { 0 } else { in_a_row + 1 };
            assert!(in_a_row <= IN_A_ROW_MAX);
        }
    }
}

#[test]
fn a_kind_concerns_only_some_verbs() {
    let faults = Faults::parse(3, "conflicts=1,stale-reads=1,watch-expiry=1").unwrap();
    let of = |verb: &str| {
        let meeting = faults.meet(&request(verb, "a"));
        Kind::ALL.map(|kind| meeting.hits(kind))
    };
    let only = |kind: Kind| Kind::ALL.map(|one| one == kind);
    assert_eq!(of("update"), only(Kind::Conflicts));
    assert_eq!(of("list"), only(Kind::StaleReads));
    assert_eq!(of("watch"), only(Kind::WatchExpiry));
    assert_eq!(of("get"), [false; Kind::ALL.len()]);
    assert_eq!(of("create"), [false; Kind::ALL.len()]);
}

#[test]
fn rates_are_kept() {
    let faults = Faults::parse(5, "throttling=0.1").unwrap();
    let hits = (0..10_000).filter(|at| {
        let name = at.to_string();
        faults.meet(&request("get", &name)).hits(Kind::Throttling)
    });
    let hits = hits.count();
    assert!((800..1200).contains(&hits), "{hits}");
}

#[test]
fn restarts_come_by_the_number_of_requests() {
    let faults = Faults::parse(9, "restarts=0.05").unwrap();
    let down: Vec<usize> = (0..1000)
        .filter(|at| {
            let name = at.to_string();
            faults.meet(&request("get", &name)).hits(Kind::Restarts)
        })
        .collect();
    assert!(down.len() > 20, "{down:?}");
    assert!(down.windows(2).all(|two| two[1] - two[0] >= 8), "{down:?}");
}

#[test]
fn lists_are_read_with_rates_and_written_as_they_are_read() {
    let faults = Faults::parse(4, "conflicts, cuts=0.5").unwrap();
    assert!(faults.has(Kind::Conflicts) && faults.has(Kind::Cuts));
    assert!(!faults.has(Kind::Errors));
    assert_eq!(faults.flags(), "--seed=4 --faults=conflicts=0.2,cuts=0.5");
    let all = Faults::parse(4, "all").unwrap();
    assert!(Kind::ALL.into_iter().all(|kind| all.has(kind)));
    for (list, why) in [
        (
            "conflict",
            "\"conflict\" is no kind of fault; the kinds are all, conflicts, stale-reads, watch-delay, watch-expiry, throttling, errors, cuts, restarts",
        ),
        ("", "\"\" is no kind of fault"),
        ("cuts=2", "must be above 0 and at most 1: \"2\""),
        ("cuts=0", "must be above 0"),
        ("cuts=NaN", "must be above 0"),
    ] {
        let told = kind::parse(list).unwrap_err();
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn draws_stay_the_same_in_every_release() {
    let drawn = [
        draw::number(1, "conflicts", 2, 3),
        draw::hash(&["ab", "c"]),
        draw::hash(&["a", "bc"]),
    ];
    let known = [
        6_591_836_387_345_158_180,
        3_429_670_967_035_293_676,
        14_364_735_163_151_853_761,
    ];
    assert_eq!(drawn, known);
}

#[test]
fn every_fault_is_counted() {
    let faults = Faults::parse(1, "cuts").unwrap();
    let meeting = faults.meet(&request("get", "a"));
    faults.note(Kind::Cuts, &meeting, "");
    let told = faults.metrics();
    assert!(told.contains("stele_faults_injected_total{kind=\"cuts\"} 1\n"));
    assert!(told.contains("stele_faults_injected_total{kind=\"errors\"} 0\n"));
}
