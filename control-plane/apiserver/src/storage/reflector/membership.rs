//! Collections that join the reflector, and such that leave it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use machinery::status::Status;

use super::{PROGRESS_EVERY_MAX, Reflector};
use crate::resources::catalogue::{Catalogue, Resource, Storage, StorageId};
use crate::storage::cache::Cache;

/// The collections whose changes are kept, each with its cache.
#[derive(Default, Clone)]
pub(super) struct Followed {
    pub(super) caches: HashMap<StorageId, Arc<Cache>>,
    /// By prefix. No prefix begins with another, but a collection that joins may have that of one
    /// that is about to leave.
    by_prefix: BTreeMap<Arc<str>, Vec<Arc<Storage>>>,
}

/// Follows the collections of a catalogue alone when it is dropped: those of the new one, or, if
/// the change failed or was given up, those from before it.
struct Settle<'a> {
    reflector: &'a Reflector,
    catalogue: Arc<Catalogue>,
}

impl Drop for Settle<'_> {
    fn drop(&mut self) {
        self.reflector.follow_only(&self.catalogue);
    }
}

impl Reflector {
    /// Serves these custom resources in the place of those that `leaves` chooses. It returns when
    /// they are served, or with nothing changed. A collection that joins and is served already keeps
    /// its cache and its watches.
    pub(crate) async fn replace(
        &self,
        leaves: impl Fn(&Resource) -> bool,
        joining: Vec<Arc<Resource>>,
    ) -> Result<(), Status> {
        let _changing = self.changing.lock().await;
        let mut settle = Settle {
            reflector: self,
            catalogue: self.catalogue(),
        };
        let all = settle.catalogue.resources().iter();
        let stay: Vec<_> = all.filter(|one| !leaves(one)).cloned().collect();
        let mut joins = storages(&joining);
        joins.retain(|storage| self.cache(storage).is_err());
        self.fill(&joins).await?;
        settle.catalogue = Arc::new(Catalogue::new(stay.into_iter().chain(joining)));
        self.state.write().catalogue = Arc::clone(&settle.catalogue);
        Ok(())
    }

    /// Follows new collections besides the others and fills their caches.
    async fn fill(&self, joining: &[Arc<Storage>]) -> Result<(), Status> {
        let mut reached = 0;
        {
            let _loading = self.loading.lock().await;
            {
                let mut state = self.state.write();
                state.followed = Arc::new(state.followed.with(joining));
            }
            // From here on their caches get all changes. What was on its way before is in the
            // store by now, and so in the list.
            for storage in joining {
                let own = Followed::default().with([storage]);
                let (mut found, revision) = self.read(&storage.prefix, &own, 0).await?;
                let content = found.remove(&storage.id).unwrap_or_default();
                self.cache(storage)?.reset(content, revision);
                reached = reached.max(revision);
            }
        }
        // What is shown afterwards must not be newer than what the reflector says it is.
        let mut revision = self.revision.subscribe();
        loop {
            let wait = revision.wait_for(|revision| *revision >= reached);
            if tokio::time::timeout(PROGRESS_EVERY_MAX, wait).await.is_ok() {
                return Ok(());
            }
            self.progress_wanted.notify_one();
        }
    }

    /// Follows the collections of a catalogue alone; watchers of others are told that they ended.
    fn follow_only(&self, catalogue: &Catalogue) {
        let mut state = self.state.write();
        let (followed, left) = state.followed.only(catalogue);
        state.followed = Arc::new(followed);
        for cache in left {
            cache.close();
        }
    }
}

impl Followed {
    /// These collections and those.
    pub(super) fn with<'a>(&self, more: impl IntoIterator<Item = &'a Arc<Storage>>) -> Followed {
        let mut followed = self.clone();
        for storage in more {
            let cache = || Arc::new(Cache::new(Arc::clone(&storage.prefix)));
            followed.caches.entry(storage.id).or_insert_with(cache);
            let prefix = Arc::clone(&storage.prefix);
            let of_prefix = followed.by_prefix.entry(prefix).or_default();
            of_prefix.push(Arc::clone(storage));
        }
        followed
    }

    /// Every collection.
    pub(super) fn storages(&self) -> impl Iterator<Item = &Arc<Storage>> {
        self.by_prefix.values().flatten()
    }

    /// The collections that a key belongs to.
    pub(super) fn of_key(&self, key: &str) -> &[Arc<Storage>] {
        // No prefix begins with another, so the one that sorts last before the key is the only one.
        let until = (Bound::Unbounded, Bound::Included(key));
        match self.by_prefix.range::<str, _>(until).next_back() {
            Some((prefix, storages)) if key.starts_with(&**prefix) => storages,
            _ => &[],
        }
    }

    /// Those of these collections that a catalogue has, and the caches of the others.
    fn only(&self, catalogue: &Catalogue) -> (Followed, Vec<Arc<Cache>>) {
        let mut left = self.caches.clone();
        let mut followed = Followed::default();
        for storage in catalogue.storages() {
            if let Some(cache) = left.remove(&storage.id) {
                followed.caches.insert(storage.id, cache);
            }
        }
        (
            followed.with(catalogue.storages()),
            left.into_values().collect(),
        )
    }
}

/// The collections of some resources, each once.
fn storages(resources: &[Arc<Resource>]) -> Vec<Arc<Storage>> {
    let all = resources.iter().filter_map(|one| one.storage.clone());
    let all: HashMap<StorageId, Arc<Storage>> = all.map(|one| (one.id, one)).collect();
    all.into_values().collect()
}
