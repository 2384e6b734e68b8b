use http::HeaderValue;
use serde_json::json;

use super::super::authenticate::front_proxy;
use super::super::authenticate::token::tests::{NOW, issue, issuer, now_or_never, token_of, world};
use super::super::certificate::Bearer;
use super::*;

fn authenticator(anonymous: bool) -> Credentials {
    let file = "secret,admin,1,\"system:masters,b\"\n";
    Credentials {
        tokens: StaticTokens::parse(file).unwrap(),
        issuer: Arc::new(issuer()),
        bootstrap: false,
        openid: Providers::default(),
        reviewer: None,
        proxies: None,
        anonymous: Anonymous::all(anonymous),
    }
}

fn ask(of: &Credentials, peer: &Peer, authorization: Option<&str>) -> Result<User, String> {
    let mut headers = HeaderMap::new();
    if let Some(text) = authorization {
        headers.insert(
            AUTHORIZATION,
            HeaderValue::from_bytes(text.as_bytes()).unwrap(),
        );
    }
    now_or_never(of.known(&world(), peer, ("/api", &headers), &Notes::default(), NOW))
}

fn bearer(not_after: i64) -> Peer {
    Peer::Bearer(Arc::new(Bearer {
        user: User {
            name: "jane".into(),
            groups: vec!["devs".into()],
            ..User::default()
        },
        not_after,
    }))
}

#[test]
fn the_certificate_counts_before_the_token() {
    let of = authenticator(true);
    let user = ask(&of, &bearer(NOW.seconds), Some("Bearer secret")).unwrap();
    assert_eq!(user.name, "jane");
    assert_eq!(user.groups, ["devs", "system:authenticated"]);
}

#[test]
fn a_token_counts_beside_a_certificate_that_does_not() {
    let of = authenticator(true);
    for peer in [
        bearer(NOW.seconds - 1),
        Peer::Refused("unknown issuer".into()),
    ] {
        assert_eq!(
            ask(&of, &peer, Some("bearer secret")).unwrap().name,
            "admin"
        );
        ask(&of, &peer, None).unwrap_err();
    }
}

#[test]
fn a_proxy_names_users_until_its_certificate_expires() {
    let options = front_proxy::Options {
        user_headers: vec!["X-Remote-User".to_owned()],
        ..front_proxy::Options::default()
    };
    let of = Credentials {
        proxies: Some(Arc::new(FrontProxy::new(options, String::new()))),
        ..authenticator(true)
    };
    let proxy = |not_after: i64, own: Peer| Peer::Proxy {
        not_after,
        own: Box::new(own),
    };
    let ask = |peer: &Peer, header: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert("X-Remote-User", HeaderValue::from_static(header));
        now_or_never(of.known(&world(), peer, ("/api", &headers), &Notes::default(), NOW))
            .map(|user| user.name)
    };
    let own = bearer(NOW.seconds);
    let good = proxy(NOW.seconds, own.clone());
    assert_eq!(ask(&good, "joe").unwrap(), "joe");
    assert_eq!(ask(&good, "").unwrap(), "jane", "it asks for itself");
    let expired = proxy(NOW.seconds - 1, bearer(NOW.seconds - 1));
    ask(&expired, "joe").unwrap_err();
    // Nobody else is believed.
    assert_eq!(ask(&own, "joe").unwrap(), "jane");
    assert_eq!(ask(&Peer::Nobody, "joe").unwrap(), "system:anonymous");
}

#[test]
fn a_wrong_token_is_never_anonymous() {
    let of = authenticator(true);
    for text in [
        "Bearer wrong",
        "Bearer a.b.c",
        "Bearer secret2 x",
        "Bearer sécret",
    ] {
        ask(&of, &Peer::Nobody, Some(text)).unwrap_err();
    }
}

#[test]
fn a_token_may_be_among_the_protocols_of_a_socket() {
    let of = authenticator(true);
    let ask = |protocols: &'static str| {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", protocols),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let (asked, notes) = (("/api", &headers), Notes::default());
        now_or_never(of.known(&world(), &Peer::Nobody, asked, &notes, NOW)).map(|user| user.name)
    };
    let named = ask("base64url.bearer.authorization.k8s.io.c2VjcmV0, a");
    assert_eq!(named.unwrap(), "admin");
    ask("base64url.bearer.authorization.k8s.io.d3Jvbmc, a").unwrap_err();
    assert_eq!(ask("a, b").unwrap(), "system:anonymous");
}

#[test]
fn whoever_shows_nothing_is_anonymous_if_that_is_allowed() {
    for header in [None, Some("Basic eDp5"), Some("Bearer"), Some("Bearer  x")] {
        assert_eq!(
            ask(&authenticator(true), &Peer::Nobody, header),
            Ok(User::anonymous())
        );
        ask(&authenticator(false), &Peer::Nobody, header).unwrap_err();
    }
}

#[test]
fn tokens_of_service_accounts_name_them() {
    let of = authenticator(false);
    let answer = issue(&of.issuer, &world(), json!({})).unwrap();
    let header = format!("Bearer {}", token_of(&answer));
    let user = ask(&of, &Peer::Nobody, Some(&header)).unwrap();
    assert_eq!(user.name, "system:serviceaccount:tools:bot");
    assert_eq!(user.groups.last().unwrap(), "system:authenticated");
}

#[test]
fn a_token_from_the_file_is_for_this_server() {
    let of = authenticator(true);
    let ours = of.issuer.audiences().to_vec();
    let known =
        now_or_never(of.token(&world(), "secret", Some(&ours), &Notes::default(), NOW)).unwrap();
    assert_eq!(known.audiences, ours);
    let other = ["vault".to_owned()];
    now_or_never(of.token(&world(), "secret", Some(&other), &Notes::default(), NOW)).unwrap_err();
}

#[test]
fn the_file_is_comma_separated_values() {
    let text = "t1,u1,1\r\n\nt2,\"quoted \"\"user\"\"\",2,\"a,b\"\n,nobody,3\nt3,u3,,g";
    let StaticTokens(tokens) = StaticTokens::parse(text).unwrap();
    assert_eq!(tokens.len(), 3);
    assert_eq!(tokens["t1"].name, "u1");
    assert!(tokens["t1"].groups.is_empty());
    assert_eq!(tokens["t2"].name, "quoted \"user\"");
    assert_eq!(tokens["t2"].groups, ["a", "b"]);
    assert_eq!(tokens["t3"].groups, ["g"]);
    for bad in ["t,u", "t,\"u,1", "t,\"u\"x,1", "t,u\"x,1", "t,,1"] {
        assert!(StaticTokens::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn nobody_may_be_let_in_for_some_paths_alone() {
    let of = Credentials {
        anonymous: Anonymous {
            enabled: true,
            conditions: vec![config::AnonymousCondition {
                path: "/healthz".to_owned(),
            }],
        },
        ..authenticator(true)
    };
    let ask = |path: &str| {
        let headers = HeaderMap::new();
        let asked = (path, &headers);
        let notes = Notes::default();
        now_or_never(of.known(&world(), &Peer::Nobody, asked, &notes, NOW))
    };
    assert_eq!(ask("/healthz").unwrap(), User::anonymous());
    for path in ["/healthz/", "/healthz/etcd", "/", "/api/v1/pods"] {
        assert_eq!(ask(path).unwrap_err(), "no credentials", "{path}");
    }
}
