//! An HTTP client that returns every part of an answer.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::cases::Case;

/// An answer takes no longer, or it never comes.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// With what comes behind the body, which is named so.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }
}

/// Asks on a connection of its own, and reads to the end of the answer, or as many lines as the
/// case wants.
pub(super) fn ask(port: u16, case: &Case) -> Answer {
    Connection::open(port).ask(case)
}

/// A connection that is of use for one request after the other.
pub(super) struct Connection {
    reader: BufReader<TcpStream>,
    rest: Rest,
    /// Of a chunk that has been begun.
    left: Vec<u8>,
    /// What came behind the last chunk.
    trailers: BTreeMap<String, String>,
}

/// What is still to come of a body.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    Chunks,
    Bytes(usize),
}

impl Connection {
    pub(super) fn open(port: u16) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection {
            reader: BufReader::new(stream),
            rest: Rest::Bytes(0),
            left: Vec::new(),
            trailers: BTreeMap::new(),
        }
    }

    pub(super) fn ask(&mut self, case: &Case) -> Answer {
        let mut answer = self.begin(case);
        match case.lines {
            Some(lines) => (0..lines).for_each(|_| answer.body.extend(self.line())),
            None => {
                while let Some(piece) = self.piece() {
                    answer.body.extend(piece);
                }
                let behind = std::mem::take(&mut self.trailers).into_iter();
                let behind = behind.map(|(name, value)| (format!("behind: {name}"), value));
                answer.headers.extend(behind);
            }
        }
        answer
    }

    /// Sends a request and reads the head of its answer.
    pub(super) fn begin(&mut self, case: &Case) -> Answer {
        self.send(case);
        self.head(case)
    }

    fn send(&mut self, case: &Case) {
        let mut head = format!("{} {} HTTP/1.1\r\n", case.verb, case.path);
        if !case.headers.iter().any(|(name, _)| name == "Host") {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in &case.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !["GET", "HEAD"].contains(&case.verb) {
            head.push_str(&format!("Content-Length: {}\r\n", case.body.len()));
        }
        let stream = self.reader.get_mut();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // The server may have answered and left before all is sent.
        let _ = stream.write_all(&case.body);
    }

    fn head(&mut self, case: &Case) -> Answer {
        let first = self.head_line();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let headers = self.fields();
        let length = headers
            .get("content-length")
            .map(|text| text.parse().unwrap());
        self.rest = match (case.verb, length) {
            ("HEAD", _) => Rest::Bytes(0),
            (_, Some(length)) => Rest::Bytes(length),
            (_, None) => Rest::Chunks,
        };
        self.left.clear();
        Answer {
            status,
            headers,
            body: Vec::new(),
        }
    }

    fn fields(&mut self) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = self.head_line().split_once(':') {
            fields.insert(name.to_lowercase(), value.trim().to_owned());
        }
        fields
    }

    /// The next line of the body.
    pub(super) fn line(&mut self) -> Vec<u8> {
        loop {
            if let Some(end) = self.left.iter().position(|byte| *byte == b'\n') {
                return self.left.drain(..=end).collect();
            }
            let Some(piece) = self.piece() else {
                return std::mem::take(&mut self.left);
            };
            self.left.extend(piece);
        }
    }

    /// A line that is JSON.
    pub(super) fn json_line(&mut self) -> Value {
        let line = self.line();
        serde_json::from_slice(&line)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&line)))
    }

    /// The next piece of the body; `None` after the last.
    fn piece(&mut self) -> Option<Vec<u8>> {
        if let Rest::Bytes(length) = self.rest {
            let mut piece = vec![0; length];
            self.reader.read_exact(&mut piece).unwrap();
            self.rest = Rest::Bytes(0);
            return (length > 0).then_some(piece);
        }
        let length = usize::from_str_radix(&self.head_line(), 16).unwrap();
        if length == 0 {
            self.trailers = self.fields();
            self.rest = Rest::Bytes(0);
            return None;
        }
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        Some(chunk)
    }

    fn head_line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
