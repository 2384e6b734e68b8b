use http::Request;
use tonic::transport::Channel;

use super::*;
use crate::Config;

#[tokio::test]
async fn only_the_path_that_was_authorized_is_served() {
    let channel = Channel::from_static("http://127.0.0.1:1").connect_lazy();
    let api = crate::connected(etcd_api::Client::new(channel), Config::default());
    for (path, code) in [
        ("/metrics", 200),
        ("/livez/ping", 200),
        ("/api", 200),
        ("/api/", 200),
        ("//metrics", 404),
        ("/metrics/", 404),
        ("/%2Fmetrics", 404),
        ("/metrics%2F", 404),
        ("/livez%2Fping", 200),
        ("/livez/ping/", 404),
    ] {
        let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
        let decoded = request::decoded(parts.uri.path()).unwrap();
        let segments = request::segments(&decoded);
        let answer = answer(&api, &parts, &segments).await.unwrap();
        assert_eq!(answer.status(), code, "{path}");
    }
}
