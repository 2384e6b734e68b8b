//! Requests that write an object, or that are only answered: from the body to what is shown.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use machinery::status::Status;
use machinery::strict;
use serde_json::Value;

use super::{Call, subresource};
use crate::http::media::{self, Accept};
use crate::http::question::body::{self, Expected};
use crate::http::question::patch;
use crate::registry::options::Validation;
use crate::registry::strategy;
use crate::registry::verbs::edit::Edited;
use crate::registry::verbs::patch::Patch;
use crate::registry::verbs::write::Change;
use crate::resources::defaults::set_defaults;

impl Call<'_> {
    pub(super) async fn create(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let asked = self.options()?;
        let decoded = self.object(body, asked.validation).await?;
        let strategy = strategy::of(&self.target.resource);
        self.warnings.add(decoded.warnings);
        self.warnings.add(strategy.warnings_of(&decoded.object));
        let decoded = self.writer(asked.dry).create(decoded.object).await?;
        self.show(StatusCode::CREATED, &decoded).await
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

    /// Answers kinds that are never stored.
    pub(super) async fn review(&self, body: Bytes) -> Result<Response<Body>, Status> {
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
            // Whether it has too many defaults is for the write to say.
            let complete = |sent: &mut Value| drop(set_defaults(resource, sent));
            record.request_object(&decoded.object, complete);
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
        self.show(code, &edited.decoded()).await
    }
}
