//! An OpenID provider: where its keys are, and the keys. Both are fetched when they are needed, and
//! the keys again when a token is signed by none of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use machinery::object;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::auth::authenticate::jwt::foreign::{ForeignKey, Unchecked};
use crate::webhook::client::Client;

/// The path of the document, after the issuer.
const DOCUMENT: &str = "/.well-known/openid-configuration";
/// The time between two attempts to read the document.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// The least time between two attempts to read the keys. Whoever has no credentials can make up
/// tokens with unknown keys.
const REFRESH_AFTER: Duration = Duration::from_secs(10);
/// Time for one request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Upper bound of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Upper bound of keys; further ones are left out.
const KEYS_MAX: usize = 256;

/// A provider. Dropping it ends the attempts to reach it.
pub(super) struct Provider {
    shared: Arc<Shared>,
    finding: AbortHandle,
}

struct Shared {
    issuer: String,
    /// Where the document is.
    document: String,
    connector: TlsConnector,
    /// `None` until the document was read.
    source: Mutex<Option<Arc<Source>>>,
}

/// Where the keys are.
struct Source {
    client: Client,
    path: String,
    keys: Mutex<Keys>,
}

/// The keys of a provider, as they were fetched last.
#[derive(Default)]
struct Keys {
    all: Arc<Vec<ForeignKey>>,
    /// The end of the last attempt to fetch them.
    fetched: Option<Instant>,
    /// The attempt under way, and what becomes of it. It belongs to no request: one whose client
    /// goes away must not end it for the others.
    under_way: Option<watch::Receiver<Option<Result<(), String>>>>,
}

impl Provider {
    /// Begins to look for the provider. Its document is below the issuer unless `discovery` is its
    /// URL. It needs a tokio runtime.
    pub(super) fn start(issuer: &str, discovery: &str, connector: TlsConnector) -> Provider {
        let document = match discovery {
            "" => format!("{}{DOCUMENT}", issuer.trim_end_matches('/')),
            given => given.to_owned(),
        };
        let shared = Arc::new(Shared {
            issuer: issuer.to_owned(),
            document,
            connector,
            source: Mutex::default(),
        });
        let finding = tokio::spawn(Arc::clone(&shared).find());
        Provider {
            shared,
            finding: finding.abort_handle(),
        }
    }

    /// True once it is known where the keys are.
    pub(super) fn is_found(&self) -> bool {
        self.shared.source.lock().is_some()
    }

    /// Returns the claims of a token if the provider has signed it.
    pub(super) async fn verify(&self, token: &Unchecked<'_>) -> Result<Value, String> {
        let source = self.shared.source.lock().clone();
        let source = source.ok_or("oidc: authenticator not initialized")?;
        source.verify(token).await
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.finding.abort();
    }
}

impl Shared {
    /// Tries until the document was read.
    async fn find(self: Arc<Shared>) {
        loop {
            match self.read().await {
                Ok(source) => {
                    *self.source.lock() = Some(Arc::new(source));
                    return;
                }
                Err(why) => tracing::error!(why, issuer = self.issuer, "no OpenID provider"),
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Reads the document and says where the keys are.
    async fn read(&self) -> Result<Source, String> {
        let (client, path) = self.client(&self.document)?;
        let document = get(&client, &path).await?;
        let issuer = object::text(&document, &["issuer"]);
        if issuer != self.issuer {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {:?} got \
                 {issuer:?}",
                self.issuer
            ));
        }
        let keys = object::text(&document, &["jwks_uri"]);
        if keys.is_empty() {
            return Err("provider did not return JWKS URL".to_owned());
        }
        let (client, path) = self.client(keys)?;
        Ok(Source {
            client,
            path,
            keys: Mutex::default(),
        })
    }

    /// A client for a URL, and the path and query to ask it for.
    fn client(&self, url: &str) -> Result<(Client, String), String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url:?}: {error}"))?;
        let client = Client::of(&uri, "", || Ok(self.connector.clone()))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok((client, path.to_owned()))
    }
}

impl Source {
    async fn verify(self: Arc<Source>, token: &Unchecked<'_>) -> Result<Value, String> {
        let known = Arc::clone(&self.keys.lock().all);
        if let Some(claims) = verified(&known, token) {
            return Ok(claims);
        }
        let newer = self.newer_than(&known).await?;
        verified(&newer, token).ok_or_else(|| "failed to verify id token signature".to_owned())
    }

    /// Returns the keys after those; they may be the same.
    async fn newer_than(
        self: &Arc<Source>,
        known: &Arc<Vec<ForeignKey>>,
    ) -> Result<Arc<Vec<ForeignKey>>, String> {
        let mut attempt = {
            let mut keys = self.keys.lock();
            let is_recent = keys.fetched.is_some_and(|at| at.elapsed() < REFRESH_AFTER);
            if !Arc::ptr_eq(&keys.all, known) || is_recent {
                return Ok(Arc::clone(&keys.all));
            }
            let begin = || self.begin();
            keys.under_way.get_or_insert_with(begin).clone()
        };
        let ended = attempt.wait_for(Option::is_some).await;
        let ended = ended.map_err(|_| "fetching keys: given up".to_owned())?;
        ended.clone().unwrap_or(Ok(()))?;
        Ok(Arc::clone(&self.keys.lock().all))
    }

    /// Begins an attempt to fetch the keys.
    fn begin(self: &Arc<Source>) -> watch::Receiver<Option<Result<(), String>>> {
        let (told, attempt) = watch::channel(None);
        let source = Arc::clone(self);
        tokio::spawn(async move {
            let fetched = source.fetch().await;
            let mut keys = source.keys.lock();
            keys.fetched = Some(Instant::now());
            keys.under_way = None;
            let fetched = fetched.map(|all| keys.all = Arc::new(all));
            told.send_replace(Some(fetched));
        });
        attempt
    }

    async fn fetch(&self) -> Result<Vec<ForeignKey>, String> {
        let set = get(&self.client, &self.path).await;
        let set = set.map_err(|why| format!("fetching keys: {why}"))?;
        let mut keys = Vec::new();
        for jwk in object::items(&set, &["keys"]).iter().take(KEYS_MAX) {
            match ForeignKey::of(jwk) {
                Ok(key) => keys.push(key),
                Err(why) => tracing::debug!(why, "a key of an OpenID provider is left out"),
            }
        }
        Ok(keys)
    }
}

fn verified(keys: &[ForeignKey], token: &Unchecked<'_>) -> Option<Value> {
    keys.iter().find_map(|key| key.verify(token).ok())
}

/// Gets a JSON object.
async fn get(client: &Client, path: &str) -> Result<Value, String> {
    let request = Request::get(path)
        .header(USER_AGENT, "kube-apiserver")
        .header(ACCEPT, "application/json")
        .body(Full::new(Bytes::new()))
        .map_err(|error| error.to_string())?;
    let answer = client.exchange(request, ANSWER_BYTES_MAX, PATIENCE).await;
    let answer = answer.map_err(|failure| failure.why)?;
    if answer.code != StatusCode::OK {
        let body = String::from_utf8_lossy(&answer.body);
        return Err(format!("{}: {}", answer.code, body.trim()));
    }
    let object: HashMap<String, Value> =
        serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    Ok(object.into_iter().collect())
}
