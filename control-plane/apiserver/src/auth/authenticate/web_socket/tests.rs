use super::*;

fn asking(protocols: &[&'static str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
    for one in protocols {
        headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(one));
    }
    headers
}

/// The token `secret`.
const SECRET: &str = "base64url.bearer.authorization.k8s.io.c2VjcmV0";

#[test]
fn a_token_is_one_of_several_protocols() {
    for protocols in [
        &[SECRET, "v5.channel.k8s.io"][..],
        &["a, base64url.bearer.authorization.k8s.io.c2VjcmV0,b"],
    ] {
        let headers = asking(protocols);
        assert_eq!(token(&headers), Ok(Some("secret".to_owned())));
    }
    assert_eq!(token(&asking(&["v5.channel.k8s.io"])), Ok(None));
    let mut plain = asking(&[SECRET, "a"]);
    plain.remove(UPGRADE);
    assert_eq!(token(&plain), Ok(None), "it asks for no socket");
    for (protocols, why) in [
        (&[SECRET][..], "missing additional subprotocol"),
        (
            &[SECRET, SECRET, "a"],
            "multiple base64.bearer.authorization tokens specified",
        ),
        (
            &["base64url.bearer.authorization.k8s.io.c2VjcmV0=", "a"],
            "invalid base64.bearer.authorization token encoding",
        ),
        (
            &["base64url.bearer.authorization.k8s.io._w", "a"],
            "invalid base64.bearer.authorization token",
        ),
    ] {
        assert_eq!(token(&asking(protocols)), Err(why));
    }
}

#[test]
fn the_other_protocols_have_no_token() {
    let others = |names: &[&'static str]| protocols(&asking(names));
    let headers = others(&["a", SECRET, "b,c"]).unwrap();
    assert_eq!(headers, "a, b, c");
    assert_eq!(others(&[SECRET]), None);
    assert_eq!(others(&[]), None);
}
