//! One request about objects, from its body to its response.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{HeaderName, USER_AGENT};
use http::{HeaderMap, Method, Response, StatusCode};
use machinery::status::Status;
use machinery::{object, status, strict};
use serde_json::Value;

use crate::admission::Warnings;
use crate::audit::Record;
use crate::auth::User;
use crate::http::answer::list::{self, Listing};
use crate::http::answer::media::{self, Accept, Form};
use crate::http::answer::reply::{self, Include, ListMeta, Shown};
use crate::http::answer::watch::Watching;
use crate::http::api::Api;
use crate::http::question::body::{self, Expected};
use crate::http::question::delete_options;
use crate::http::question::patch;
use crate::http::question::request::{self, Query, Target};
use crate::http::subresource;
use crate::registry::options::Validation;
use crate::registry::strategy;
use crate::registry::verbs::delete::Options;
use crate::registry::verbs::edit::Edited;
use crate::registry::verbs::patch::Patch;
use crate::registry::verbs::write::{Change, Writer};
use crate::resources::defaults::set_defaults;
use crate::storage::entry::Entry;
use crate::storage::stored::Stored;
use crate::storage::views;

/// A request about objects, after authentication and authorization.
pub(crate) struct Call<'a> {
    pub(crate) api: &'a Api,
    pub(crate) user: &'a User,
    pub(crate) target: &'a Target,
    pub(crate) query: &'a Query,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    /// Present if the request is recorded.
    pub(crate) audit: Option<&'a Record>,
    /// What the client is warned of, whatever becomes of the request.
    pub(crate) warnings: Arc<Warnings>,
}

impl<'a> Call<'a> {
    /// Runs the request and returns its response.
    pub(crate) async fn run(&self, verb: &str, body: Bytes) -> Result<Response<Body>, Status> {
        if !self.target.subresource.is_empty() {
            return subresource::answer(self, verb, body).await;
        }
        let stored = self.target.resource.storage.is_some();
        if verb == "create" && !self.target.name.is_empty() {
            // What is only answered has no objects that a path could name.
            return Err(if stored {
                Status::method_not_allowed()
            } else {
                Status::unknown_path()
            });
        }
        if !self.target.resource.takes(verb) {
            return Err(Status::method_not_allowed());
        }
        if !stored {
            return match verb {
                "create" => self.review(body).await,
                "list" => self.show_list(Vec::new(), &ListMeta::default()).await,
                _ => Err(self.target.resource.not_found(&self.target.name)),
            };
        }
        match verb {
            "get" => self.get().await,
            "list" => self.list().await,
            "watch" => self.watch().await,
            "create" => self.create(body).await,
            "update" => self.replace(body, "").await,
            "patch" => self.patch(body, "").await,
            "delete" => self.delete(body).await,
            _ => self.delete_collection(body).await,
        }
    }

    pub(crate) fn shown(&self) -> Result<Shown, Status> {
        Ok(Shown {
            resource: Arc::clone(&self.target.resource),
            accept: Accept::negotiate_for(&self.target.resource, self.headers)?,
            include: Include::parse(self.query.text("includeObject"))?,
        })
    }

