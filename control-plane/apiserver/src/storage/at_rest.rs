//! Encryption of the store's values by an `EncryptionConfiguration`, in the formats of Kubernetes.
//!
//! Values are sealed and opened in [`super::store::Store`] and nowhere else: its writes take plain
//! values, and its reads return [`super::store::Raw`] values that only `Store::open` can look into.
//! So no path of the server can store a value in the clear that the configuration wants sealed.
//!
//! - `config` reads and validates the file;
//! - `rules` finds the providers of a resource;
//! - `provider` seals and opens values with a list of named keys;
//! - `cipher` is one key;
//! - `kms` seals and opens values with keys that a plugin encrypts.

mod cipher;
mod config;
mod kms;
pub(crate) mod metrics;
mod provider;
mod rules;
mod signals;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{self, SHA256};
use bytes::Bytes;
use machinery::schema::Kind;
use machinery::status::Status;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::basics::reloads;
use rules::Rules;
use signals::Signals;

/// What all sealed values begin with.
const SEALED: &[u8] = b"k8s:enc:";
/// How often a file that may change is read.
const READ_EVERY: Duration = Duration::from_secs(2);

/// Seals the values of the store, and opens them.
#[derive(Default)]
pub struct AtRest {
    rules: RwLock<Arc<Rules>>,
    signals: Arc<Signals>,
    /// The file that is read again, if one is.
    file: Option<Changing>,
}

/// A file that is read again when it changes.
struct Changing {
    path: PathBuf,
    /// Digest of the content that is in use, rather than its secrets.
    seen: RwLock<Vec<u8>>,
}

/// How a value was sealed, as of the rules that opened it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sealing {
    /// Of the rules that opened it.
    pub(crate) generation: u64,
    /// It would be sealed otherwise now: the next write replaces it, even one that changes nothing.
    pub(crate) stale: bool,
}

/// A value of the store, opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) value: Bytes,
    pub(crate) sealing: Sealing,
}

impl AtRest {
    /// Reads a configuration file. With `reload`, [`AtRest::follow`] reads it again.
    pub async fn read(path: &Path, reload: bool) -> Result<AtRest, String> {
        let text = read(path)?;
        reloads::ENCRYPTION.uses(&text);
        let at_rest = AtRest {
            file: reload.then(|| Changing {
                path: path.to_owned(),
                seen: RwLock::new(digest_of(&text)),
            }),
            ..AtRest::default()
        };
        let rules = parse(path, &text, &at_rest.signals).await?;
        *at_rest.rules.write() = Arc::new(rules);
        Ok(at_rest)
    }

    /// Reads the file again whenever it changed, for ever. While it cannot be used, the log says
    /// why, and the old one holds.
    pub(crate) async fn follow(&self) {
        let Some(file) = &self.file else { return };
        let mut told = String::new();
        loop {
            tokio::time::sleep(READ_EVERY).await;
            match self.read_again(file).await {
                Ok(newer) => {
                    told.clear();
                    if let Some(text) = newer {
                        reloads::ENCRYPTION.succeeded(&text);
                        let path = file.path.display();
                        tracing::info!(%path, "the encryption configuration was read again");
                    }
                }
                Err(why) if why == told => {}
                Err(why) => {
                    reloads::ENCRYPTION.failed();
                    tracing::error!(
                        why,
                        "the encryption configuration cannot be used: the old one holds"
                    );
                    told = why;
                }
            }
        }
    }

    /// Takes the file if it changed; returns its text then.
    async fn read_again(&self, file: &Changing) -> Result<Option<String>, String> {
        let text = read(&file.path)?;
        let digest = digest_of(&text);
        if *file.seen.read() == digest {
            return Ok(None);
        }
        let rules = parse(&file.path, &text, &self.signals).await?;
        // With a plugin that fails, writes would fail from here on.
        rules.plugins().iter().try_for_each(|one| one.health())?;
        *self.rules.write() = Arc::new(rules);
        *file.seen.write() = digest;
        // After the rules: what is opened meanwhile looks older than it is, never newer.
        self.signals.changed();
        Ok(Some(text))
    }

