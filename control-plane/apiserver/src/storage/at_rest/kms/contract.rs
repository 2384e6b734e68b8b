//! The gRPC contract of KMS plugins, version 2, over a Unix socket: messages with the field numbers
//! of Kubernetes' `v2.KeyManagementService`.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, IntoRequest as _, Status};
use tonic_prost::ProstCodec;

use crate::storage::at_rest::cipher::random;
use crate::storage::at_rest::metrics;

const STATUS: &str = "/v2.KeyManagementService/Status";
const ENCRYPT: &str = "/v2.KeyManagementService/Encrypt";
const DECRYPT: &str = "/v2.KeyManagementService/Decrypt";

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    /// `v2`, or `v2beta1`, which is the same.
    #[prost(string, tag = "1")]
    pub(super) version: String,
    /// Anything but `ok` is a failure.
    #[prost(string, tag = "2")]
    pub(super) healthz: String,
    /// The key that encrypts now.
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

/// A plugin. It is connected to when it is first called, and again after failures.
pub(super) struct Plugin {
    /// The name of its provider.
    provider: String,
    channel: Channel,
    timeout: Duration,
}

impl Plugin {
    /// The plugin at a socket; one whose path begins with `@` is in the abstract namespace.
    pub(super) fn at(provider: &str, socket: &str, timeout: Duration) -> Plugin {
        let path = match socket.strip_prefix('@') {
            Some(name) => format!("\0{name}"),
            None => socket.to_owned(),
        };
        let connect = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        Plugin {
            provider: provider.to_owned(),
            channel: endpoint.connect_with_connector_lazy(connect),
            timeout,
        }
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, String> {
        self.call(STATUS, StatusRequest {}).await
    }

    pub(super) async fn encrypt(&self, plaintext: Vec<u8>) -> Result<EncryptResponse, String> {
        let uid = uid()?;
        self.call(ENCRYPT, EncryptRequest { plaintext, uid }).await
    }

    pub(super) async fn decrypt(
        &self,
        ciphertext: Vec<u8>,
        key_id: String,
        annotations: BTreeMap<String, Vec<u8>>,
    ) -> Result<Vec<u8>, String> {
        let request = DecryptRequest {
            ciphertext,
            uid: uid()?,
            key_id,
            annotations,
        };
        let response: DecryptResponse = self.call(DECRYPT, request).await?;
        Ok(response.plaintext)
    }

    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, String>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let exchange = async {
            let mut grpc = Grpc::new(self.channel.clone());
            let ready = grpc.ready().await;
            ready.map_err(|error| Status::unavailable(chain(&error)))?;
            let method = PathAndQuery::from_static(method);
            let codec = ProstCodec::default();
            grpc.unary(request.into_request(), method, codec).await
        };
        let began = Instant::now();
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        let code = match &answered {
            Ok(Ok(_)) => Code::Ok,
            Ok(Err(status)) => status.code(),
            Err(_) => Code::DeadlineExceeded,
        };
        metrics::called(&self.provider, method, name(code), began.elapsed());
        let response = answered
            .map_err(|_| format!("no answer within {:?}", self.timeout))?
            .map_err(|status| {
                let why = match std::error::Error::source(&status) {
                    Some(source) => chain(source),
                    None => status.message().to_owned(),
                };
                format!("rpc error: code = {} desc = {why}", name(status.code()))
            })?;
        Ok(response.into_inner())
    }
}

/// What gRPC for Go calls a code.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// An error and what it comes from.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

/// A new identifier of a request, for the log of the plugin.
fn uid() -> Result<String, String> {
    let bytes: [u8; 16] = random()?;
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16].map(|range| hex(&bytes[range]));
    Ok(parts.join("-"))
}
