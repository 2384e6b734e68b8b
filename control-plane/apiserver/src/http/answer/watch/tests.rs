use super::*;
use crate::registry::strategy;

#[test]
fn a_watch_ends_whatever_its_timeout() {
    let all = strategy::builtin();
    let pods = all.iter().find(|one| one.kind.plural() == "pods").unwrap();
    let now = Instant::now();
    let lasts = |query: &str| {
        let watching = Watching::read(pods, ("default", ""), &Query::parse(query)).unwrap();
        watching.end(now) - now
    };
    assert_eq!(lasts("timeoutSeconds=5"), Duration::from_secs(5));
    let century = Duration::from_secs(SECONDS_MAX);
    assert_eq!(lasts("timeoutSeconds=9223372036854775807"), century);
    for usual in [
        "",
        "timeoutSeconds=0",
        "timeoutSeconds=-9223372036854775808",
    ] {
        assert!(
            lasts(usual) >= Duration::from_secs(SECONDS_MIN),
            "{usual:?}"
        );
    }
}