    /// True if the configuration is read again when its file changes.
    pub(crate) fn is_read_again(&self) -> bool {
        self.file.is_some()
    }

    /// The state of each KMS plugin.
    pub(crate) fn plugins_health(&self) -> Vec<Result<(), String>> {
        let rules = Arc::clone(&self.rules.read());
        let plugins = rules.plugins().iter();
        plugins.map(|plugin| plugin.health()).collect()
    }

    /// The generation of the rules and of the plugins' keys.
    pub(crate) fn generation(&self) -> u64 {
        self.signals.generation()
    }

    /// Changes whenever values that could not be opened may be readable.
    pub(crate) fn retries(&self) -> watch::Receiver<u64> {
        self.signals.retries()
    }

    /// Seals a new value of a key with the first provider of its kind.
    pub(crate) async fn seal(
        &self,
        kind: &Kind,
        key: &str,
        value: Vec<u8>,
    ) -> Result<Vec<u8>, Status> {
        let rules = Arc::clone(&self.rules.read());
        let Some(providers) = rules.of(kind.group(), kind.plural()) else {
            return Ok(value);
        };
        let sealed = providers.seal(&resource(kind), key, value).await;
        sealed.map_err(|why| Status::internal(&format!("unable to encrypt key {key:?}: {why}")))
    }

    /// Opens a value that the store has.
    pub(crate) async fn open(
        &self,
        kind: &Kind,
        key: &str,
        value: &Bytes,
    ) -> Result<Opened, Status> {
        // Taken before the rules: a change in between only makes the value look older than it is.
        let generation = self.generation();
        let rules = Arc::clone(&self.rules.read());
        let opened = match rules.of(kind.group(), kind.plural()) {
            Some(providers) => providers.open(&resource(kind), key, value).await,
            None if is_sealed(value) => {
                Err("identity transformer tried to read encrypted data".to_owned())
            }
            None => Ok((value.clone(), false)),
        };
        let (value, stale) = opened.map_err(|why| {
            let mut text = format!("unable to transform key {key:?}: {why}");
            if let Some(label) = label(value) {
                text.push_str(&format!(
                    " (the value is sealed as {label:?}: the encryption configuration must keep \
                     that provider and key until all values are written again)"
                ));
            }
            Status::internal(&text)
        })?;
        let sealing = Sealing { generation, stale };
        Ok(Opened { value, sealing })
    }
}

/// True if a value of the store is sealed: to open it, somebody may have to be asked.
pub(crate) fn is_sealed(value: &[u8]) -> bool {
    value.starts_with(SEALED)
}

/// The resource of a kind as Kubernetes writes it.
fn resource(kind: &Kind) -> String {
    match kind.group() {
        "" => kind.plural().to_owned(),
        group => format!("{}.{group}", kind.plural()),
    }
}

fn read(path: &Path) -> Result<String, String> {
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!("error reading encryption provider configuration file \"{place}\": {error}")
    })?;
    if text.is_empty() {
        return Err(format!(
            "encryption provider configuration file \"{place}\" is empty"
        ));
    }
    Ok(text)
}

async fn parse(path: &Path, text: &str, signals: &Arc<Signals>) -> Result<Rules, String> {
    let at = |why| {
        let place = path.display();
        format!("encryption provider configuration file \"{place}\": {why}")
    };
    let entries = config::parse(text).map_err(at)?;
    Rules::new(entries, signals).await.map_err(at)
}

fn digest_of(text: &str) -> Vec<u8> {
    digest::digest(&SHA256, text.as_bytes()).as_ref().to_vec()
}

/// The provider and key that a sealed value names, such as `k8s:enc:aescbc:v1:key1:`.
fn label(value: &[u8]) -> Option<String> {
    if !is_sealed(value) {
        return None;
    }
    let colons = value.iter().enumerate().filter(|(_, byte)| **byte == b':');
    let (end, _) = colons.take(5).last()?;
    Some(String::from_utf8_lossy(&value[..=end]).into_owned())
}
