//! Where the keys of encryption at rest come from: a file, or a command that prints what would be
//! in one. A command is how a key management service stands behind them. What a key file looks like
//! stands in `storage::seal`'s documentation and in `--help`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use storage::seal::{KeyFile, Seal};

/// A key file of `KEYS_MAX` keys with a comment to each is far below.
const TEXT_BYTES_MAX: usize = 64 << 10;

const FILE_INTERVAL: Duration = Duration::from_secs(2);
const COMMAND_INTERVAL: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    /// Given to `sh -c`.
    Command(String),
}

/// What came of looking for changed keys.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    Same,
    /// New writes are sealed otherwise from now on.
    Changed,
    /// They cannot be used, and nothing has changed.
    Refused(String),
}

/// Looks at the source again and again for its running server.
#[derive(Debug)]
pub struct Follower {
    source: KeySource,
    seal: Arc<Seal>,
    last: Option<Result<KeyFile, String>>,
}

impl Follower {
    pub fn new(source: KeySource, seal: Arc<Seal>) -> Follower {
        Follower {
            source,
            seal,
            last: None,
        }
    }

    /// Between two looks. A file is cheap to read, a command may be somebody's service.
    pub fn interval(&self) -> Duration {
        match self.source {
            KeySource::File(_) => FILE_INTERVAL,
            KeySource::Command(_) => COMMAND_INTERVAL,
        }
    }

    /// Blocks for the source and the disk. What was refused once is told once.
    pub fn look(&mut self) -> Look {
        let found = self.source.read();
        if self.last.as_ref() == Some(&found) {
            return Look::Same;
        }
        let look = match &found {
            Err(error) => Look::Refused(error.clone()),
            Ok(keys) => match self.seal.change(keys) {
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
    /// Reads the keys as they are now. Blocks for as long as the command runs.
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

/// What it prints; its complaints go where ours go.
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
