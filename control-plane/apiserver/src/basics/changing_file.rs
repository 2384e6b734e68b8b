//! Configuration files that are read again whenever they change.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::reloads::Reloads;

/// The time between two looks at a file.
const READ_EVERY: Duration = Duration::from_secs(2);

/// Why a changed file is not used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// It never will be, as it is.
    Bad(String),
    /// It may be, later.
    NotYet(String),
}

/// Looks at a file until it is dropped.
pub(crate) struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Taken = Pin<Box<dyn Future<Output = Result<(), Changed>> + Send>>;

/// Calls `take` with the text of a file whenever it is another one. While a new one cannot be used,
/// the log says why, and the old one holds. `what` names the file in the log, `reloads` counts,
/// `text` is what it has now. It needs a tokio runtime.
pub(crate) fn watch(
    what: &'static str,
    reloads: &'static Reloads,
    path: PathBuf,
    text: String,
    take: impl FnMut(String) -> Taken + Send + 'static,
) -> Watch {
    reloads.uses(&text);
    Watch(tokio::spawn(follow(what, reloads, path, text, take)).abort_handle())
}

async fn follow(
    what: &'static str,
    reloads: &'static Reloads,
    path: PathBuf,
    mut seen: String,
    mut take: impl FnMut(String) -> Taken + Send + 'static,
) {
    let mut told = String::new();
    loop {
        tokio::time::sleep(READ_EVERY).await;
        let taken = match read(&path) {
            Ok(text) if text == seen => Ok(false),
            Ok(text) => match take(text.clone()).await {
                Ok(()) => {
                    reloads.succeeded(&text);
                    seen = text;
                    Ok(true)
                }
                Err(Changed::Bad(why)) => {
                    seen = text;
                    Err(why)
                }
                Err(Changed::NotYet(why)) => Err(why),
            },
            Err(why) => Err(why),
        };
        match taken {
            Ok(is_new) => {
                told.clear();
                if is_new {
                    tracing::info!(path = %path.display(), "the {what} was read again");
                }
            }
            Err(why) if why == told => {}
            Err(why) => {
                reloads.failed();
                tracing::error!(
                    why,
                    path = %path.display(),
                    "the {what} cannot be used: the old one holds"
                );
                told = why;
            }
        }
    }
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
