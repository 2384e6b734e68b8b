//! Requests that read objects: one, a list, or a watch.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use machinery::object;
use machinery::status::Status;

use super::Call;
use crate::http::answer::list::{self, Listing};
use crate::http::answer::shown::{ListMeta, Shown};
use crate::http::answer::watch::Watching;
use crate::http::media::{Accept, Form};
use crate::http::question::request::Target;
use crate::registry::strategy;
use crate::storage::stored::Stored;
use crate::storage::views;

impl Call<'_> {
    pub(super) async fn get(&self) -> Result<Response<Body>, Status> {
        let Target {
            resource,
            namespace,
            name,
            ..
        } = self.target;
        let version = match list::version(self.query.text("resourceVersion")) {
            Ok(version) => version,
            // Kinds without a cache are read from the store, which says it in other words.
            Err(error)
                if resource
                    .storage
                    .as_ref()
                    .is_some_and(|one| strategy::expires(one)) =>
            {
                let why = format!("invalid resource version: {}", error.message);
                return Err(Status::bad_request(why));
            }
            Err(error) => return Err(Status::new(500, "", error.message)),
        };
        // The store is up to date, but the requested revision may be in the future.
        if let Some(version) =
            version.filter(|version| *version > self.api.reader().reflector.revision())
        {
            self.api.reader().reflector.reach(version).await?;
        }
        // Any state is allowed: use the cache's.
        if version == Some(0)
            && let Some(storage) = &resource.storage
        {
            let cache = self.api.reader().reflector.cache_if_followed(storage);
            let key = storage.key(namespace, name);
            if let Some(stored) = cache.and_then(|cache| cache.get(&key)) {
                return self.show_stored(&stored).await;
            }
        }
        let stored = self
            .api
            .0
            .registry
            .reader
            .read(resource, namespace, name)
            .await?;
        self.show_stored(&stored).await
    }

    pub(super) async fn list(&self) -> Result<Response<Body>, Status> {
        let Target {
            resource,
            namespace,
            ..
        } = self.target;
        let listing = Listing::read(resource, namespace, self.query)?;
        let listing = listing.shown_as(&self.shown_list()?);
        let (entries, meta) = listing.run(self.api.reader(), resource).await?;
        self.show_list(entries, &meta).await
    }

    fn shown_list(&self) -> Result<Shown, Status> {
        Ok(Shown {
            accept: Accept::negotiate_list(&self.target.resource, self.headers)?,
            ..self.shown()?
        })
    }

    pub(super) async fn show_list(
        &self,
        mut entries: Vec<Arc<Stored>>,
        meta: &ListMeta,
    ) -> Result<Response<Body>, Status> {
        let shown = self.shown_list()?;
        shown.check(true)?;
        if shown.needs_version() {
            entries = views::of_all(&shown.resource, entries).await?;
        }
        let rows_by = strategy::of(&shown.resource).rows_by;
        if shown.accept.form == Form::Table && !rows_by.is_empty() {
            let number = |stored: &Arc<Stored>| {
                let object = stored.decode().unwrap_or_default();
                object::integer(&object, rows_by).unwrap_or(0)
            };
            entries.sort_by_cached_key(number);
        }
        shown.list(&entries, meta)
    }

    pub(super) async fn watch(&self) -> Result<Response<Body>, Status> {
        let Target {
            resource,
            namespace,
            name,
            ..
        } = self.target;
        let watching = Watching::read(resource, (namespace, name), self.query)?;
        let shown = Shown {
            accept: Accept::negotiate_stream(resource, self.headers)?,
            ..self.shown()?
        };
        let stopping = self.api.0.stopping.subscribe();
        watching.run(self.api.reader(), stopping, shown).await
    }
}
