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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    /// Run by `sh -c`.
    Command(String),
}

/// The result of checking for changed keys.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    Same,
    /// New writes use the new keys from now on.
    Changed,
    /// The new keys cannot be used; nothing has changed.
    Refused(String),
}

/// Checks the source repeatedly while the server runs.
#[derive(Debug)]
pub struct Follower {
    source: KeySource,
    data_keys: Arc<DataKeys>,
    last: Option<Result<KeyFile, String>>,
}

impl Follower {
    pub fn new(source: KeySource, data_keys: Arc<DataKeys>) -> Follower {
        Follower {
            source,
            data_keys,
            last: None,
        }
    }

    /// Time between two checks. Reading a file is cheap; a command may call a service.
    pub fn interval(&self) -> Duration {
        match self.source {
            KeySource::File(_) => FILE_INTERVAL,
            KeySource::Command(_) => COMMAND_INTERVAL,
        }
    }

    /// Blocks on the source and the disk. The same refusal is reported once.
    pub fn look(&mut self) -> Look {
        let found = self.source.read();
        if self.last.as_ref() == Some(&found) {
            return Look::Same;
        }
        let look = match &found {
            Err(error) => Look::Refused(error.clone()),
            Ok(keys) => match self.data_keys.change(keys) {
                Ok(true) => Look::Changed,
                Ok(false) => Look::Same,
                Err(error) => Look::Refused(error.to_string()),
            },
        };
        self.last = Some(found);
        look
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
}
