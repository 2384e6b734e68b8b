use serde_json::json;

use super::read;

#[test]
fn an_answer_is_a_review_or_a_reason() {
    let review = json!({"kind": "AdmissionReview"});
    assert_eq!(read(200, review.to_string().as_bytes()), Ok(review));
    let status = json!({"kind": "Status", "status": "Failure", "message": "closed on Sundays"});
    let cases: [(u16, &str, &str); 6] = [
        (503, &status.to_string(), "closed on Sundays"),
        (
            404,
            "404 page not found\n",
            "the server could not find the requested resource",
        ),
        (
            500,
            "it \"broke\"\n",
            r#"an error on the server ("it \"broke\"") has prevented the request from succeeding"#,
        ),
        (
            302,
            "",
            "the server responded with the status code 302 but did not return more information",
        ),
        (403, "no", "forbidden"),
        (
            200,
            "hello",
            "couldn't get version/kind; json parse error: expected value at line 1 column 1",
        ),
    ];
    for (code, body, why) in cases {
        assert_eq!(
            read(code, body.as_bytes()),
            Err(why.to_owned()),
            "{code} {body}"
        );
    }
}
