use http::Request;

use super::*;
use crate::resources::catalogue::Catalogue;

#[tokio::test]
async fn only_pages_of_this_machine_and_of_this_server_may_ask() {
    let reader = Reader::without_store(Catalogue::default());
    for (origin, lets_in) in [
        (None, true),
        (Some(""), true),
        (Some("http://localhost:4466"), true),
        (Some("https://a.localhost"), true),
        (Some("http://127.0.0.1:8001"), true),
        (Some("http://[::1]:8001"), true),
        (Some("http://dev.example.com:8001"), true),
        (Some("null"), false),
        (Some("https://example.com"), false),
        (Some("http://dev.example.com"), false),
        (Some("http://localhost.example.com"), false),
        (Some("http://notlocalhost"), false),
        (Some("http://192.0.2.1"), false),
        (Some("localhost"), false),
    ] {
        let path = "/api/v1/namespaces/default/pods";
        let mut request = Request::post(path).header(HOST, "dev.example.com:8001");
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let open = Open::to(["dev.example.com".to_owned()]);
        let user = open.authenticate(&reader, &parts, &Notes::default()).await;
        assert_eq!(user.is_ok(), lets_in, "{origin:?}");
    }
}

#[tokio::test]
async fn no_page_asks_by_a_name_of_its_own_that_leads_here() {
    let reader = Reader::without_store(Catalogue::default());
    let open = Open::to(["Dev.example.com".to_owned()]);
    for (host, lets_in) in [
        ("127.0.0.1:8001", true),
        ("[::1]:8001", true),
        ("192.0.2.1", true),
        ("localhost:8001", true),
        ("LocalHost", true),
        ("a.localhost:8001", true),
        ("dev.example.com:8001", true),
        ("DEV.example.com", true),
        ("example.com:8001", false),
        ("a.dev.example.com", false),
        ("localhost.example.com", false),
        ("127.0.0.1.example.com", false),
        ("notlocalhost", false),
        ("a b", false),
    ] {
        let origin = format!("http://{host}");
        let by_header = Request::get("/api").header(HOST, host);
        let by_header = by_header.header(ORIGIN, &origin);
        // A page may read what it gets from its own site, and then its browser says no origin.
        let without_origin = Request::get("/api").header(HOST, host);
        let by_authority = Request::get(format!("{origin}/api"));
        for request in [by_header, without_origin, by_authority] {
            // No client can send such an authority.
            let Ok(request) = request.body(()) else {
                continue;
            };
            let (parts, ()) = request.into_parts();
            let user = open.authenticate(&reader, &parts, &Notes::default()).await;
            let code = user.err().map(|error| error.code);
            assert_eq!(code, (!lets_in).then_some(403), "{host}");
        }
    }
    // Those in this process name none.
    let (parts, ()) = Request::get("/api").body(()).unwrap().into_parts();
    let user = open.authenticate(&reader, &parts, &Notes::default()).await;
    assert!(user.is_ok());
}
