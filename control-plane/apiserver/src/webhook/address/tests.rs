use serde_json::{Value, json};

use super::{Place, of_endpoints, ready};

fn place(config: &Value) -> (String, String, String) {
    let place = Place::of(config).unwrap();
    (place.server_name(), place.host(), place.path().to_owned())
}

#[test]
fn a_configuration_names_a_url_or_a_service() {
    let service = |more: Value| {
        let mut service = json!({"name": "hook", "namespace": "ops", "port": 443});
        service
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "service": service })
    };
    let url = |url: &str| json!({ "url": url });
    for (config, name, host, path) in [
        (
            url("https://h.example/a/b"),
            "h.example",
            "h.example",
            "/a/b",
        ),
        (url("https://h.example"), "h.example", "h.example", "/"),
        (
            url("https://127.0.0.1:9443/x/"),
            "127.0.0.1",
            "127.0.0.1:9443",
            "/x",
        ),
        (url("https://[::1]:9443/x"), "::1", "[::1]:9443", "/x"),
        (url("https://[::1]/x"), "::1", "[::1]", "/x"),
        (service(json!({})), "hook.ops.svc", "hook.ops.svc:443", "/"),
        (
            service(json!({"port": 8443, "path": "/mutate"})),
            "hook.ops.svc",
            "hook.ops.svc:8443",
            "/mutate",
        ),
    ] {
        let expected = (name.to_owned(), host.to_owned(), path.to_owned());
        assert_eq!(place(&config), expected, "{config}");
    }
    assert!(Place::of(&json!({})).is_err());
}

#[test]
fn a_service_is_behind_ready_endpoints_of_its_family_first() {
    let slice = |family: &str, address: &str, ready: Value| {
        json!({
            "addressType": family,
            "ports": [{"name": "metrics", "port": 8080}, {"name": "hook", "port": 9443}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
        })
    };
    let slices = [
        slice("IPv6", "fd00::1", true.into()),
        slice("IPv4", "10.0.0.1", Value::Null),
        slice("IPv4", "10.0.0.2", false.into()),
    ];
    assert_eq!(ready(slices.iter(), "hook", "IPv4"), ["10.0.0.1:9443"]);
    assert_eq!(ready(slices.iter(), "hook", "IPv6"), ["[fd00::1]:9443"]);
    assert_eq!(ready(slices.iter(), "hook", "").len(), 2, "any family");
    assert!(ready(slices.iter(), "web", "IPv4").is_empty());

    let endpoints = json!({"subsets": [{
        "addresses": [{"ip": "10.0.0.3"}], "notReadyAddresses": [{"ip": "10.0.0.4"}],
        "ports": [{"port": 9443}],
    }]});
    assert_eq!(of_endpoints(&endpoints, ""), ["10.0.0.3:9443"]);
}
