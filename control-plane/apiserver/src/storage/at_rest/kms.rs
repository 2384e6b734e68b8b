//! A KMS provider: values are sealed with keys from a seed that a plugin encrypts. The plugin is
//! asked once for each seed, not for each value.
//!
//! The provider polls the plugin's status. When the plugin encrypts with another key, a new seed
//! takes the place of the old one, and values of the old one are stale. While the plugin fails, the
//! seed goes on for [`Intervals::write_for`]; then writes fail, so that a key that was taken back is not
//! used for ever. What was opened once is read without the plugin.

mod contract;
mod envelope;
mod seed;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use prost::Message as _;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::cipher::random;
use super::provider::{Sealer, Work};
use super::signals::Signals;
use super::{config, metrics};
use contract::{Plugin, StatusResponse};
use envelope::Envelope;
use seed::{SEED_BYTES, Source};

/// Seeds in memory: one for each start of a server and each key of the plugin, until all values are
/// written again.
const SOURCES_MAX: usize = 10_000;
/// Seeds that the plugin is asked for at the same time. One that hangs lets each of them wait.
const DECRYPTING_MAX: usize = 8;
/// How long a seed that the plugin did not decrypt is not asked for again.
const FAILED_FOR: Duration = Duration::from_secs(3);
/// The same while its status fails, too. A plugin that hangs holds whoever asks, and all caches wait
/// for one that follows changes. Once the status is good, all seeds are asked for again.
const UNHEALTHY_FOR: Duration = Duration::from_secs(60);

/// The intervals of a provider.
#[derive(Clone, Copy)]
pub(super) struct Intervals {
    /// Between two requests for the status while the plugin is healthy, and while it is not.
    pub(super) healthy: Duration,
    pub(super) failing: Duration,
    /// How long a seed is used for writes after the last success.
    pub(super) write_for: Duration,
}

impl Intervals {
    /// Kubernetes' intervals while its health is probed.
    pub(super) const NORMAL: Intervals = Intervals {
        healthy: Duration::from_secs(20),
        failing: Duration::from_secs(3),
        write_for: Duration::from_secs(180),
    };
}

/// A provider; polling ends when it is dropped.
pub(super) struct Kms {
    inner: Arc<Inner>,
    polling: AbortHandle,
}

struct Inner {
    name: String,
    prefix: String,
    plugin: Plugin,
    intervals: Intervals,
    /// What seals; `None` before the plugin was healthy.
    current: RwLock<Option<Current>>,
    /// The sources of values, by their encrypted form.
    sources: Mutex<HashMap<Vec<u8>, Known>>,
    /// One of them is held while the plugin decrypts, so that readers of one seed ask once.
    decrypting: [tokio::sync::Mutex<()>; DECRYPTING_MAX],
    health: RwLock<Result<(), String>>,
    /// A value could not be opened since the last success.
    has_failed: AtomicBool,
    signals: Arc<Signals>,
}

/// The seed that seals.
#[derive(Clone)]
struct Current {
    source: Arc<Source>,
    /// Its encrypted form, without data.
    envelope: Envelope,
    until: Instant,
}

enum Known {
    Opened(Arc<Source>),
    Failed { why: String, until: Instant },
}

impl Kms {
    /// Asks the plugin for its status, and from then on polls it. A plugin that is not there yet is
    /// no error: it may start later.
    pub(super) async fn start(
        config: &config::Kms,
        intervals: Intervals,
        signals: Arc<Signals>,
    ) -> Kms {
        let inner = Arc::new(Inner {
            prefix: format!("k8s:enc:kms:v2:{}:", config.name),
            name: config.name.clone(),
            plugin: Plugin::at(&config.name, &config.socket, config.timeout),
            intervals,
            current: RwLock::new(None),
            sources: Mutex::default(),
            decrypting: Default::default(),
            health: RwLock::new(Ok(())),
            has_failed: AtomicBool::new(false),
            signals,
        });
        inner.check().await;
        let polling = tokio::spawn(Arc::clone(&inner).poll()).abort_handle();
        Kms { inner, polling }
    }

