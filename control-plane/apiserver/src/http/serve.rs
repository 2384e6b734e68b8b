//! One request from its head to its answer: who, what, may they, do it.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use machinery::status::Status;
use machinery::{object, status};
use serde_json::Value;

use crate::api::Api;
use crate::auth::{Attributes, User};
use crate::clock;
use crate::http::body::{self, Expected, Validation};
use crate::http::documents;
use crate::http::list::{self, Listing};
use crate::http::media::pretty;
use crate::http::media::{self, Accept, Encoding};
use crate::http::reply::{self, Include, ListMeta, Shown};
use crate::http::request::{self, Info, Query, Target};
use crate::http::slots::{Received, Turn};
use crate::http::watch::Watching;
use crate::registry::delete::Options;
use crate::registry::edit::Edited;
use crate::registry::patch::Patch;
use crate::registry::sub;
use crate::registry::write::{Change, Writer};
use crate::resources::convert;
use crate::storage::entry::Entry;
use crate::storage::stored::Stored;
use crate::validate;

/// How long one request may take, its body included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A request about objects, once it is known whose it is and that it may.
pub(crate) struct Call<'a> {
    pub(crate) api: &'a Api,
    pub(crate) user: &'a User,
    pub(crate) target: &'a Target,
    pub(crate) query: &'a Query,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
}

