//! Requests that delete an object or a collection.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use machinery::status::Status;
use machinery::{object, status};

use super::Call;
use crate::http::answer::list::Listing;
use crate::http::media;
use crate::http::question::delete_options;
use crate::http::question::request::Target;
use crate::registry::strategy;
use crate::registry::verbs::delete::Options;
use crate::registry::verbs::edit::Edited;
use crate::registry::verbs::writer::Writer;

impl Call<'_> {
    pub(super) async fn delete(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let options = self.delete_options(body).await?;
        self.warn_of_dependents(&options);
        let dry = options.dry || self.options()?.dry;
        let edited = self.writer(dry).delete(&self.target.name, options).await?;
        let kind = &self.target.resource.kind;
        match edited {
            Edited::Deleted(decoded)
                if !strategy::of(&self.target.resource).returns_deleted_object =>
            {
                let uid = object::uid(&decoded.object);
                let name = &self.target.name;
                let success = status::success(kind.group(), kind.plural(), name, uid);
                self.value(StatusCode::OK, &success)
            }
            edited => self.show(StatusCode::OK, &edited.decoded()).await,
        }
    }

    pub(super) async fn delete_collection(&self, body: Bytes) -> Result<Response<Body>, Status> {
        let options = self.delete_options(body).await?;
        let Target {
            resource,
            namespace,
            ..
        } = self.target;
        let listing = Listing::read(resource, namespace, self.query)?;
        self.warn_of_dependents(&options);
        let listing = listing.shown_as(&self.shown()?);
        let (entries, meta) = listing.run(self.api.reader(), resource).await?;
        let dry = options.dry || self.options()?.dry;
        for decoded in &entries {
            let (namespace, name) = (decoded.namespace(), decoded.name());
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

    async fn delete_options(&self, body: Bytes) -> Result<Options, Status> {
        let media_type = media::content_type(self.headers);
        delete_options::read(self.query, &media_type, &body, self.audit)
    }

    /// Warns of what becomes of the dependents if the client does not say it.
    fn warn_of_dependents(&self, options: &Options) {
        if options.propagation.is_none() {
            let warning = strategy::of(&self.target.resource).warning_on_delete;
            self.warnings.add(warning.map(str::to_owned));
        }
    }
}
