//! The client: sends plain HTTP requests, and returns responses as bytes.

use std::path::Path;

use futures_util::{AsyncBufRead, AsyncReadExt as _};
use http::Request;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use super::Result;

#[derive(Clone)]
pub(super) struct Asker(Client);

impl Asker {
    pub(super) async fn of(kubeconfig: &Path) -> Result<Asker> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Asker(Client::try_from(config)?))
    }

    pub(super) async fn get(&self, path: &str) -> Result<String> {
        let request = Request::get(path).header("Accept", "application/json");
        Ok(self.0.request_text(request.body(Vec::new())?).await?)
    }

    /// The same in another form.
    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Result<Vec<u8>> {
        let mut stream = self.watch(path, accept).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        Ok(bytes)
    }

    pub(super) async fn post(&self, path: &str, object: &Value) -> Result<String> {
        let request = Request::post(path).header("Content-Type", "application/json");
        let request = request.body(object.to_string().into_bytes())?;
        Ok(self.0.request_text(request).await?)
    }

    pub(super) async fn patch(&self, path: &str, patch: &Value) -> Result<String> {
        let request = Request::patch(path).header("Content-Type", "application/merge-patch+json");
        let request = request.body(patch.to_string().into_bytes())?;
        Ok(self.0.request_text(request).await?)
    }

    pub(super) async fn put_as(&self, path: &str, form: &str, object: Vec<u8>) -> Result<String> {
        let request = Request::put(path).header("Content-Type", form);
        Ok(self.0.request_text(request.body(object)?).await?)
    }

    /// Server-side apply.
    pub(super) async fn apply(&self, path: &str, object: &Value) -> Result<String> {
        let request = Request::patch(format!("{path}?fieldManager=versus&force=true"))
            .header("Content-Type", "application/apply-patch+yaml");
        let request = request.body(object.to_string().into_bytes())?;
        Ok(self.0.request_text(request).await?)
    }

    pub(super) async fn watch(
        &self,
        path: &str,
        accept: &str,
    ) -> Result<impl AsyncBufRead + Unpin + use<>> {
        let request = Request::get(path).header("Accept", accept);
        let request = request.body(Vec::new())?;
        Ok(Box::pin(self.0.request_stream(request).await?))
    }
}
