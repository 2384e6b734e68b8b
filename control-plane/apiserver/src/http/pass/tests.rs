use super::*;
use crate::auth::authenticate::front_proxy::Options;

fn given(all: &[(&'static str, &'static str)]) -> HeaderMap {
    let all = all.iter().map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    let mut map = HeaderMap::new();
    for (name, value) in all {
        map.append(name, value);
    }
    map
}

/// Other servers learn which headers these proxies use.
fn proxies() -> FrontProxy {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let options = Options {
        user_headers: names(&["X-My-User", "X-Remote-User"]),
        group_headers: names(&[" X-My-Group "]),
        extra_prefixes: names(&["X-Mine-"]),
        ..Options::default()
    };
    FrontProxy::new(options, String::new())
}

#[test]
fn a_user_who_fits_into_no_header_is_not_passed_on_as_another() {
    for text in ["a\nb", "a\0", " a", "a\t"] {
        let named = User {
            name: text.to_owned(),
            ..User::default()
        };
        let grouped = User {
            name: "a".to_owned(),
            groups: vec![text.to_owned()],
            ..User::default()
        };
        for user in [named, grouped] {
            headers(&HeaderMap::new(), &user, None).unwrap_err();
        }
    }
}

#[test]
fn nobody_can_name_another_user_or_keep_credentials() {
    let user = User {
        name: "jane".to_owned(),
        groups: vec!["a".to_owned(), "b".to_owned()],
        extra: [("example.com/key".to_owned(), vec!["v".to_owned()])].into(),
        ..User::default()
    };
    let headers = headers(
        &given(&[
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("x-remote-uid", "0"),
            ("impersonate-user", "root"),
            ("authorization", "Bearer t"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("accept", "application/json"),
            ("x-my-user", "root"),
            ("x-my-group", "system:masters"),
            ("x-mine-scopes", "all"),
        ]),
        &user,
        Some(&proxies()),
    )
    .unwrap();
    let mut all: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    all.sort();
    let expected = [
        "accept: application/json",
        "x-remote-extra-example.com%2fkey: v",
        "x-remote-group: a",
        "x-remote-group: b",
        "x-remote-user: jane",
    ];
    assert_eq!(all, expected);
}

#[test]
fn path_and_parameters_are_those_that_were_authorized() {
    let segments = |path: &str| {
        let path = crate::http::question::request::decoded(path).unwrap();
        crate::http::question::request::segments(&path)
    };
    let query = Query::parse("watch=1&labelSelector=a%3Db&x=%zz");
    let told = target(&segments("/apis/m/v1/namespaces/a%2Fb/pods/p%3Fq/"), &query);
    assert_eq!(
        told,
        "/apis/m/v1/namespaces/a/b/pods/p%3Fq?watch=1&labelSelector=a%3Db&x=%25zz"
    );
    assert_eq!(
        target(&segments("/apis/m/v1"), &Query::parse("")),
        "/apis/m/v1"
    );
}

#[test]
fn other_servers_learn_where_a_request_came_from() {
    let mut headers = given(&[
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-for", "192.0.2.2"),
    ]);
    add_forwarded(&mut headers, "::ffff:192.0.2.3".parse().unwrap()).unwrap();
    assert_eq!(headers[FORWARDED_FOR], "192.0.2.1, 192.0.2.2, 192.0.2.3");

    let mut headers = HeaderMap::new();
    add_forwarded(&mut headers, "2001:db8::1".parse().unwrap()).unwrap();
    assert_eq!(headers[FORWARDED_FOR], "2001:db8::1");
}
