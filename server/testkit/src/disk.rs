//! A disk that can be filled up: a tmpfs of a few megabytes in a mount namespace of a helper
//! process. Needs no privileges and leaves nothing behind.
#![expect(
    clippy::disallowed_methods,
    reason = "a test tool: fills a disk and empties it"
)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PIECE_BYTES: usize = 64 << 10;

/// Ends with its owner; a program that runs on it keeps it alive until then.
pub struct Disk {
    /// Holds the namespace: a `cat` that reads a pipe of this process.
    holder: Child,
    dir: PathBuf,
}

impl Disk {
    /// Mounts it at `dir`, which must exist. Only programs started with [`Disk::launcher`] see it.
    /// The error says why this machine does not allow it.
    pub fn new(dir: &Path, bytes: u64) -> Result<Disk, String> {
        let script = format!(
            "mount -t tmpfs -o size={bytes} none '{}' && echo ready && exec cat",
            dir.display()
        );
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut said = String::new();
        let stdout = holder.stdout.take().expect("stdout is piped");
        let _ = BufReader::new(stdout).read_line(&mut said);
        if said.trim() == "ready" {
            let dir = dir.to_path_buf();
            return Ok(Disk { holder, dir });
        }
        drop(holder.stdin.take());
        let output = holder.wait_with_output();
        let error = output.map(|output| String::from_utf8_lossy(&output.stderr).trim().to_owned());
        Err(format!(
            "no mount in a user namespace: {}",
            error.unwrap_or_default()
        ))
    }

    /// The words before a program that runs on this disk; the program keeps its process id.
    pub fn launcher(&self) -> Vec<String> {
        let target = self.holder.id().to_string();
        let words = [
            "nsenter",
            "--preserve-credentials",
            "-U",
            "-m",
            "-t",
            &target,
        ];
        words.map(str::to_owned).to_vec()
    }

    /// Writes until the disk is full. Returns the bytes written.
    pub fn fill(&self) -> std::io::Result<u64> {
        let mut ballast = File::create(self.ballast())?;
        let piece = vec![0xff; PIECE_BYTES];
        let mut written = 0;
        for length in [PIECE_BYTES, 512] {
            while ballast.write_all(&piece[..length]).is_ok() {
                written += length as u64;
            }
        }
        Ok(written)
    }

    pub fn empty(&self) -> std::io::Result<()> {
        fs::remove_file(self.ballast())
    }

    fn ballast(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.dir.strip_prefix("/").unwrap_or(&self.dir))
            .join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_nothing_until_it_is_emptied() {
        let place = tempfile::tempdir().unwrap();
        let disk = match Disk::new(place.path(), 1 << 20) {
            Ok(disk) => disk,
            Err(why) => {
                crate::skip("a disk that fills up", &why);
                return;
            }
        };
        let file = place.path().join("file");
        let write = || {
            let words = disk.launcher();
            let script = format!("head -c 8192 /dev/zero > '{}'", file.display());
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).args(["sh", "-c", &script]);
            command.stderr(Stdio::null()).status().unwrap().success()
        };
        assert!(disk.fill().unwrap() > 1 << 19);
        assert!(!write());
        disk.empty().unwrap();
        assert!(write());
        assert!(!file.exists(), "others do not see it");
    }
}