    /// Why the plugin is not healthy, as of the last poll.
    pub(super) fn health(&self) -> Result<(), String> {
        self.inner.health.read().clone()
    }
}

impl Drop for Kms {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

impl Sealer for Kms {
    fn prefix(&self) -> &str {
        &self.inner.prefix
    }

    fn seal<'a>(&'a self, key: &'a str, value: &'a [u8]) -> Work<'a, Vec<u8>> {
        Box::pin(std::future::ready(self.inner.seal(key, value)))
    }

    fn open<'a>(&'a self, key: &'a str, sealed: &'a [u8]) -> Work<'a, (Vec<u8>, bool)> {
        Box::pin(self.inner.open(key, sealed))
    }
}

impl Inner {
    fn seal(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, String> {
        let unusable = |what: &str| {
            let why = self.health.read().clone().err().unwrap_or_default();
            format!("KMS provider {} has {what}: {why}", self.name)
        };
        let current = self.current.read().clone();
        let current = current.ok_or_else(|| unusable("no key yet"))?;
        if Instant::now() > current.until {
            return Err(unusable("a key that expired while its plugin failed"));
        }
        let envelope = Envelope {
            data: current.source.seal(key, value)?,
            ..current.envelope
        };
        metrics::key_used(metrics::TO_STORAGE, &self.name, &envelope.key_id);
        Ok(envelope.encode_to_vec())
    }

    /// Opens a value; also returns whether it is stale.
    async fn open(&self, key: &str, sealed: &[u8]) -> Result<(Vec<u8>, bool), String> {
        let mut envelope = Envelope::read(sealed)?;
        let data = std::mem::take(&mut envelope.data);
        let stale = self.current.read().as_ref().is_some_and(|current| {
            let now = &current.envelope;
            (&envelope.key_id, envelope.source_type) != (&now.key_id, now.source_type)
        });
        let key_id = envelope.key_id.clone();
        let source = self.source(envelope).await;
        let source = source.inspect_err(|_| self.has_failed.store(true, Ordering::Release))?;
        metrics::key_used(metrics::FROM_STORAGE, &self.name, &key_id);
        Ok((source.open(key, &data)?, stale))
    }

    /// The source of a value's key, decrypted.
    async fn source(&self, envelope: Envelope) -> Result<Arc<Source>, String> {
        let id = envelope.encode_to_vec();
        if let Some(known) = self.known(&id) {
            return known;
        }
        let _decrypting = self.turn(&id).lock().await;
        // The one before may have asked for the same.
        if let Some(known) = self.known(&id) {
            return known;
        }
        let Envelope {
            source,
            key_id,
            annotations,
            source_type,
            ..
        } = envelope;
        let decrypted = self.plugin.decrypt(source, key_id, annotations).await;
        let source = decrypted
            .map_err(|why| format!("failed to decrypt DEK, error: {why}"))
            .and_then(|decrypted| match source_type {
                envelope::SEED => Source::seed(&decrypted),
                _ => Source::key(&decrypted),
            })
            .map(Arc::new);
        let known = match &source {
            Ok(source) => Known::Opened(Arc::clone(source)),
            Err(why) => Known::Failed {
                why: why.clone(),
                until: Instant::now() + self.pause(),
            },
        };
        self.keep(id, known);
        source
    }

    /// What readers of one seed wait for. Few other seeds have the same.
    fn turn(&self, id: &[u8]) -> &tokio::sync::Mutex<()> {
        let mut hasher = DefaultHasher::new();
        hasher.write(id);
        &self.decrypting[(hasher.finish() % DECRYPTING_MAX as u64) as usize]
    }

    fn known(&self, id: &[u8]) -> Option<Result<Arc<Source>, String>> {
        match self.sources.lock().get(id)? {
            Known::Opened(source) => Some(Ok(Arc::clone(source))),
            Known::Failed { why, until } if Instant::now() < *until => Some(Err(why.clone())),
            Known::Failed { .. } => None,
        }
    }

    /// How long a failure counts.
    fn pause(&self) -> Duration {
        match *self.health.read() {
            Ok(()) => FAILED_FOR,
            Err(_) => UNHEALTHY_FOR,
        }
    }

    fn keep(&self, id: Vec<u8>, known: Known) {
        let mut sources = self.sources.lock();
        if sources.len() >= SOURCES_MAX {
            // They are decrypted again when they are needed.
            sources.clear();
        }
        sources.insert(id, known);
        metrics::sources(&self.name, sources.len());
    }

    async fn poll(self: Arc<Inner>) {
        loop {
            let healthy = self.health.read().is_ok();
            let pause = if healthy {
                self.intervals.healthy
            } else {
                self.intervals.failing
            };
            tokio::time::sleep(pause).await;
            self.check().await;
        }
    }

    /// Asks for the status, and takes a new seed if the plugin has a new key.
    async fn check(&self) {
        let outcome = self.examine().await;
        let before = std::mem::replace(&mut *self.health.write(), outcome.clone());
        match (before, outcome) {
            (Ok(()), Err(why)) => tracing::error!(provider = self.name, why, "a KMS plugin fails"),
            (Err(_), Ok(())) => tracing::info!(provider = self.name, "a KMS plugin is healthy"),
            _ => {}
        }
        if self.health.read().is_ok() && self.has_failed.swap(false, Ordering::AcqRel) {
            // What could not be opened is tried again.
            let mut sources = self.sources.lock();
            sources.retain(|_, known| matches!(known, Known::Opened(_)));
            metrics::sources(&self.name, sources.len());
            drop(sources);
            self.signals.retry();
        }
    }

    async fn examine(&self) -> Result<(), String> {
        let name = &self.name;
        let status = self.plugin.status().await.map_err(|why| {
            format!(
                "failed to perform status section of the healthz check for KMS Provider {name}, \
                 error: {why}"
            )
        })?;
        let StatusResponse {
            version,
            healthz,
            key_id,
        } = status;
        let mut problems = Vec::new();
        if healthz != "ok" {
            problems.push(format!("got unexpected healthz status: {healthz}"));
        }
        if !["v2", "v2beta1"].contains(&version.as_str()) {
            problems.push(format!("expected KMSv2 API version v2, got {version}"));
        }
        match envelope::check_key_id(&key_id) {
            Ok(()) => {
                metrics::key_of_status(name, &key_id);
                problems.extend(self.rotate(&key_id).await.err());
            }
            Err(why) => {
                metrics::invalid_key_of_status(name, &key_id);
                problems.push(format!("got invalid KMSv2 KeyID: {why}"));
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        let problems = problems.join(", ");
        Err(format!(
            "kmsv2 Provider {name} is not healthy, error: {problems}"
        ))
    }

    /// Goes on with the current seed if its key is the plugin's, else takes a new one.
    async fn rotate(&self, key_id: &str) -> Result<(), String> {
        // Counted from before the request, as an upper bound.
        let until = Instant::now() + self.intervals.write_for;
        if let Some(current) = &mut *self.current.write()
            && current.envelope.key_id == key_id
        {
            current.until = until;
            return Ok(());
        }
        let seed: [u8; SEED_BYTES] = random()?;
        let encrypted = self.plugin.encrypt(seed.to_vec()).await;
        let encrypted = encrypted.map_err(|why| format!("failed to encrypt DEK, error: {why}"))?;
        if encrypted.key_id != key_id {
            return Err(
                "failed to rotate DEK: the plugin encrypts with another key than its status says"
                    .to_owned(),
            );
        }
        let envelope = Envelope {
            data: Vec::new(),
            key_id: encrypted.key_id,
            source: encrypted.ciphertext,
            annotations: encrypted.annotations,
            source_type: envelope::SEED,
        };
        envelope.check()?;
        let source = Arc::new(Source::seed(&seed)?);
        self.keep(envelope.encode_to_vec(), Known::Opened(Arc::clone(&source)));
        *self.current.write() = Some(Current {
            source,
            envelope,
            until,
        });
        tracing::info!(provider = self.name, "a KMS plugin has a new key");
        self.signals.changed();
        Ok(())
    }
}