    pub(crate) fn writer(&self, dry: bool) -> Writer<'a> {
        Writer {
            registry: &self.api.0.registry,
            user: self.user,
            resource: Arc::clone(&self.target.resource),
            namespace: &self.target.namespace,
            dry,
            options: self.query.options_object(self.options_kind()),
            audit: self.audit,
            warnings: Arc::clone(&self.warnings),
            manager: self.query.manager(self.header(&USER_AGENT)),
        }
    }

    fn header(&self, name: &HeaderName) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// True for a configuration to apply.
    fn applies(&self) -> bool {
        *self.method == Method::PATCH && media::content_type(self.headers) == patch::APPLY
    }

    /// The options of a write, from its query.
    pub(crate) fn options(&self) -> Result<request::Options, Status> {
        self.query.options(self.options_kind(), self.applies())
    }

    /// Kubernetes' name for the options of this request.
    fn options_kind(&self) -> &'static str {
        match *self.method {
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            Method::DELETE => "DeleteOptions",
            _ => "CreateOptions",
        }
    }

    pub(crate) async fn show(
        &self,
        code: StatusCode,
        entry: &Entry,
    ) -> Result<Response<Body>, Status> {
        let shown = self.shown()?;
        let object = if shown.needs_version() {
            views::of_entry(&shown.resource, entry).await?
        } else {
            Arc::clone(&entry.object)
        };
        let body = shown.object(&object)?;
        Ok(reply::bytes(code, shown.accept.encoding.media_type(), body))
    }

    pub(crate) async fn show_stored(&self, stored: &Arc<Stored>) -> Result<Response<Body>, Status> {
        let shown = self.shown()?;
        let body = if shown.needs_version() {
            shown.stored(&*views::of(&shown.resource, stored).await?)?
        } else {
            shown.stored(stored)?
        };
        let media_type = shown.accept.encoding.media_type();
        Ok(reply::bytes(StatusCode::OK, media_type, body))
    }

    async fn get(&self) -> Result<Response<Body>, Status> {
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
            let cache = self.api.reader().reflector.cache(storage)?;
            if let Some(entry) = cache.get(&storage.key(namespace, name)) {
                return self.show_stored(&entry).await;
            }
        }
        let entry = self
            .api
            .0
            .registry
            .reader
            .read(resource, namespace, name)
            .await?;
        self.show_stored(&entry).await
    }

    async fn list(&self) -> Result<Response<Body>, Status> {
        let Target {
            resource,
            namespace,
            ..
        } = self.target;
        let listing = Listing::read(resource, namespace, self.query)?;
        let listing = listing.shown_as(&self.shown()?);
        let (entries, meta) = listing.run(self.api, resource).await?;
        self.show_list(entries, &meta).await
    }

    async fn show_list(
        &self,
        mut entries: Vec<Arc<Stored>>,
        meta: &ListMeta,
    ) -> Result<Response<Body>, Status> {
        let shown = self.shown()?;
        if shown.needs_version() {
            entries = views::of_all(&shown.resource, entries).await?;
        }
        let rows_by = strategy::of(&shown.resource).rows_by;
        if shown.accept.form == Form::Table && !rows_by.is_empty() {
            let number = |entry: &Arc<Stored>| {
                let object = entry.decode().unwrap_or_default();
                object::integer(&object, rows_by).unwrap_or(0)
            };
            entries.sort_by_cached_key(number);
        }
        let body = shown.list(&entries, meta)?;
        Ok(reply::bytes(
            StatusCode::OK,
            shown.accept.encoding.media_type(),
            body,
        ))
    }

    async fn watch(&self) -> Result<Response<Body>, Status> {
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
        watching.run(self.api, shown).await
    }

    /// Decodes the body as an object of the target's kind.
    pub(crate) async fn object(
        &self,
        body: Bytes,
        validation: Validation,
    ) -> Result<body::Decoded, Status> {
        let kind = &self.target.resource.kind;
        let expected = Expected {
            group: kind.group(),
            version: kind.version(),
            kind: kind.kind(),
            message: kind.message(),
        };
        let media_type = media::content_type(self.headers);
        media::object_encoding(&self.target.resource, &media_type)?;
        let mut decoded = body::decode(&body, &media_type, &expected, validation)?;
        if let Some(record) = self.audit {
            let resource = &self.target.resource;
            record.request_object(&decoded.object, |sent| set_defaults(resource, sent));
        }
        let schema = self.target.resource.schema();
        if let Some(why) = schema.and_then(|schema| schema.undecodable(&decoded.object)) {
            let (kind, version) = (expected.kind, expected.version);
            return Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            )));
        }
        if let Some(schema) = schema
            && validation != Validation::Ignore
        {
            let unknown = strict::unknown_fields(&schema.unknown(&decoded.object));
            let warnings = body::judge(unknown, validation, &expected)?;
            decoded.warnings.extend(warnings);
        }
        Ok(decoded)
    }

    async fn create(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let asked = self.options()?;
        let decoded = self.object(body, asked.validation).await?;
        let strategy = strategy::of(&self.target.resource);
        self.warnings.add(decoded.warnings);
        self.warnings.add(strategy.warnings_of(&decoded.object));
        let entry = self.writer(asked.dry).create(decoded.object).await?;
        self.show(StatusCode::CREATED, &entry).await
    }

    pub(crate) async fn replace(
        &self,
        body: Bytes,
        subresource: &str,
    ) -> Result<Response<Body>, Status> {
        let asked = self.options()?;
        let decoded = self.object(body, asked.validation).await?;
        self.warnings.add(decoded.warnings);
        if subresource.is_empty() {
            let strategy = strategy::of(&self.target.resource);
            self.warnings.add(strategy.warnings_of(&decoded.object));
        }
        let change = Change::Replace(decoded.object);
        let writer = self.writer(asked.dry);
        let (edited, _) = writer
            .update(&self.target.name, subresource, change)
            .await?;
        self.show_edited(edited).await
    }

    pub(crate) async fn patch(
        &self,
        body: Bytes,
        subresource: &str,
    ) -> Result<Response<Body>, Status> {
        let change = self.read_patch(body)?;
        let dry = self.options()?.dry;
        let updated = self
            .writer(dry)
            .update(&self.target.name, subresource, change)
            .await?;
        let (edited, warnings) = updated;
        self.warnings.add(warnings);
        if subresource.is_empty() {
            let strategy = strategy::of(&self.target.resource);
            let object = &edited.entry_ref().object;
            self.warnings.add(strategy.warnings_of(object));
        }
        self.show_edited(edited).await
    }

    /// Adds the warnings to an answer, also to an error.
    pub(crate) fn warned(
        &self,
        answer: Result<Response<Body>, Status>,
    ) -> Result<Response<Body>, Status> {
        let custom = self.target.resource.custom.as_ref();
        let deprecated = match custom {
            Some(custom) => custom.deprecated.clone(),
            None => strategy::of(&self.target.resource)
                .deprecated
                .map(Into::into),
        };
        // A request that no handler takes, or can answer in a form that the client accepts, never
        // gets as far as this warning.
        let is_unhandled = |error: &Status| match error.code {
            405 => true,
            406 => error.details.shown,
            _ => false,
        };
        let handled = !answer.as_ref().is_err_and(is_unhandled);
        let mut warnings: Vec<String> = deprecated.filter(|_| handled).into_iter().collect();
        warnings.extend(self.warnings.take());
        let mut response = match answer {
            Ok(response) => response,
            Err(error) if warnings.is_empty() => return Err(error),
            Err(error) => {
                let accept = Accept::negotiate(self.headers, true);
                reply::error(&error, accept.unwrap_or(Accept::PLAIN).encoding)
            }
        };
        reply::warn(&mut response, &warnings);
        Ok(response)
    }

    /// Decodes a patch or a configuration to apply.
    pub(crate) fn read_patch(&self, body: Bytes) -> Result<Change, Status> {
        if let Some(record) = self.audit {
            record.request_patch(&body, media::yaml::to_value);
        }
        if self.applies() {
            let asked = self.options()?;
            return Ok(Change::Apply(patch::configuration(&body, asked)?));
        }
        let media_type = media::content_type(self.headers);
        let kind = patch::kind_of(&self.target.resource, &media_type)?;
        let validation = self.options()?.validation;
        Ok(Change::Patch(Patch::read(kind, &body, validation)?))
    }

    async fn show_edited(&self, edited: Edited) -> Result<Response<Body>, Status> {
        let code = match &edited {
            Edited::Created(_) => StatusCode::CREATED,
            _ => StatusCode::OK,
        };
        self.show(code, &edited.entry()).await
    }

    async fn delete_options(&self, body: Bytes) -> Result<Options, Status> {
        let media_type = media::content_type(self.headers);
        delete_options::read(self.query, &media_type, &body, self.audit)
    }

    async fn delete(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let options = self.delete_options(body).await?;
        self.warn_of_dependents(&options);
        let dry = options.dry || self.options()?.dry;
        let edited = self.writer(dry).delete(&self.target.name, options).await?;
        let kind = &self.target.resource.kind;
        match edited {
            Edited::Deleted(entry)
                if !strategy::of(&self.target.resource).returns_deleted_object =>
            {
                let uid = object::uid(&entry.object);
                let name = &self.target.name;
                let success = status::success(kind.group(), kind.plural(), name, uid);
                self.value(StatusCode::OK, &success)
            }
            edited => self.show(StatusCode::OK, &edited.entry()).await,
        }
    }

    /// Warns of what becomes of the dependents if the client does not say it.
    fn warn_of_dependents(&self, options: &Options) {
        if options.propagation.is_none() {
            let warning = strategy::of(&self.target.resource).warning_on_delete;
            self.warnings.add(warning.map(str::to_owned));
        }
    }

    async fn delete_collection(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let options = self.delete_options(body).await?;
        let Target {
            resource,
            namespace,
            ..
        } = self.target;
        let listing = Listing::read(resource, namespace, self.query)?;
        self.warn_of_dependents(&options);
        let listing = listing.shown_as(&self.shown()?);
        let (entries, meta) = listing.run(self.api, resource).await?;
        let dry = options.dry || self.options()?.dry;
        for entry in &entries {
            let (namespace, name) = (entry.namespace(), entry.name());
            let writer = Writer {
                namespace: &namespace,
                ..self.writer(dry)
            };
            match writer.delete(&name, options.clone()).await {
                Err(error) if error.code != 404 => return Err(error),
                _ => {}
            }
        }
        self.show_list(entries, &meta).await
    }

    /// Answers kinds that are never stored.
    async fn review(&self, body: Bytes) -> Result<Response<Body>, Status> {
        if strategy::of(&self.target.resource).binds_pods {
            return subresource::bind(self, body).await;
        }
        Accept::negotiate(self.headers, false)?;
        let validation = self.options()?.validation;
        let decoded = self.object(body, validation).await?;
        self.warnings.add(decoded.warnings);
        let answer = self.writer(false).review(decoded.object).await?;
        self.value(StatusCode::CREATED, &answer)
    }

    pub(crate) fn value(&self, code: StatusCode, value: &Value) -> Result<Response<Body>, Status> {
        let accept = Accept::negotiate(self.headers, false).unwrap_or(Accept::PLAIN);
        let body = reply::encode(value, accept.encoding)?;
        Ok(reply::bytes(code, accept.encoding.media_type(), body))
    }
}
