//! The source of the keys for encryption at rest: a file, or a command that prints such a file, for
//! example from a key management service. The format is described in `storage::encryption` and in
//! `--help`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use storage::encryption::{DataKeys, KeyFile};

/// Far above the size of a file with `KEYS_MAX` keys and a comment for each.
const TEXT_BYTES_MAX: usize = 64 << 10;

const FILE_INTERVAL: Duration = Duration::from_secs(2);
const COMMAND_INTERVAL: Duration = Duration::from_secs(300);
/// Keys that were refused are tried again after this time, or at the next check if that is later:
/// what refused them may have been the disk.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    /// Run by `sh -c`.
    Command(String),
}

/// The result of checking for changed keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyChange {
    Same,
    /// New writes use the new keys from now on.
    Changed,
    /// The new keys cannot be used; nothing has changed.
    Refused(String),
}

/// Checks the source repeatedly while the server runs.
#[derive(Debug)]
pub(crate) struct Follower {
    source: KeySource,
    data_keys: Arc<DataKeys>,
    last: Option<Result<KeyFile, String>>,
    /// Why `last` was refused.
    refusal: Option<String>,
    /// Checks since `last` was tried.
    checks: u32,
}

impl Follower {
    pub(crate) fn new(source: KeySource, data_keys: Arc<DataKeys>) -> Follower {
        Follower {
            source,
            data_keys,
            last: None,
            refusal: None,
            checks: 0,
        }
    }

    /// Time between two checks. Reading a file is cheap; a command may call a service.
    pub(crate) fn interval(&self) -> Duration {
        match self.source {
            KeySource::File(_) => FILE_INTERVAL,
            KeySource::Command(_) => COMMAND_INTERVAL,
        }
    }

    /// Blocks on the source and the disk. The same refusal is reported once.
    pub(crate) fn look(&mut self) -> KeyChange {
        let found = self.source.read();
        if self.last.as_ref() == Some(&found) && !self.retries() {
            return KeyChange::Same;
        }
        let changed = found.as_ref().map_err(Clone::clone);
        let changed = changed.and_then(|keys| {
            self.data_keys
                .change(keys)
                .map_err(|error| error.to_string())
        });
        self.last = Some(found);
        self.checks = 0;
        match changed {
            Ok(is_other) => {
                self.refusal = None;
                if is_other {
                    KeyChange::Changed
                } else {
                    KeyChange::Same
                }
            }
            Err(why) if self.refusal.as_ref() == Some(&why) => KeyChange::Same,
            Err(why) => {
                self.refusal = Some(why.clone());
                KeyChange::Refused(why)
            }
        }
    }

    /// True if the same keys as before are tried again.
    fn retries(&mut self) -> bool {
        self.checks = self.checks.saturating_add(1);
        self.refusal.is_some() && self.interval() * self.checks >= RETRY_PAUSE
    }
}

impl KeySource {
    /// Reads the current keys. Blocks while the command runs.
    pub fn read(&self) -> Result<KeyFile, String> {
        let (name, text) = match self {
            KeySource::File(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("--encryption-key-file: {name}: {error}"))?;
                (name, text)
            }
            KeySource::Command(command) => {
                let name = "--encryption-key-command".to_owned();
                let text = run(command).map_err(|error| format!("{name}: {error}"))?;
                (name, text)
            }
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("{name}: longer than any key file"));
        }
        KeyFile::take(&name, text)
    }
}

/// The command's standard output; its standard error is ours.
fn run(command: &str) -> Result<String, String> {
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("ended with {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| "printed what is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use storage::vfs::Vfs;
    use storage::vfs::sim::SimVfs;

    use super::*;

    #[test]
    fn a_command_prints_keys_and_its_failure_is_told() {
        let key = "5a".repeat(32);
        let keys = KeySource::Command(format!("echo 3 {key}")).read().unwrap();
        let same = KeyFile::parse("--encryption-key-command", &format!("3 {key}")).unwrap();
        assert_eq!(keys, same);
        let error = KeySource::Command("exit 3".into()).read().unwrap_err();
        assert!(
            error.starts_with("--encryption-key-command: ended with"),
            "{error}"
        );
        let error = KeySource::File("/nowhere/keys".into()).read().unwrap_err();
        assert!(
            error.starts_with("--encryption-key-file: /nowhere/keys: "),
            "{error}"
        );
    }

    #[test]
    fn keys_that_the_disk_refused_are_tried_again() {
        let sim = SimVfs::new(7);
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        let line = |id: u32| format!("{id} {}\n", format!("{id:02x}").repeat(32));
        let first = KeyFile::parse("keys", &line(1)).unwrap();
        let data_keys = DataKeys::open(vfs, Path::new("/keys"), Some(&first), true);
        let data_keys = data_keys.unwrap().unwrap();
        let both = format!("printf '{}{}'", line(2), line(1));
        let mut follower = Follower::new(KeySource::Command(both), Arc::clone(&data_keys));

        sim.set_capacity(0);
        assert!(matches!(follower.look(), KeyChange::Refused(_)));
        for _ in 0..3 {
            assert_eq!(follower.look(), KeyChange::Same, "it is told once");
        }
        assert_eq!(data_keys.active(), 1);
        sim.set_capacity(u64::MAX);
        assert_eq!(follower.look(), KeyChange::Changed);
        assert_eq!(data_keys.active(), 2);
    }
}
