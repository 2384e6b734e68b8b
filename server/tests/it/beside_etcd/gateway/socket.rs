//! Streams over WebSocket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testkit::{Launch, Server, Tools};

use super::settled;
use crate::harness::subject;

/// An answer takes no longer, or it never comes.
const PATIENCE: Duration = Duration::from_secs(20);

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What is said over the sockets to both servers, and what comes back.
#[test]
fn streams_are_the_same_over_a_socket() {
    let Some(tools) = Tools::or_skip("WebSockets beside etcd's") else {
        return;
    };
    let [etcd, stele] = [Launch::etcd(&tools), subject::launch()].map(|launch| {
        let server = launch.start().unwrap();
        (conversation(&server), refusals(&server))
    });
    assert_eq!(stele, etcd);
}

fn conversation(server: &Server) -> Vec<String> {
    let (head, mut socket) = Socket::open(server, "/v3/watch", "");
    let mut heard = vec![head];
    socket.say(TEXT, br#"{"create_request":{"key":"dw=="}}"#);
    heard.push(socket.text());
    // One message may hold more than one value, and less than one.
    socket.say(
        TEXT,
        br#"{"create_request":{"key":"eA=="}} {"cancel_request":"#,
    );
    heard.push(socket.text());
    socket.say(TEXT, br#"{"watch_id":"1"}}"#);
    heard.push(socket.text());
    socket.say(PING, b"there?");
    let (kind, body) = socket.hear();
    assert_eq!((kind, &body[..]), (PONG, &b"there?"[..]));
    socket.say(CLOSE, &[]);

    let protocols = "Sec-WebSocket-Protocol: Bearer, abc\r\n";
    let (head, mut socket) = Socket::open(server, "/v3beta/lease/keepalive", protocols);
    heard.push(head);
    for _ in 0..2 {
        socket.say(TEXT, br#"{"ID":"5"}"#);
        heard.push(socket.text());
    }
    let (head, mut socket) = Socket::open(server, "/v3/nowhere", "Cookie: token=t\r\n");
    heard.push(head);
    heard.push(socket.text());
    heard
}

fn refusals(server: &Server) -> Vec<String> {
    let ask = |head: &str| {
        let mut stream = connect(server);
        write!(
            stream,
            "{head}Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        )
        .unwrap();
        write!(stream, "\r\n").unwrap();
        head_of(&mut BufReader::new(stream))
    };
    vec![
        ask("GET /v3/watch HTTP/1.1\r\nSec-WebSocket-Version: 13\r\n"),
        ask(
            "GET /v3/watch HTTP/1.1\r\nSec-WebSocket-Version: 12\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        ),
        ask(
            "POST /v3/watch HTTP/1.1\r\nContent-Length: 0\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        ),
    ]
}

struct Socket {
    reader: BufReader<TcpStream>,
}

impl Socket {
    /// A socket and the head of the answer that made it one.
    fn open(server: &Server, path: &str, headers: &str) -> (String, Socket) {
        let mut stream = connect(server);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
             Connection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let head = head_of(&mut reader);
        (head, Socket { reader })
    }

    fn say(&mut self, kind: u8, body: &[u8]) {
        // Masked, as clients must, with a key that changes nothing.
        let mut frame = vec![
            0x80 | kind,
            0x80 | u8::try_from(body.len()).unwrap(),
            0,
            0,
            0,
            0,
        ];
        assert!(body.len() < 126, "longer ones need another length");
        frame.extend_from_slice(body);
        self.reader.get_mut().write_all(&frame).unwrap();
    }

    fn text(&mut self) -> String {
        let (kind, body) = self.hear();
        assert_eq!(kind, TEXT);
        settled(&String::from_utf8(body).unwrap())
    }

    fn hear(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.reader.read_exact(&mut head).unwrap();
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.reader.read_exact(&mut length).unwrap();
                u16::from_be_bytes(length).into()
            }
            short => usize::from(short),
        };
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        (head[0] & 15, body)
    }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.client_port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The lines of a head in order, without the time.
fn head_of(reader: &mut impl BufRead) -> String {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if !line.starts_with("date:") {
            lines.push(line);
        }
    }
    lines.sort();
    lines.join("\n")
}