/// Answers a request; errors too are answers.
pub(crate) async fn serve(api: Api, request: Request<Body>) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    let audit = parts.headers.get("Audit-Id").cloned();
    let encoding = match Accept::negotiate(&parts.headers, true) {
        Ok(accept) => accept.encoding,
        Err(_) => Encoding::Json,
    };
    let head = parts.method == Method::HEAD;
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, answer(&api, &mut parts, body)).await;
    let answer = answer.unwrap_or_else(|_| {
        let text = "request did not complete within the allotted timeout";
        Err(Status::new(504, "Timeout", format!("Timeout: {text}")))
    });
    let mut response = answer.unwrap_or_else(|error| reply::error(&error, encoding));
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if pretty::is_wanted(&parts.headers, &query) {
        response = match pretty::indented(response).await {
            Ok(response) => response,
            Err(error) => reply::error(&error, encoding),
        };
    }
    let audit = audit.or_else(|| HeaderValue::from_str(&clock::uid()).ok());
    if let Some(audit) = audit {
        response.headers_mut().insert("Audit-Id", audit);
    }
    if head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn answer(api: &Api, parts: &mut Parts, body: Body) -> Result<Response<Body>, Status> {
    let gate = &api.0.config.gate;
    let user = match parts.extensions.remove::<User>() {
        Some(user) => user,
        None => gate.authenticate(api, parts).await?,
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let path = parts.uri.path();
    let Some(segments) = request::segments(path) else {
        return Ok(reply::text(StatusCode::NOT_FOUND, "404 page not found\n"));
    };
    let info = Info::read(&parts.method, &segments, &query);
    let attributes = Attributes {
        user,
        ..info.attributes.clone()
    };
    let turn = Turn {
        slots: &api.0.slots,
        exempt: is_probe(&info) || gate.is_exempt(&attributes.user),
        reads: [Method::GET, Method::HEAD].contains(&parts.method),
    };
    let mut slot = turn.enter()?;
    // Whether a path is there is told only to those who may ask.
    gate.authorize(api, &attributes).await?;
    let target = match info.is_resource() {
        true => request::route(&info)?,
        false => None,
    };
    let Some(target) = target else {
        return documents::answer(api, parts, &segments);
    };
    if !request::takes(&parts.method, &info, &target) {
        return Err(Status::method_not_allowed());
    }
    let call = Call {
        api,
        user: &attributes.user,
        target: &target,
        query: &query,
        method: &parts.method,
        headers: &parts.headers,
    };
    let mut received = Received::default();
    if !turn.reads {
        // A slow body takes no slot from those who are ready.
        drop(slot);
        received = turn.receive(body).await?;
        slot = turn.enter()?;
    }
    let answer = call.run(&attributes.verb, received.take()).await;
    drop(slot);
    answer
}

/// Whether somebody asks for the server's health alone.
fn is_probe(info: &Info) -> bool {
    let path = &info.attributes.path;
    let probes = ["/healthz", "/livez", "/readyz"].iter();
    !info.is_resource() && probes.into_iter().any(|probe| path.starts_with(probe))
}

impl<'a> Call<'a> {
    async fn run(&self, verb: &str, body: Bytes) -> Result<Response<Body>, Status> {
        if !self.target.subresource.is_empty() {
            return sub::answer(self, verb, body).await;
        }
        let kind = self.target.resource.kind;
        if verb == "create" && !self.target.name.is_empty() || !kind.has_verb(verb) {
            return Err(Status::method_not_allowed());
        }
        if self.target.resource.storage.is_none() {
            return match verb {
                "create" => self.review(body).await,
                "list" => self.show_list(&[], &ListMeta::default()),
                _ => Err(crate::api::not_found(
                    self.target.resource,
                    &self.target.name,
                )),
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
            resource: self.target.resource,
            accept: Accept::negotiate(self.headers, true)?,
            include: Include::parse(self.query.text("includeObject"))?,
        })
    }

    pub(crate) fn writer(&self, dry: bool) -> Writer<'a> {
        Writer {
            api: self.api,
            user: self.user,
            resource: self.target.resource,
            namespace: &self.target.namespace,
            dry,
        }
    }

    /// What a write is asked beside its object.
    pub(crate) fn options(&self) -> Result<request::Options, Status> {
        self.query.options(match *self.method {
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            Method::DELETE => "DeleteOptions",
            _ => "CreateOptions",
        })
    }

    pub(crate) fn show(&self, code: StatusCode, entry: &Entry) -> Result<Response<Body>, Status> {
        let shown = self.shown()?;
        let body = shown.entry(entry)?;
        Ok(reply::bytes(code, shown.accept.encoding.media_type(), body))
    }

    pub(crate) fn show_stored(&self, stored: &Stored) -> Result<Response<Body>, Status> {
        let shown = self.shown()?;
        let body = shown.stored(stored)?;
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
            Err(error) => return Err(Status::new(500, "", error.message)),
        };
        // The store is never behind; but it may be asked for what is still to come.
        if let Some(version) = version.filter(|version| *version > self.api.0.feed.revision()) {
            self.api.0.feed.reach(version).await?;
        }
        // Any state will do: the cache's.
        if version == Some(0)
            && let Some(storage) = resource.storage
        {
            let cache = self.api.0.feed.cache(storage);
            if let Some(entry) = cache.get(&storage.key(namespace, name)) {
                return self.show_stored(&entry);
            }
        }
        let entry = self.api.read(resource, namespace, name).await?;
        self.show_stored(&entry)
    }

    async fn list(&self) -> Result<Response<Body>, Status> {
        let Target {
            resource,
            namespace,
            ..
        } = self.target;
        let listing = Listing::read(resource, namespace, self.query)?;
        let (entries, meta) = listing.run(self.api, resource).await?;
        self.show_list(&entries, &meta)
    }

    fn show_list(
        &self,
        entries: &[std::sync::Arc<Stored>],
        meta: &ListMeta,
    ) -> Result<Response<Body>, Status> {
        let shown = self.shown()?;
        let body = shown.list(entries, meta)?;
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
            accept: Accept::negotiate_stream(self.headers)?,
            ..self.shown()?
        };
        watching.run(self.api, shown).await
    }

    /// Reads the body as an object of the target's kind.
    pub(crate) async fn object(
        &self,
        body: Bytes,
        validation: Validation,
    ) -> Result<body::Decoded, Status> {
        let kind = self.target.resource.kind;
        let expected = Expected {
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            message: kind.message(),
        };
        let media_type = media::content_type(self.headers);
        media::body_encoding(&media_type)?;
        body::decode(&body, &media_type, &expected, validation)
    }

    async fn create(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let asked = self.options()?;
        let decoded = self.object(body, asked.validation).await?;
        let mut warnings = decoded.warnings;
        warnings.extend(validate::warnings(self.target.resource, &decoded.object));
        warnings.extend(validate::without_effect(
            self.target.resource,
            &decoded.object,
        ));
        let made = self.writer(asked.dry).create(decoded.object).await;
        self.warned(made, &warnings, |entry| {
            self.show(StatusCode::CREATED, &entry)
        })
    }

    pub(crate) async fn replace(
        &self,
        body: Bytes,
        subresource: &str,
    ) -> Result<Response<Body>, Status> {
        let asked = self.options()?;
        let mut decoded = self.object(body, asked.validation).await?;
        if subresource.is_empty() {
            let resource = self.target.resource;
            let more = validate::without_effect(resource, &decoded.object);
            decoded.warnings.extend(more);
        }
        let change = Change::Replace(decoded.object);
        let updated = self
            .writer(asked.dry)
            .update(&self.target.name, subresource, change)
            .await;
        self.warned(updated, &decoded.warnings, |(edited, _)| {
            self.show_edited(edited)
        })
    }

    pub(crate) async fn patch(
        &self,
        body: Bytes,
        subresource: &str,
    ) -> Result<Response<Body>, Status> {
        let patch = self.read_patch(body).await?;
        let dry = self.options()?.dry;
        let change = Change::Patch(patch);
        let updated = self
            .writer(dry)
            .update(&self.target.name, subresource, change)
            .await?;
        let (edited, mut warnings) = updated;
        let entry = edited.entry_ref();
        if subresource.is_empty() {
            warnings.extend(validate::without_effect(
                self.target.resource,
                &entry.object,
            ));
        }
        let mut response = self.show_edited(edited)?;
        reply::warn(&mut response, &warnings);
        Ok(response)
    }

    /// The answer to a write, good or bad, with what there is to warn of.
    fn warned<T>(
        &self,
        written: Result<T, Status>,
        warnings: &[String],
        show: impl FnOnce(T) -> Result<Response<Body>, Status>,
    ) -> Result<Response<Body>, Status> {
        let mut response = match written {
            Ok(written) => show(written)?,
            Err(error) if warnings.is_empty() => return Err(error),
            Err(error) => {
                let accept = Accept::negotiate(self.headers, true);
                reply::error(&error, accept.unwrap_or(Accept::PLAIN).encoding)
            }
        };
        reply::warn(&mut response, warnings);
        Ok(response)
    }

    pub(crate) async fn read_patch(&self, body: Bytes) -> Result<Patch, Status> {
        let media_type = media::content_type(self.headers);
        Patch::takes(&media_type)?;
        let validation = self.options()?.validation;
        Patch::read(&media_type, &body, validation)
    }

    fn show_edited(&self, edited: Edited) -> Result<Response<Body>, Status> {
        let code = match &edited {
            Edited::Created(_) => StatusCode::CREATED,
            _ => StatusCode::OK,
        };
        self.show(code, &edited.entry())
    }

    async fn delete_options(&self, body: Bytes) -> Result<Options, Status> {
        Options::read(self.query, &media::content_type(self.headers), &body)
    }

    async fn delete(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let options = self.delete_options(body).await?;
        let dry = options.dry || self.options()?.dry;
        let edited = self.writer(dry).delete(&self.target.name, options).await?;
        let kind = self.target.resource.kind;
        match edited {
            Edited::Deleted(entry) if !self.target.resource.answers_deletion() => {
                let uid = object::uid(&entry.object);
                let name = &self.target.name;
                let success = status::success(kind.group, kind.plural, name, uid);
                self.value(StatusCode::OK, &success)
            }
            edited => self.show(StatusCode::OK, &edited.entry()),
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
        self.show_list(&entries, &meta)
    }

    /// Kinds that are answered and not stored.
    async fn review(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let Target {
            resource,
            namespace,
            ..
        } = self.target;
        if (resource.kind.group, resource.kind.plural) == ("", "bindings") {
            return sub::bind(self, body).await;
        }
        Accept::negotiate(self.headers, false)?;
        let validation = self.options()?.validation;
        let mut decoded = self.object(body, validation).await?;
        sub::admit_new(self, "", &mut decoded.object).await?;
        let gate = &self.api.0.config.gate;
        let answer = gate
            .review(
                self.api,
                self.user,
                resource.kind,
                namespace,
                decoded.object,
            )
            .await?;
        self.value(StatusCode::CREATED, &answer)
    }

    pub(crate) fn value(&self, code: StatusCode, value: &Value) -> Result<Response<Body>, Status> {
        let accept = Accept::negotiate(self.headers, false).unwrap_or(Accept::PLAIN);
        let body = reply::encode(value, accept.encoding)?;
        Ok(reply::bytes(code, accept.encoding.media_type(), body))
    }

    /// The target's object in the served version.
    pub(crate) async fn stored(&self) -> Result<std::sync::Arc<Value>, Status> {
        let Target {
            resource,
            namespace,
            name,
            ..
        } = self.target;
        let stored = self.api.read(resource, namespace, name).await?;
        let object = std::sync::Arc::new(stored.decode()?);
        Ok(convert::to_served(resource, &object))
    }
}
