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
        let user = Open.authenticate(&reader, &parts, &Notes::default()).await;
        assert_eq!(user.is_ok(), lets_in, "{origin:?}");
    }
}
