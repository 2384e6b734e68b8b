use axum::body::Body;
use http::Response;

use super::{WARNING_CHARS_MAX, WARNINGS_CHARS_MAX, warn};

fn headers(warnings: &[String]) -> Vec<String> {
    let mut response = Response::new(Body::empty());
    warn(&mut response, warnings);
    let all = response.headers().get_all("Warning").iter();
    all.map(|one| String::from_utf8(one.as_bytes().to_vec()).unwrap())
        .collect()
}

#[test]
fn warnings_are_whole_until_together_they_are_too_long() {
    let told = headers(&["a \"b\"\n".into(), String::new(), "größer".into()]);
    assert_eq!(told, ["299 - \"a \\\"b\\\"\"", "299 - \"größer\""]);
    let around = "299 - \"\"".len();
    let one = headers(&["x".repeat(WARNINGS_CHARS_MAX)]);
    assert_eq!(one[0].len(), WARNINGS_CHARS_MAX + around);
    let many: Vec<String> = (0..100)
        .map(|at| format!("{at}{}", "x".repeat(1000)))
        .collect();
    let told = headers(&many);
    assert_eq!(told.len(), WARNINGS_CHARS_MAX / WARNING_CHARS_MAX);
    assert!(
        told.iter()
            .all(|one| one.len() == WARNING_CHARS_MAX + around)
    );
}
