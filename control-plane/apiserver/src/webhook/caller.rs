//! Posts to the server of a kubeconfig.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;

use super::client::{Answer, Client, Failure};
use super::kubeconfig::{Credentials, Kubeconfig};
use super::trust;
use crate::basics::clock;

/// How often a question is sent before it has no answer.
pub(crate) const ATTEMPTS: u32 = 5;
/// Time for one attempt, unless its configuration says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// By how much the pause between two attempts grows, and how much of it is random.
const GROWTH: f64 = 1.5;
const JITTER: f64 = 0.2;

/// The client of the server that a kubeconfig names.
pub(crate) struct Caller {
    client: Client,
    /// Path and query.
    path: String,
    credentials: Credentials,
    /// Time for one attempt.
    patience: Duration,
}

/// The pauses between attempts.
pub(crate) struct Pauses(Duration);

impl Caller {
    /// Reads a kubeconfig.
    pub(crate) fn read(path: &Path, patience: Duration) -> Result<Caller, String> {
        let config = Kubeconfig::read(path)?;
        let uri: Uri = config
            .server
            .parse()
            .map_err(|error| format!("server {:?}: {error}", config.server))?;
        let identity = config.identity.as_ref();
        let identity = identity.map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
        let connector = || trust::connector_to(config.authority.as_deref(), identity);
        Ok(Caller {
            client: Client::of(&uri, &config.server_name, connector)?,
            path: format!("{}?timeout={}", uri.path(), timeout(patience)),
            credentials: config.credentials,
            patience,
        })
    }

    /// Posts JSON and returns the answer, of whatever code and at most `bytes_max` bytes.
    pub(crate) async fn post(&self, body: Bytes, bytes_max: usize) -> Result<Answer, Failure> {
        let request = self.request(body).map_err(|why| Failure::of(&why))?;
        self.client
            .exchange(request, bytes_max, self.patience)
            .await
    }

    /// The same, again with growing pauses while the server asks for it or breaks the connection.
    pub(crate) async fn post_again(
        &self,
        body: Bytes,
        bytes_max: usize,
        pause: Duration,
    ) -> Result<Answer, Failure> {
        let mut pauses = Pauses::from(pause);
        let mut tried = 1;
        loop {
            let posted = self.post(body.clone(), bytes_max).await;
            let may_help = match &posted {
                Err(failure) => failure.is_reset,
                Ok(answer) if answer.code.is_success() => false,
                Ok(answer) => is_for_later(answer.code) || answer.headers.contains_key(RETRY_AFTER),
            };
            if !may_help || tried == ATTEMPTS {
                return posted;
            }
            pauses.next().await;
            tried += 1;
        }
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(USER_AGENT, "kube-apiserver")
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, body.len());
        if let Some(value) = self.credentials.header()? {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body));
        request.map_err(|error| error.to_string())
    }
}

impl Pauses {
    /// Pauses that grow from this one.
    pub(crate) fn from(first: Duration) -> Pauses {
        Pauses(first)
    }

    /// Waits for the next pause.
    pub(crate) async fn next(&mut self) {
        let random = clock::below(1000) as f64 / 1000.0;
        tokio::time::sleep(self.0.mul_f64(1.0 + JITTER * random)).await;
        self.0 = self.0.mul_f64(GROWTH);
    }
}

/// True for answers after which Kubernetes asks again.
fn is_for_later(code: StatusCode) -> bool {
    [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&code)
}

/// A duration as Go's clients tell it to servers.
fn timeout(patience: Duration) -> String {
    match patience.subsec_millis() {
        0 => format!("{}s", patience.as_secs()),
        _ => format!("{}ms", patience.as_millis()),
    }
}
