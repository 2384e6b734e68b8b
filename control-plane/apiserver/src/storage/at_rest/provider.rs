//! The providers of a resource: the first one seals, any of them opens.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::SEALED;
use super::cipher::Cipher;
use super::metrics::{self, FROM_STORAGE, TO_STORAGE};

/// A future result; the error says why.
pub(super) type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// One provider of the configuration.
pub(super) enum Provider {
    /// Leaves values in the clear.
    Identity,
    /// Seals them.
    Sealing(Arc<dyn Sealer>),
}

/// Seals values behind a prefix of its own.
pub(super) trait Sealer: Send + Sync {
    /// What its values begin with.
    fn prefix(&self) -> &str;

    /// Seals the value of a key of the store; the prefix is not part of the result.
    fn seal<'a>(&'a self, key: &'a str, value: &'a [u8]) -> Work<'a, Vec<u8>>;

    /// Opens what is behind the prefix. Also returns whether it would be sealed otherwise now.
    fn open<'a>(&'a self, key: &'a str, sealed: &'a [u8]) -> Work<'a, (Vec<u8>, bool)>;
}

/// The providers of a resource in the order of the configuration.
#[derive(Default)]
pub(super) struct Providers(Vec<Arc<Provider>>);

impl Providers {
    /// Adds the providers of another entry that names the same resource.
    pub(super) fn add(&mut self, more: &[Arc<Provider>]) {
        self.0.extend(more.iter().cloned());
    }

    /// Seals with the first provider.
    pub(super) async fn seal(
        &self,
        resource: &str,
        key: &str,
        value: Vec<u8>,
    ) -> Result<Vec<u8>, String> {
        let begin = Instant::now();
        let done = |prefix: &str, is_good| {
            metrics::done(resource, TO_STORAGE, prefix, is_good, begin.elapsed());
        };
        match self.0.first().map(|first| &**first) {
            None => Err("no provider is configured".to_owned()),
            Some(Provider::Identity) => {
                done("", true);
                Ok(value)
            }
            Some(Provider::Sealing(sealer)) => {
                let sealed = sealer.seal(key, &value).await;
                done(sealer.prefix(), sealed.is_ok());
                Ok([sealer.prefix().as_bytes(), &sealed?].concat())
            }
        }
    }

    /// Opens with the first provider that can. Also returns whether a write would seal otherwise.
    /// Two providers may share a prefix while secrets change, so a failure is not the last word.
    pub(super) async fn open(
        &self,
        resource: &str,
        key: &str,
        value: &Bytes,
    ) -> Result<(Bytes, bool), String> {
        let begin = Instant::now();
        let done = |prefix: &str, is_good| {
            metrics::done(resource, FROM_STORAGE, prefix, is_good, begin.elapsed());
        };
        let mut failures: Vec<String> = Vec::new();
        for (at, provider) in self.0.iter().enumerate() {
            match &**provider {
                Provider::Identity if value.starts_with(SEALED) => {}
                Provider::Identity => {
                    done("identity", true);
                    return Ok((value.clone(), at != 0));
                }
                Provider::Sealing(sealer) => {
                    let Some(sealed) = value.strip_prefix(sealer.prefix().as_bytes()) else {
                        continue;
                    };
                    let opened = sealer.open(key, sealed).await;
                    done(sealer.prefix(), opened.is_ok());
                    match opened {
                        Ok((opened, stale)) => return Ok((opened.into(), stale || at != 0)),
                        Err(why) if failures.contains(&why) => {}
                        Err(why) => failures.push(why),
                    }
                }
            }
        }
        Err(together(failures).unwrap_or_else(|| {
            done("unknown", false);
            "no matching prefix found".to_owned()
        }))
    }
}

/// A provider with a list of named keys.
pub(super) struct Keys {
    pub(super) prefix: &'static str,
    /// What the provider is called in errors.
    pub(super) what: &'static str,
    /// The name of each key with a colon behind it.
    pub(super) keys: Vec<(String, Cipher)>,
}

impl Sealer for Keys {
    fn prefix(&self) -> &str {
        self.prefix
    }

    fn seal<'a>(&'a self, key: &'a str, value: &'a [u8]) -> Work<'a, Vec<u8>> {
        let sealed = match self.keys.first() {
            Some((name, cipher)) => cipher
                .seal(key, value)
                .map(|sealed| [name.as_bytes(), &sealed].concat()),
            None => Err(format!("the {} provider has no key", self.what)),
        };
        Box::pin(std::future::ready(sealed))
    }

    fn open<'a>(&'a self, key: &'a str, sealed: &'a [u8]) -> Work<'a, (Vec<u8>, bool)> {
        Box::pin(std::future::ready(self.open_now(key, sealed)))
    }
}

impl Keys {
    fn open_now(&self, key: &str, sealed: &[u8]) -> Result<(Vec<u8>, bool), String> {
        let mut failures = Vec::new();
        for (at, (name, cipher)) in self.keys.iter().enumerate() {
            let Some(sealed) = sealed.strip_prefix(name.as_bytes()) else {
                continue;
            };
            match cipher.open(key, sealed) {
                Ok(opened) => return Ok((opened, at != 0)),
                Err(why) => failures.push(why),
            }
        }
        let none = || {
            format!(
                "no matching key was found for the provided {} transformer",
                self.what
            )
        };
        Err(together(failures).unwrap_or_else(none))
    }
}

fn together(failures: Vec<String>) -> Option<String> {
    match failures.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
