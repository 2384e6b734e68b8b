//! Writes lines to the standard output or to a file, from a thread of its own: a disk that stalls
//! delays the requests that wait for their events, and no others.

use std::io::{self, Write as _};
use std::sync::mpsc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::rotation::Rotated;

/// Bytes from which no further lines are added to one write.
const CHUNK_BYTES: usize = 1 << 20;

/// The handle of the thread, which ends with it. Its sink bounds what waits to be written.
pub(super) struct Writer(mpsc::Sender<Job>);

/// Where lines go.
pub(super) enum Output {
    Standard(io::Stdout),
    File(Box<Rotated>),
}

/// Lines that are answered together.
struct Job {
    lines: Vec<Bytes>,
    done: oneshot::Sender<Result<(), String>>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(output: Output) -> io::Result<Writer> {
        let (jobs, todo) = mpsc::channel();
        std::thread::Builder::new()
            .name("audit-log".into())
            .spawn(move || run(output, &todo))?;
        Ok(Writer(jobs))
    }

    /// Writes lines and waits until the system has them.
    pub(super) async fn write(&self, lines: Vec<Bytes>) -> Result<(), String> {
        const GONE: &str = "the writer of the audit log is gone";
        let (done, written) = oneshot::channel();
        self.0.send(Job { lines, done }).map_err(|_| GONE)?;
        written.await.map_err(|_| GONE)?
    }
}

fn run(mut output: Output, todo: &mpsc::Receiver<Job>) {
    while let Ok(first) = todo.recv() {
        let mut bytes = 0;
        let mut begun = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            bytes += job.lines.iter().map(Bytes::len).sum::<usize>();
            let added = job.lines.iter().try_for_each(|line| output.add(line));
            begun.push((job, added));
            next = if bytes < CHUNK_BYTES {
                todo.try_recv().ok()
            } else {
                None
            };
        }
        let flushed = output.flush().map_err(|error| error.to_string());
        for (job, added) in begun {
            let result = added.map_err(|error| error.to_string());
            // Whoever asked may have gone.
            let _ = job.done.send(result.and_then(|()| flushed.clone()));
        }
    }
}

impl Output {
    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Output::Standard(out) => out.write_all(line),
            Output::File(file) => file.add(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Standard(out) => out.flush(),
            Output::File(file) => file.flush(),
        }
    }
}
