use http::{HeaderName, HeaderValue};

use super::*;

fn proxies() -> FrontProxy {
    let list = |names: &[&str]| names.iter().map(|one| (*one).to_owned()).collect();
    let options = Options {
        authority: PathBuf::new(),
        allowed_names: list(&["proxy"]),
        user_headers: list(&["X-Remote-User", "X-User"]),
        uid_headers: list(&["X-Remote-Uid"]),
        group_headers: list(&["X-Remote-Group"]),
        extra_prefixes: list(&["X-Remote-Extra-"]),
    };
    FrontProxy::new(options, "PEM".to_owned())
}

fn user(headers: &[(&str, &str)]) -> Option<User> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    proxies().user(&map)
}

#[test]
fn headers_name_the_user() {
    let user = user(&[
        ("x-remote-user", ""),
        ("x-user", "jane"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", ""),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Scopes", "s1"),
        ("X-Remote-Extra-Scopes", "s2"),
        ("X-Remote-Extra-Example.com%2fkey", "v"),
    ])
    .unwrap();
    assert_eq!((&*user.name, &*user.uid), ("jane", "7"));
    assert_eq!(user.groups, ["a", "b"]);
    assert_eq!(user.extra["scopes"], ["s1", "s2"]);
    assert_eq!(user.extra["example.com/key"], ["v"]);
}

#[test]
fn without_a_name_there_is_no_user() {
    assert_eq!(user(&[("X-Remote-Group", "system:masters")]), None);
    assert_eq!(user(&[("X-Remote-User", "")]), None);
}

#[test]
fn servers_behind_this_one_learn_of_the_proxies() {
    let published: BTreeMap<_, _> = proxies().published("PEM").into_iter().collect();
    assert_eq!(published["requestheader-client-ca-file"], "PEM");
    assert_eq!(published["requestheader-allowed-names"], "[\"proxy\"]");
    let headers = "[\"X-Remote-User\",\"X-User\"]";
    assert_eq!(published["requestheader-username-headers"], headers);
}
