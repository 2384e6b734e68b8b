//! A log file that is renamed when it is full, as lumberjack does it: `audit.log` becomes
//! `audit-2026-01-02T03-04-05.678.log`, and later perhaps `audit-….log.gz`. Old files are removed
//! by their number and their age.
#![expect(
    clippy::disallowed_methods,
    reason = "the log is a file of its own, beside the store"
)]

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use machinery::time::Timestamp;

use crate::basics::clock;

/// The mode of new files, and of new directories of theirs.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
const GZIP: &str = ".gz";
/// The length of the time in the name of an old file, in bytes.
const TIME_BYTES: usize = "2026-01-02T03-04-05.678".len();
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What is kept of old files.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Keep {
    /// In days; 0 for any age.
    pub(super) age_days: u64,
    /// Their number; 0 for any.
    pub(super) files: usize,
    pub(super) compress: bool,
}

/// The file. Lines are written when [`Rotated::flush`] is called.
pub(super) struct Rotated {
    path: PathBuf,
    /// `None` if it is never full.
    bytes_max: Option<u64>,
    /// `None` until the first line, and after a failure.
    file: Option<File>,
    bytes: u64,
    waiting: Vec<u8>,
    /// Why lines of the present write are lost already.
    lost: Option<String>,
    /// Wakes the thread that tidies up.
    tidy: SyncSender<()>,
}

impl Rotated {
    /// Makes sure that the file can be written.
    pub(super) fn open(path: &Path, bytes_max: Option<u64>, keep: Keep) -> io::Result<Rotated> {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(parent(path))?;
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(FILE_MODE);
        drop(options.open(path)?);
        let (tidy, wanted) = sync_channel(1);
        let place = path.to_owned();
        std::thread::Builder::new()
            .name("audit-log-tidy".into())
            .spawn(move || {
                while wanted.recv().is_ok() {
                    if let Err(error) = tidy_up(&place, keep, clock::now()) {
                        tracing::warn!(%error, "old audit logs cannot be tidied up");
                    }
                }
            })?;
        Ok(Rotated {
            path: path.to_owned(),
            bytes_max,
            file: None,
            bytes: 0,
            waiting: Vec::new(),
            lost: None,
            tidy,
        })
    }

    /// Adds a line to the next write, in a new file if it does not fit into this one.
    pub(super) fn add(&mut self, line: &[u8]) -> io::Result<()> {
        let most = self.bytes_max.unwrap_or(u64::MAX);
        let more = line.len() as u64;
        if more > most {
            let why = format!("write length {more} exceeds maximum file size {most}");
            return Err(io::Error::other(why));
        }
        let is_first = self.file.is_none();
        if is_first {
            self.open_existing()?;
        }
        let end = self.bytes + self.waiting.len() as u64 + more;
        // A file that is found full is not written again, even if this line would just fit.
        if end > most || is_first && end == most {
            if let Err(error) = self.write_waiting() {
                self.lost = Some(error.to_string());
                return Err(error);
            }
            self.rotate()?;
        }
        self.waiting.extend_from_slice(line);
        Ok(())
    }

    /// Writes the lines that were added. If that fails, none of them are tried again.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = self.write_waiting();
        match self.lost.take() {
            Some(why) => Err(io::Error::other(why)),
            None => written,
        }
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let Some(file) = self.file.as_mut().filter(|_| !waiting.is_empty()) else {
            return Ok(());
        };
        let written = file.write_all(&waiting);
        match written {
            Ok(()) => self.bytes += waiting.len() as u64,
            // Part of it may be written: look again.
            Err(_) => self.file = None,
        }
        self.waiting = waiting;
        self.waiting.clear();
        written
    }

    fn open_existing(&mut self) -> io::Result<()> {
        self.wake();
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .append(true)
            .mode(FILE_MODE)
            .open(&self.path)?;
        self.bytes = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// Renames the file and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let mode = fs::metadata(&self.path).map_or(FILE_MODE, |found| found.permissions().mode());
        match fs::rename(&self.path, self.free_name()) {
            // Somebody else has moved it away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(mode & 0o777);
        self.file = Some(options.open(&self.path)?);
        self.bytes = 0;
        self.wake();
        Ok(())
    }

    /// A name for the full file. If two files get full within a millisecond, the second one takes
    /// the next.
    fn free_name(&self) -> PathBuf {
        let (prefix, extension) = parts(&self.path);
        let mut now = clock::now();
        loop {
            let name = format!("{prefix}{}{extension}", written(now));
            let path = parent(&self.path).join(name);
            if !path.exists() {
                return path;
            }
            now = now.plus(Duration::from_millis(1));
        }
    }

    fn wake(&self) {
        // It fails if the thread has been woken already.
        let _ = self.tidy.try_send(());
    }
}

/// Removes and compresses old files.
fn tidy_up(path: &Path, keep: Keep, now: Timestamp) -> io::Result<()> {
    let directory = parent(path);
    let mut old = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(time) = name.to_str().and_then(|name| time_of(path, name)) {
            old.push((time, directory.join(name)));
        }
    }
    old.sort_unstable_by(|a, b| b.cmp(a));
    let is_expired = |time: Timestamp| {
        let age = u32::try_from(keep.age_days).unwrap_or(u32::MAX);
        keep.age_days > 0 && now.since(time) > DAY.saturating_mul(age)
    };
    let (mut numbers, mut last) = (0, None);
    for (time, file) in old {
        // A file and its compressed form, of which the first is about to go, count as one.
        if last != Some(time) {
            numbers += 1;
            last = Some(time);
        }
        if keep.files > 0 && numbers > keep.files || is_expired(time) {
            fs::remove_file(&file)?;
        } else if keep.compress && file.extension() != Some(OsStr::new("gz")) {
            compress(&file)?;
        }
    }
    Ok(())
}

/// Replaces a file by its compressed form.
fn compress(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(GZIP);
    let to = PathBuf::from(name);
    let mut from = File::open(path)?;
    let mode = from.metadata()?.permissions().mode();
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true);
    let out = options.mode(mode & 0o777).open(&to)?;
    let mut encoder = GzEncoder::new(out, Compression::default());
    let done = io::copy(&mut from, &mut encoder).and_then(|_| encoder.finish()?.sync_all());
    match done {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            fs::remove_file(&to)?;
            Err(error)
        }
    }
}

/// The time in the name of an old file of this log; `None` for other files.
fn time_of(path: &Path, name: &str) -> Option<Timestamp> {
    let (prefix, extension) = parts(path);
    let name = name.strip_suffix(GZIP).unwrap_or(name);
    let time = name.strip_prefix(&*prefix)?.strip_suffix(&*extension)?;
    if time.len() != TIME_BYTES || !time.is_ascii() {
        return None;
    }
    let (day, clock) = time.split_once('T')?;
    Timestamp::parse(&format!("{day}T{}Z", clock.replace('-', ":")))
}

/// A time as in the names of old files: to the millisecond, without colons.
fn written(time: Timestamp) -> String {
    time.to_micros()[..TIME_BYTES].replace(':', "-")
}

/// What stands before and after the time in the names of old files.
fn parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.rsplit_once('.') {
        Some((stem, extension)) => (format!("{stem}-"), format!(".{extension}")),
        None => (format!("{name}-"), String::new()),
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
