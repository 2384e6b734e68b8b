use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::transport::Endpoint;

use super::*;
use crate::Config;
use crate::Server;

const PATIENT: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);
const PROBE: &str = "GET /livez/ping HTTP/1.1\r\nHost: a\r\n\r\n";

/// A server without a store, which answers the simplest health probe all the same, and its address.
async fn server(limits: Limits) -> (Arc<Server>, std::net::SocketAddr) {
    let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    let config = Config {
        limits,
        ..Config::default()
    };
    let server = Arc::new(Server::new(etcd_api::Client::new(channel), config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = Arc::clone(&server);
    tokio::spawn(async move { serving.serve(listener).await });
    (server, address)
}

/// Sends a text and reads until the server closes the connection.
async fn all_of(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut told = Vec::new();
    // A reset ends the connection, too.
    let _ = stream.read_to_end(&mut told).await;
    String::from_utf8_lossy(&told).into_owned()
}

#[tokio::test]
async fn half_a_head_does_not_stay() {
    let limits = Limits {
        head: SHORT,
        idle: PATIENT,
        ..Limits::default()
    };
    let (_server, address) = server(limits).await;
    assert_eq!(all_of(address, "GET /livez HTTP/1.1\r\n").await, "");
    assert_eq!(all_of(address, "").await, "");
    // The preface of HTTP/2 alone; the server closes this connection, too.
    all_of(address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
}

#[tokio::test]
async fn a_connection_without_requests_ends() {
    let limits = Limits {
        head: PATIENT,
        idle: SHORT,
        ..Limits::default()
    };
    let (_server, address) = server(limits).await;
    for more in ["", "GET /livez"] {
        let told = all_of(address, &format!("{PROBE}{more}")).await;
        assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
        assert!(told.ends_with("ok"), "{told}");
    }
}

#[tokio::test]
async fn a_connection_whose_first_request_comes_late_ends() {
    let limits = Limits {
        head: PATIENT,
        idle: SHORT,
        ..Limits::default()
    };
    let (_server, address) = server(limits).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    // By then the server waits for the next head, with the longer timeout.
    tokio::time::sleep(2 * SHORT).await;
    stream.write_all(PROBE.as_bytes()).await.unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).await.unwrap();
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
}

#[tokio::test]
async fn the_silent_make_room_for_those_who_ask() {
    let limits = Limits {
        connections: 8,
        head: PATIENT,
        idle: PATIENT,
        ..Limits::default()
    };
    let (_server, address) = server(limits).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /livez HTT").await.unwrap();
        silent.push(stream);
        let asks = PROBE.replace("Host", "Connection: close\r\nHost");
        let told = all_of(address, &asks).await;
        assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
    }
    // The first of them was closed first.
    let mut nothing = [0];
    assert!(!matches!(silent[0].read(&mut nothing).await, Ok(1..)));
}
