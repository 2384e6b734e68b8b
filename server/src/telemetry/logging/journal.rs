//! The systemd journal, in its native protocol: one datagram per line.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use super::Line;

const SOCKET: &str = "/run/systemd/journal/socket";

pub(super) struct Journal {
    socket: UnixDatagram,
    identifier: String,
}

impl Journal {
    /// The error has etcd's text.
    pub(super) fn open() -> Result<Journal, String> {
        Journal::open_at(Path::new(SOCKET)).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                _ => error.to_string(),
            };
            format!("can't find journal (dial unixgram {SOCKET}: connect: {reason})")
        })
    }

    fn open_at(path: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        let program = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&program).file_name().unwrap_or_default();
        Ok(Journal {
            socket,
            identifier: name.to_string_lossy().into_owned(),
        })
    }

    pub(super) fn send(&self, line: &Line) -> io::Result<()> {
        let mut message = Vec::with_capacity(line.text.len() + 128);
        put(&mut message, "PRIORITY", &line.priority.to_string());
        put(&mut message, "PACKAGE", &line.package);
        put(&mut message, "SYSLOG_IDENTIFIER", &self.identifier);
        put(&mut message, "MESSAGE", line.text.trim_end());
        self.socket.send(&message).map(drop)
    }
}

/// Syslog's number for one of etcd's levels.
pub(super) fn priority(level: &str) -> u8 {
    match level {
        "fatal" => 2,
        "error" => 3,
        "warn" => 4,
        "info" => 6,
        _ => 7,
    }
}

/// A value that contains a newline is sent with its length; others end at the newline.
fn put(message: &mut Vec<u8>, field: &str, value: &str) {
    message.extend_from_slice(field.as_bytes());
    if value.contains('\n') {
        message.push(b'\n');
        message.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        message.push(b'=');
    }
    message.extend_from_slice(value.as_bytes());
    message.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reaches_the_journal_with_its_priority() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let server = UnixDatagram::bind(&path).unwrap();
        let mut journal = Journal::open_at(&path).unwrap();
        journal.identifier = "stele".to_owned();
        let line = |text: &str| Line {
            text: text.to_owned(),
            priority: priority("warn"),
            package: "src".to_owned(),
        };
        journal.send(&line("{\"level\":\"warn\"}\n")).unwrap();
        let mut buffer = [0; 256];
        let length = server.recv(&mut buffer).unwrap();
        assert_eq!(
            std::str::from_utf8(&buffer[..length]).unwrap(),
            "PRIORITY=4\nPACKAGE=src\nSYSLOG_IDENTIFIER=stele\nMESSAGE={\"level\":\"warn\"}\n"
        );
        journal.send(&line("a\nb\n")).unwrap();
        let length = server.recv(&mut buffer).unwrap();
        let length_of_value = 3u64.to_le_bytes();
        let tail = [b"MESSAGE\n", &length_of_value[..], b"a\nb\n"].concat();
        assert!(buffer[..length].ends_with(&tail));
    }
}
