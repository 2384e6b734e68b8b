//! Rotates a log file when it is full, as etcd does with lumberjack: same file names, same limits
//! on the number and age of rotated files.

#![expect(
    clippy::disallowed_methods,
    reason = "logging is part of the shell: clock, threads, files"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crossbeam_channel::{Sender, bounded};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::config::Rotation;

/// Format of the time in a rotated file's name.
const STAMP: &str = "%Y-%m-%dT%H-%M-%S%.3f";
const COMPRESSED: &str = ".gz";

pub(super) struct Rotated {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    bytes: u64,
    /// Wakes the thread that compresses and removes rotated files.
    tidy: Sender<()>,
}

impl Rotated {
    /// Opens the file for appending.
    pub(super) fn open(path: &Path, rotation: Rotation) -> io::Result<Rotated> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        // One pending wake-up covers all rotations until it is received.
        let (tidy, woken) = bounded(1);
        let (base, rules) = (path.to_path_buf(), rotation.clone());
        std::thread::Builder::new()
            .name("log-rotation".into())
            .spawn(move || {
                for () in woken {
                    // A failure is retried at the next rotation.
                    let _ = tidy_up(&base, &rules, Timestamp::now());
                }
            })?;
        let rotated = Rotated {
            bytes: file.metadata()?.len(),
            path: path.to_path_buf(),
            rotation,
            file,
            tidy,
        };
        let _ = rotated.tidy.try_send(());
        Ok(rotated)
    }

    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let length = text.len() as u64;
        if self.bytes > 0 && self.bytes + length > self.rotation.file_bytes {
            self.rotate(Timestamp::now())?;
        }
        self.file.write_all(text)?;
        self.bytes += length;
        Ok(())
    }

    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        let mut time = now;
        // File names have milliseconds: use the next free name, so that no file is overwritten.
        while backup(&self.path, &self.rotation, time).exists() {
            time += SignedDuration::from_millis(1);
        }
        match fs::rename(&self.path, backup(&self.path, &self.rotation, time)) {
            // Somebody has removed it. Without a new one, no line would ever be written again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(dir) = self.path.parent() {
                    fs::create_dir_all(dir)?;
                }
            }
            renamed => renamed?,
        }
        let mut options = OpenOptions::new();
        self.file = options.create(true).append(true).open(&self.path)?;
        self.bytes = 0;
        let _ = self.tidy.try_send(());
        Ok(())
    }
}

fn zone(rotation: &Rotation) -> TimeZone {
    if rotation.local_time {
        TimeZone::system()
    } else {
        TimeZone::UTC
    }
}

/// `etcd.log` becomes `etcd-2026-11-21T01-20-00.121.log`.
fn backup(path: &Path, rotation: &Rotation, now: Timestamp) -> PathBuf {
    let (stem, extension) = parts(path);
    let time = Zoned::new(now, zone(rotation)).strftime(STAMP).to_string();
    path.with_file_name(format!("{stem}-{time}{extension}"))
}

/// File name without extension, and the extension with its dot.
fn parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.rfind('.') {
        Some(at) => (name[..at].to_owned(), name[at..].to_owned()),
        None => (name.into_owned(), String::new()),
    }
}

/// Removes rotated files beyond the limits of number and age, and compresses the others.
fn tidy_up(path: &Path, rotation: &Rotation, now: Timestamp) -> io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mut found: Vec<(Timestamp, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?.path();
        if let Some(time) = rotated_at(path, &entry, rotation) {
            found.push((time, entry));
        }
    }
    found.sort();
    found.reverse();
    for (place, (time, file)) in found.iter().enumerate() {
        let too_many = rotation.max_backups > 0 && place >= rotation.max_backups;
        let age = now.duration_since(*time);
        let too_old = rotation
            .max_age
            .is_some_and(|most| age > SignedDuration::try_from(most).unwrap_or_default());
        if too_many || too_old {
            fs::remove_file(file)?;
        } else if rotation.compress && !file.to_string_lossy().ends_with(COMPRESSED) {
            compress(file)?;
        }
    }
    Ok(())
}

