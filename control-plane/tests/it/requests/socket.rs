//! Watches over WebSocket, byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::harness::cluster::{Cluster, WITHIN};

const PATH: &str = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0";
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const PONG: u8 = 0x8a;
const CLOSE: u8 = 0x88;

/// Asks for a watch as a WebSocket, with these additional headers; returns its head too.
fn ask(cluster: &Cluster, path: &str, headers: &str) -> (BufReader<TcpStream>, String) {
    let mut stream = TcpStream::connect(&cluster.address).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    (stream, head)
}

/// The kind and the content of the next message; a server's are not masked.
fn message(stream: &mut impl Read) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let length = match head[1] {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            u16::from_be_bytes(length)
        }
        short => u16::from(short),
    };
    let mut content = vec![0; usize::from(length)];
    stream.read_exact(&mut content).unwrap();
    (head[0], content)
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[test]
fn each_event_of_a_watch_is_a_message() {
    let cluster = Cluster::start();
    let path = "/api/v1/namespaces/default/configmaps";
    cluster.post(path, &config_map("a"));
    let handshake = "Origin: http://localhost\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let (mut stream, head) = ask(&cluster, PATH, handshake);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let accept = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n";
    assert!(head.to_ascii_lowercase().contains(accept), "{head}");
    cluster.post(path, &config_map("b"));
    for name in ["a", "b"] {
        let (kind, event) = message(&mut stream);
        assert_eq!((kind, event.last()), (TEXT, Some(&b'\n')));
        let event: Value = serde_json::from_slice(&event).unwrap();
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], name);
    }
    // A ping without content, masked as a client's frames are.
    stream
        .get_mut()
        .write_all(&[0x89, 0x80, 0, 0, 0, 0])
        .unwrap();
    assert_eq!(message(&mut stream), (PONG, Vec::new()));

    let accept = "Accept: application/vnd.kubernetes.protobuf;stream=watch\r\n";
    let limited = format!("{PATH}&timeoutSeconds=1");
    let (mut stream, _) = ask(&cluster, &limited, &format!("{handshake}{accept}"));
    for name in ["a", "b"] {
        let (kind, event) = message(&mut stream);
        assert_eq!((kind, &event[..7]), (BINARY, &b"\n\x05ADDED"[..]), "{name}");
    }
    assert_eq!(message(&mut stream).0, CLOSE);
}

#[test]
fn a_handshake_that_is_not_correct_is_refused() {
    let cluster = Cluster::start();
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (path, headers, code) in [
        (PATH, "Origin: http://localhost\r\n".to_owned(), "400"),
        (PATH, key.to_owned(), "403"),
        ("/api/v1/nothing?watch=true", key.to_owned(), "404"),
    ] {
        let (_, head) = ask(&cluster, path, &headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {code} ")), "{head}");
    }
}
