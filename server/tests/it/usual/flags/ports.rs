//! Flags that change the listen addresses and the HTTP pages.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testkit::{Server, free_port};

use super::Probe;
use crate::harness::subject;

pub(super) const PROBES: &[Probe] = &[
    (&["listen-client-urls", "listen-peer-urls"], listeners),
    (&["listen-client-http-urls"], http_apart),
    (&["listen-metrics-urls"], metrics_apart),
    (&["socket-reuse-port"], reuse),
    (&["cors", "host-whitelist"], access),
    (&["metrics"], extensive),
    (&["enable-pprof"], profiles),
];

fn start(flags: &[&str]) -> Server {
    let launch = subject::launch().flags(flags);
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

/// Head and body of a page; `headers` are lines.
pub(super) fn get(port: u16, path: &str, headers: &str) -> (String, String) {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let host = if headers.contains("Host:") {
        String::new()
    } else {
        "Host: localhost\r\n".to_owned()
    };
    let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A server that has nothing to say may reset the connection.
    let end = connection.read_to_end(&mut answer);
    let is_silent = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!is_silent, "no answer to {path}");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) => (head.to_owned(), body.to_owned()),
        None => (answer, String::new()),
    }
}

fn listeners() {
    let second = free_port();
    let server = start(&[]);
    let both = format!(
        "--listen-client-urls=http://127.0.0.1:{},http://127.0.0.1:{second},http://127.0.0.1:{second}",
        free_port()
    );
    let (head, _) = get(server.client_port(), "/health", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(TcpStream::connect(("127.0.0.1", server.peer_port())).is_ok());
    // A URL named twice is listened on once.
    let _server = start(&[&both]);
    let (head, _) = get(second, "/health", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

fn http_apart() {
    let port = free_port();
    let server = start(&[&format!(
        "--listen-client-http-urls=http://127.0.0.1:{port}"
    )]);
    assert!(get(port, "/version", "").0.starts_with("HTTP/1.1 200"));
    assert_eq!(get(server.client_port(), "/version", "").0, "");
}

fn metrics_apart() {
    let port = free_port();
    let _server = start(&[&format!("--listen-metrics-urls=http://127.0.0.1:{port}")]);
    assert!(
        get(port, "/metrics", "")
            .1
            .contains("etcd_server_has_leader")
    );
    assert!(get(port, "/version", "").0.starts_with("HTTP/1.1 404"));
}

/// Two processes on one port.
fn reuse() {
    let port = free_port();
    let shared = format!("--listen-metrics-urls=http://127.0.0.1:{port}");
    let _first = start(&["--socket-reuse-port", &shared]);
    let _second = start(&["--socket-reuse-port", &shared]);
    let refused = subject::launch().flag(&shared).start().err();
    let refused = refused.expect("the port is shared only with who shares it");
    assert!(refused.log.contains("address already in use"), "{refused}");
}

fn access() {
    let server = start(&["--cors=http://a.example:1", "--host-whitelist=good.example"]);
    let port = server.client_port();
    let origin = "Host: good.example\r\nOrigin: http://a.example:1\r\n";
    let (head, _) = get(port, "/version", origin);
    let head = head.to_lowercase();
    assert!(
        head.contains("access-control-allow-origin: http://a.example:1"),
        "{head}"
    );
    let (head, _) = get(port, "/version", "Host: bad.example\r\n");
    assert!(head.starts_with("HTTP/1.1 421"), "{head}");
}

fn extensive() {
    let histogram = "# TYPE grpc_server_handling_seconds histogram";
    // Such families appear with the first call.
    let page = |flags: &[&str]| {
        let server = start(flags);
        super::logs::write(&server, 1, 1);
        get(server.client_port(), "/metrics", "").1
    };
    assert!(!page(&[]).contains(histogram));
    assert!(page(&["--metrics=extensive"]).contains(histogram));
}

fn profiles() {
    let server = start(&["--enable-pprof"]);
    let page = |path| get(server.client_port(), path, "");
    let (head, body) = page("/debug/pprof/");
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("threadcreate"));
    let (_, threads) = page("/debug/pprof/threadcreate?debug=1");
    assert!(threads.contains("\tapply\t"), "{threads}");
    assert!(page("/debug/pprof/cmdline").1.contains("--enable-pprof"));
    assert!(page("/debug/pprof/heap").0.starts_with("HTTP/1.1 501"));
    assert!(page("/debug/pprof/nope").0.starts_with("HTTP/1.1 404"));
    let server = start(&[]);
    assert!(
        get(server.client_port(), "/debug/pprof/", "")
            .0
            .starts_with("HTTP/1.1 404")
    );
}