/// The time at which `file` was rotated, if it is a rotated file of the log at `path`.
fn rotated_at(path: &Path, file: &Path, rotation: &Rotation) -> Option<Timestamp> {
    let (stem, extension) = parts(path);
    let name = file.file_name()?.to_str()?;
    let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
    let time = name.strip_prefix(&format!("{stem}-"))?;
    let time = time.strip_suffix(&extension)?;
    let time = DateTime::strptime(STAMP, time).ok()?;
    Some(zone(rotation).to_zoned(time).ok()?.timestamp())
}

/// Removes the original after the compressed file is complete. After a crash in between both exist,
/// and the next run compresses again.
fn compress(file: &Path) -> io::Result<()> {
    let mut target = file.as_os_str().to_owned();
    target.push(COMPRESSED);
    let made: SystemTime = fs::metadata(file)?.modified()?;
    let mut encoder = GzEncoder::new(File::create(&target)?, Compression::default());
    io::copy(&mut File::open(file)?, &mut encoder)?;
    let compressed = encoder.finish()?;
    compressed.set_modified(made)?;
    compressed.sync_all()?;
    fs::remove_file(file)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use flate2::read::GzDecoder;

    use super::*;

    const RULES: Rotation = Rotation {
        file_bytes: 10,
        max_age: None,
        max_backups: 0,
        local_time: false,
        compress: false,
    };

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_put_aside_under_lumberjacks_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub").join("etcd.log");
        let mut log = Rotated::open(&path, RULES).unwrap();
        log.write(b"12345678\n").unwrap();
        log.write(b"abc\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc\n");
        let found = names(path.parent().unwrap());
        let rotated = found.iter().find(|name| name.as_str() != "etcd.log");
        let rotated = path.with_file_name(rotated.unwrap());
        assert_eq!(fs::read(&rotated).unwrap(), b"12345678\n");
        assert!(rotated_at(&path, &rotated, &RULES).is_some());
        // After a restart the file is continued, and its size is counted.
        let mut log = Rotated::open(&path, RULES).unwrap();
        log.write(b"defgh\n").unwrap();
        log.write(b"i\n").unwrap();
        assert_eq!(names(path.parent().unwrap()).len(), 3);
    }

    #[test]
    fn a_file_that_was_removed_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub").join("etcd.log");
        let mut log = Rotated::open(&path, RULES).unwrap();
        log.write(b"12345678\n").unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        log.write(b"abc\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc\n");
        assert_eq!(names(path.parent().unwrap()), ["etcd.log"]);
    }

    #[test]
    fn rotated_files_are_bounded_in_number_and_age_and_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd.log");
        let now: Timestamp = "2026-11-21T01:20:00Z".parse().unwrap();
        for hours in [1, 2, 30, 50] {
            let time = now - Duration::from_secs(hours * 3600);
            fs::write(backup(&path, &RULES, time), b"old").unwrap();
        }
        fs::write(dir.path().join("etcd-other.log"), b"not ours").unwrap();
        let day = Some(Duration::from_secs(40 * 3600));
        let rules = Rotation {
            max_age: day,
            ..RULES
        };
        tidy_up(&path, &rules, now).unwrap();
        assert_eq!(
            names(dir.path()),
            [
                "etcd-2026-11-19T19-20-00.000.log",
                "etcd-2026-11-20T23-20-00.000.log",
                "etcd-2026-11-21T00-20-00.000.log",
                "etcd-other.log"
            ]
        );
        let rules = Rotation {
            max_backups: 2,
            compress: true,
            ..RULES
        };
        tidy_up(&path, &rules, now).unwrap();
        assert_eq!(
            names(dir.path()),
            [
                "etcd-2026-11-20T23-20-00.000.log.gz",
                "etcd-2026-11-21T00-20-00.000.log.gz",
                "etcd-other.log"
            ]
        );
        let file = dir.path().join("etcd-2026-11-21T00-20-00.000.log.gz");
        let mut text = String::new();
        let mut decoder = GzDecoder::new(File::open(file).unwrap());
        decoder.read_to_string(&mut text).unwrap();
        assert_eq!(text, "old");
    }
}
