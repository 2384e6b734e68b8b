//! One request about objects, from its body to its response.

mod deletions;
mod reads;
mod subresource;
mod writes;

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{HeaderName, USER_AGENT};
use http::{HeaderMap, Method, Response, StatusCode};
use machinery::status::Status;
use serde_json::Value;

use crate::admission::Warnings;
use crate::audit::Record;
use crate::auth::User;
use crate::http::answer::reply;
use crate::http::answer::shown::{Include, ListMeta, Shown};
use crate::http::api::Api;
use crate::http::media::{self, Accept};
use crate::http::question::patch;
use crate::http::question::request::{self, Query, Target};
use crate::registry::strategy;
use crate::registry::verbs::writer::Writer;
use crate::storage::decoded::DecodedObject;
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
        decoded: &DecodedObject,
    ) -> Result<Response<Body>, Status> {
        let shown = self.shown()?;
        shown.check(false)?;
        let object = if shown.needs_version() {
            views::of_decoded(&shown.resource, decoded).await?
        } else {
            Arc::clone(&decoded.object)
        };
        let body = shown.object(&object)?;
        Ok(reply::bytes(code, shown.accept.encoding.media_type(), body))
    }

    pub(crate) async fn show_stored(&self, stored: &Arc<Stored>) -> Result<Response<Body>, Status> {
        let shown = self.shown()?;
        shown.check(false)?;
        let body = if shown.needs_version() {
            shown.stored(&*views::of(&shown.resource, stored).await?)?
        } else {
            shown.stored(stored)?
        };
        let media_type = shown.accept.encoding.media_type();
        Ok(reply::bytes(StatusCode::OK, media_type, body))
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

    pub(crate) fn value(&self, code: StatusCode, value: &Value) -> Result<Response<Body>, Status> {
        let accept = Accept::negotiate(self.headers, false).unwrap_or(Accept::PLAIN);
        let body = reply::encode(value, accept.encoding)?;
        Ok(reply::bytes(code, accept.encoding.media_type(), body))
    }
}
