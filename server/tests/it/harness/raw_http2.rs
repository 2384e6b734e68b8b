//! Hand-written HTTP/2, for what no client library does.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Nothing takes this long.
const READ_WITHIN: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Http2(TcpStream);

impl Http2 {
    /// Connects and says hello; the server's settings are yet to be read.
    pub(crate) fn connect(port: u16) -> Http2 {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(READ_WITHIN)).unwrap();
        stream.set_write_timeout(Some(READ_WITHIN)).unwrap();
        let mut connection = Http2(stream);
        connection.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        connection.send(SETTINGS, 0, 0, b"");
        connection
    }

    /// False: the server has closed the connection.
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.write(&frame)
    }

    /// Opens a call without sending a message.
    pub(crate) fn call(&mut self, stream: u32, path: &str) -> bool {
        self.send(HEADERS, END_HEADERS, stream, &call_headers(path))
    }

    /// The next frame; None: the connection is closed.
    pub(crate) fn read(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.fill(&mut header)?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        self.fill(&mut payload)?;
        Some(Frame {
            kind: header[3],
            flags: header[4],
            payload,
        })
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Option<()> {
        match self.0.read_exact(buffer) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the server is silent"),
            Err(_) => None,
        }
    }

    /// The next frame of this kind.
    pub(crate) fn find(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.read()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Sends a ping and waits for its answer; None: the server ended the connection instead.
    pub(crate) fn ping(&mut self) -> Option<()> {
        self.send(PING, 0, 0, b"12345678");
        loop {
            let frame = self.read()?;
            match frame.kind {
                PING if frame.flags & ACK == ACK => return Some(()),
                GOAWAY => return None,
                _ => {}
            }
        }
    }
}

/// A header block without tables and without Huffman codes.
pub(crate) fn call_headers(path: &str) -> Vec<u8> {
    headers(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "127.0.0.1"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ])
}

pub(crate) fn headers(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in pairs {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("a short header"));
            block.extend(text.as_bytes());
        }
    }
    block
}
