//! Events against lines that Kubernetes 1.36.3 wrote.

use serde_json::json;

use super::*;

fn event() -> Event {
    Event {
        level: Level::RequestResponse,
        id: "c05".into(),
        uri: "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1".into(),
        verb: "watch".into(),
        user: Some(User {
            name: "root".into(),
            uid: "1".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..User::default()
        }),
        source_ips: vec!["127.0.0.1".parse().unwrap()],
        user_agent: "test/1.0".into(),
        object: Some(ObjectRef {
            resource: "configmaps".into(),
            namespace: "default".into(),
            api_version: "v1".into(),
            ..ObjectRef::default()
        }),
        received: Timestamp::parse("2026-11-23T06:32:31.165080Z").unwrap(),
        ..Event::default()
    }
}

fn line(event: &Event, stage: Stage, at: &str) -> String {
    let at = Timestamp::parse(at).unwrap();
    String::from_utf8(event.json_line(stage, at)).unwrap()
}

#[test]
fn a_line_is_the_one_of_kubernetes() {
    let mut event = event();
    let why = r#"resourceVersion: Invalid value: "<x>""#;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": why, "code": 500});
    event.status = Some(ResponseStatus::of_object(500, &status));
    event.request = Some(Bytes::from_static(br#"{"data":{"k":"w"}}"#));
    let key = "authorization.k8s.io";
    event
        .annotations
        .insert(format!("{key}/reason"), String::new());
    event
        .annotations
        .insert(format!("{key}/decision"), "allow".into());
    assert_eq!(
        line(
            &event,
            Stage::ResponseStarted,
            "2026-11-23T06:32:31.166106Z"
        ),
        concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","#,
            r#""auditID":"c05","stage":"ResponseStarted","requestURI":"/api/v1/namespaces/default/"#,
            r#"configmaps?watch=true\u0026timeoutSeconds=1","verb":"watch","user":{"username":"root","#,
            r#""uid":"1","groups":["system:masters","system:authenticated"]},"#,
            r#""sourceIPs":["127.0.0.1"],"userAgent":"test/1.0","objectRef":{"resource":"configmaps","#,
            r#""namespace":"default","apiVersion":"v1"},"responseStatus":{"metadata":{},"#,
            r#""status":"Failure","message":"resourceVersion: Invalid value: \"\u003cx\u003e\"","#,
            r#""code":500},"requestObject":{"data":{"k":"w"}},"#,
            r#""requestReceivedTimestamp":"2026-11-23T06:32:31.165080Z","#,
            r#""stageTimestamp":"2026-11-23T06:32:31.166106Z","annotations":{"#,
            r#""authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}"#,
            "\n"
        )
    );
}

#[test]
fn a_requester_who_is_not_known_is_an_empty_user() {
    let nobody = Event {
        user: None,
        object: None,
        ..event()
    };
    let line = line(&nobody, Stage::ResponseStarted, "2026-11-23T06:32:31Z");
    assert!(line.contains(r#""user":{},"sourceIPs""#), "{line}");
    assert!(
        line.contains(r#""stageTimestamp":"2026-11-23T06:32:31.000000Z"}"#),
        "{line}"
    );
}

#[test]
fn the_legacy_line_is_the_one_of_kubernetes() {
    let mut event = event();
    let text = |event: &Event| String::from_utf8(event.legacy_line(Stage::ResponseComplete));
    assert_eq!(
        text(&event).unwrap(),
        "2026-11-23T06:32:31.16508Z AUDIT: id=\"c05\" stage=\"ResponseComplete\" ip=\"127.0.0.1\" \
         method=\"watch\" user=\"root\" groups=\"\\\"system:masters\\\",\\\"system:authenticated\\\"\" \
         as=\"<self>\" asgroups=\"<lookup>\" user-agent=\"test/1.0\" namespace=\"default\" \
         uri=\"/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1\" \
         response=\"<deferred>\"\n"
    );
    event.user = None;
    event.object = None;
    event.source_ips.clear();
    event.status = Some(ResponseStatus::of_code(200));
    let line = text(&event).unwrap();
    for part in [
        "ip=\"<unknown>\"",
        "user=\"<none>\"",
        "groups=\"<none>\"",
        "response=\"200\"",
    ] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn what_is_left_without_objects_says_so() {
    let mut event = event();
    event.response = Some(Bytes::from_static(b"{}"));
    let smaller = event.without_objects();
    assert!(smaller.response.is_none());
    assert_eq!(smaller.annotations["audit.k8s.io/truncated"], "true");
    assert!(event.annotations.is_empty());
}

#[test]
fn letters_of_html_are_escaped_as_in_go() {
    let text = as_go(&json!({"a<b": "&>\u{2028}\u{2029}\u{2030}"}));
    assert_eq!(
        text,
        "{\"a\\u003cb\":\"\\u0026\\u003e\\u2028\\u2029\u{2030}\"}"
    );
}
