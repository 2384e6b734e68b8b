//! Writes lines to the standard output or to a file, from a thread of its own: a disk that stalls
//! delays the requests that wait for their events, and no others.

use std::io::{self, Write as _};
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::rotation::Rotated;

/// Upper bound of the bytes that wait to be written. Whoever has more waits.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Bytes from which no further lines are added to one write.
const CHUNK_BYTES: usize = 1 << 20;

/// The handle of the thread, which ends with it.
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
}

/// Where lines go.
pub(super) enum Output {
    Standard(io::Stdout),
    File(Box<Rotated>),
}

/// Lines that are answered together.
struct Job {
    lines: Vec<Bytes>,
    done: oneshot::Sender<Result<(), String>>,
    #[expect(dead_code, reason = "its end gives the room back")]
    room: OwnedSemaphorePermit,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(output: Output) -> io::Result<Writer> {
        let (jobs, todo) = mpsc::channel();
        std::thread::Builder::new()
            .name("audit-log".into())
            .spawn(move || run(output, &todo))?;
        let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
        Ok(Writer { jobs, room })
    }

    /// Writes lines and waits until the system has them.
    pub(super) async fn write(&self, lines: Vec<Bytes>) -> Result<(), String> {
        const GONE: &str = "the writer of the audit log is gone";
        let bytes: usize = lines.iter().map(Bytes::len).sum();
        let bytes = u32::try_from(bytes.min(WAITING_BYTES_MAX)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await;
        let room = room.map_err(|error| error.to_string())?;
        let (done, written) = oneshot::channel();
        let job = Job { lines, done, room };
        self.jobs.send(job).map_err(|_| GONE)?;
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
