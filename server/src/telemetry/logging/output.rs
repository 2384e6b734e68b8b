//! The outputs of the log.

#![expect(
    clippy::disallowed_methods,
    reason = "logging is part of the shell: it writes files"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

use super::Line;
use super::journal::Journal;
use super::rotate::Rotated;
use crate::config::{LogOutput, Rotation};

pub(super) enum Output {
    Stderr,
    Stdout,
    Journal(Journal),
    File(File),
    Rotated(Rotated),
}

impl Output {
    /// The errors are etcd's texts.
    pub(super) fn open(output: &LogOutput, rotation: Option<&Rotation>) -> Result<Output, String> {
        Ok(match (output, rotation) {
            (LogOutput::Stderr, _) => Output::Stderr,
            (LogOutput::Stdout, _) => Output::Stdout,
            (LogOutput::Journal, _) => Output::Journal(Journal::open()?),
            (LogOutput::File(path), Some(rotation)) => {
                let rotated = Rotated::open(path, rotation.clone());
                Output::Rotated(rotated.map_err(|error| cannot_open(path, &error))?)
            }
            (LogOutput::File(path), None) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Output::File(file.map_err(|error| cannot_open(path, &error))?)
            }
        })
    }

    pub(super) fn write(&mut self, line: &Line) -> io::Result<()> {
        let text = line.text.as_bytes();
        match self {
            Output::Stderr => io::stderr().write_all(text),
            Output::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(text)?;
                stdout.flush()
            }
            // If the line is too long for a datagram, or the journal restarts, write it to stderr
            // instead.
            Output::Journal(journal) => {
                journal.send(line).or_else(|_| io::stderr().write_all(text))
            }
            Output::File(file) => file.write_all(text),
            Output::Rotated(file) => file.write(text),
        }
    }
}

fn cannot_open(path: &std::path::Path, error: &io::Error) -> String {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    };
    let path = path.display();
    format!("open sink \"{path}\": open {path}: {reason}")
}
