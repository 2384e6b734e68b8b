use hyper::client::conn::http2;
use machinery::status::Status;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::Config;
use crate::Server;
use crate::auth::notes::Notes;
use crate::auth::{Answer, Authenticator, User};
use crate::storage::reader::Reader;
use crate::storage::store;

const PATIENT: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);
const PROBE: &str = "GET /livez/ping HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A server without a store, which answers the simplest health probe all the same, and its address.
async fn server(limits: Limits) -> (Arc<Server>, std::net::SocketAddr) {
    server_with(Config {
        limits,
        ..Config::default()
    })
    .await
}

async fn server_with(config: Config) -> (Arc<Server>, std::net::SocketAddr) {
    let server = Arc::new(Server::new(store::unreachable(), config));
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

/// Knows nobody; a header says whether that is allowed.
struct Nobody;

impl Authenticator for Nobody {
    fn authenticate<'a>(
        &'a self,
        _: &'a Reader,
        request: &'a http::request::Parts,
        _: &'a Notes,
    ) -> Answer<'a, User> {
        let allowed = request.headers.contains_key("allowed");
        Box::pin(async move {
            if allowed {
                Ok(User::anonymous())
            } else {
                Err(Status::unauthorized())
            }
        })
    }
}

#[tokio::test]
async fn a_connection_of_http2_ends_with_a_request_without_credentials() {
    let limits = Limits {
        head: PATIENT,
        idle: PATIENT,
        ..Limits::default()
    };
    let (_server, address) = server_with(Config {
        limits,
        authenticator: Arc::new(Nobody),
        ..Config::default()
    })
    .await;
    for (header, code) in [("allowed", 200), ("other", 401)] {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let shaken = http2::handshake(TokioExecutor::new(), stream).await;
        let (mut sender, connection) = shaken.unwrap();
        let ending = tokio::spawn(connection);
        let request = Request::get("http://localhost/livez/ping").header(header, "");
        let answer = sender.send_request(request.body(Body::empty()).unwrap());
        assert_eq!(answer.await.unwrap().status(), code);
        // The limit is for a server that does not end it.
        let ended = tokio::time::timeout(Duration::from_secs(30), ending).await;
        let _how = ended.expect("the server ends it");
    }
}

#[tokio::test]
async fn a_connection_of_http2_stays_for_a_user() {
    let (_server, address) = server(Limits::default()).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let shaken = http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = shaken.unwrap();
    let _serving = tokio::spawn(connection);
    for _ in 0..3 {
        sender.ready().await.unwrap();
        let request = Request::get("http://localhost/livez/ping").body(Body::empty());
        let answer = sender.send_request(request.unwrap()).await;
        assert_eq!(answer.unwrap().status(), 200);
    }
}
