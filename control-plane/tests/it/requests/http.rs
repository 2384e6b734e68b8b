//! Requests byte by byte, including requests that client libraries would never send.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::harness::cluster::WITHIN;

pub(crate) struct Call {
    address: String,
    head: String,
    body: Vec<u8>,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// A request that is sent.
pub(crate) struct Begun(BufReader<TcpStream>);

/// A response read line by line as it arrives.
pub(crate) struct Lines(BufReader<TcpStream>);

impl Call {
    pub(crate) fn new(address: &str, method: &str, path: &str) -> Call {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        Call {
            address: address.to_owned(),
            head,
            body: Vec::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Call {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn body(mut self, media_type: &str, body: impl Into<Vec<u8>>) -> Call {
        self.body = body.into();
        self.header("Content-Type", media_type)
    }

    pub(crate) fn json(self, object: &Value) -> Call {
        self.body("application/json", object.to_string())
    }

    fn open(&self) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        let head = format!("{}Content-Length: {}\r\n\r\n", self.head, self.body.len());
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses a body may close the connection before it has read all of it.
        let _ = stream.write_all(&self.body);
        BufReader::new(stream)
    }

    pub(crate) fn send(self) -> Answer {
        self.begin().answer()
    }

    /// Sends the request, whose response is read later.
    pub(crate) fn begin(self) -> Begun {
        Begun(self.open())
    }

    /// Sends a watch; its response ends with the first event that is enough, unless it is refused.
    pub(crate) fn watch_until(self, enough: impl Fn(&Value) -> bool) -> Answer {
        let mut stream = self.open();
        let head = read_head(&mut stream);
        if !head.starts_with("HTTP/1.1 200") {
            return answer(head, stream);
        }
        let mut lines = Lines(stream);
        let mut body = Vec::new();
        while let Some(event) = lines.next() {
            body.extend(event.to_string().into_bytes());
            if enough(&event) {
                break;
            }
        }
        Answer {
            code: 200,
            head,
            body,
        }
    }

    /// Sends the request and returns the response as a stream, for watches.
    pub(crate) fn stream(self) -> Lines {
        let mut stream = self.open();
        let head = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Lines(stream)
    }
}

impl Begun {
    pub(crate) fn answer(mut self) -> Answer {
        let head = read_head(&mut self.0);
        answer(head, self.0)
    }
}

/// Reads a body to its end.
fn answer(head: String, mut stream: BufReader<TcpStream>) -> Answer {
    let mut body = Vec::new();
    let _ = stream.read_to_end(&mut body);
    if head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        body = dechunked(&body);
    }
    let code = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap();
    Answer { code, head, body }
}

fn read_head(stream: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(
            stream.read_line(&mut head).unwrap() > 0,
            "the connection ended: {head}"
        );
    }
    head
}

fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        out.extend(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 2 + size + 2..];
    }
    out
}

impl Answer {
    pub(crate) fn object(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The body of a response that must have this code.
    pub(crate) fn expect(&self, code: u16) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.code, code, "{text}");
        self.object()
    }

    /// Checks that the path is not served.
    pub(crate) fn missing(&self) {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.code, 404, "{text}");
    }

    /// Checks an error response: code, reason and part of the message.
    pub(crate) fn refuses(&self, code: u16, reason: &str, message: &str) {
        let status = self.expect(code);
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["code"], code);
        assert_eq!(
            status["reason"].as_str().unwrap_or_default(),
            reason,
            "{status}"
        );
        let told = status["message"].as_str().unwrap();
        assert!(told.contains(message), "{told}\ndoes not say\n{message}");
    }
}

impl Lines {
    /// The next event; `None` at the end of the response.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // Chunk sizes are on separate lines.
            if line.starts_with('{') {
                return Some(self.event_from(line));
            }
        }
    }

    /// The event that a line begins. A proxy may split it into several chunks.
    fn event_from(&mut self, mut line: String) -> Value {
        loop {
            let event = serde_json::from_str(&line);
            match (event, line.strip_suffix("\r\n").map(str::len)) {
                (Err(_), Some(bytes)) => line.truncate(bytes),
                (event, _) => return event.unwrap(),
            }
            self.0.read_line(&mut String::new()).unwrap();
            self.0.read_line(&mut line).unwrap();
        }
    }

    /// The type and name of the next event.
    pub(crate) fn event(&mut self) -> (String, String) {
        let event = self.next().expect("the watch goes on");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }
}
