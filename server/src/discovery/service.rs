//! A client of the cluster in which founders register.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tower::service_fn;

use crate::config::{Registry, RegistryTls, Url};
use crate::net::socket::Socket;
use crate::net::tls::{Connection, Dialing};

/// Pause after no endpoint could be reached.
const RETRY: Duration = Duration::from_millis(100);

/// The end of the range of keys that begin with a key that ends in this byte.
fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        // Keys of the registry are text: the last byte is never the largest one.
        *last += 1;
    }
    end
}

/// The clients of all endpoints; requests go to the one that answered last.
pub(super) struct Service {
    clients: Vec<Client>,
    current: usize,
    request_timeout: Duration,
    /// Name and password, if requests are a user's.
    user: Option<(String, String)>,
    token: Option<MetadataValue<Ascii>>,
}

impl Service {
    /// Connections are made when they are needed. An error means that the flags are wrong, or the
    /// user.
    pub(super) async fn connect(registry: &Registry) -> Result<Service, String> {
        let endpoints = &registry.endpoints;
        let tls = tls(registry, endpoints.first().map_or("", String::as_str))?;
        let clients = endpoints.iter().map(|endpoint| {
            let channel = channel(endpoint, registry, tls.clone());
            channel.map(Client::new)
        });
        let has_user = !registry.user.is_empty() && !registry.password.is_empty();
        let mut service = Service {
            clients: clients.collect::<Result<_, String>>()?,
            current: 0,
            request_timeout: registry.request_timeout,
            user: has_user.then(|| (registry.user.clone(), registry.password.clone())),
            token: None,
        };
        let patience = registry.dial_timeout;
        let authenticated = timeout(patience, service.authenticate()).await;
        let authenticated = authenticated.unwrap_or_else(|_| Err(too_late()));
        authenticated.map_err(|error| error.message().to_owned())?;
        Ok(service)
    }

    pub(super) async fn get(&mut self, key: &str) -> Result<Vec<KeyValue>, Status> {
        let request = pb::RangeRequest {
            key: key.to_owned().into(),
            ..Default::default()
        };
        Ok(self.range(request).await?.kvs)
    }

    /// All keys with this prefix, and the revision.
    pub(super) async fn list(&mut self, prefix: &str) -> Result<(Vec<KeyValue>, i64), Status> {
        let request = pb::RangeRequest {
            key: prefix.to_owned().into(),
            range_end: prefix_end(prefix).into(),
            ..Default::default()
        };
        let response = self.range(request).await?;
        let revision = response.header.map_or(0, |header| header.revision);
        Ok((response.kvs, revision))
    }

    async fn range(&mut self, request: pb::RangeRequest) -> Result<pb::RangeResponse, Status> {
        self.call(async |client, token| {
            let response = client.kv().range(with(token, request.clone())).await?;
            Ok(response.into_inner())
        })
        .await
    }

    pub(super) async fn put(&mut self, key: &str, value: &str) -> Result<(), Status> {
        let request = pb::PutRequest {
            key: key.to_owned().into(),
            value: value.to_owned().into(),
            ..Default::default()
        };
        self.call(async |client, token| {
            client.kv().put(with(token, request.clone())).await?;
            Ok(())
        })
        .await
    }

    /// Watches all keys with this prefix.
    pub(super) async fn watch(&mut self, prefix: &str, revision: i64) -> Result<Members, Status> {
        let create = pb::WatchCreateRequest {
            key: prefix.to_owned().into(),
            range_end: prefix_end(prefix).into(),
            start_revision: revision,
            ..Default::default()
        };
        let create = pb::WatchRequest {
            request_union: Some(pb::watch_request::RequestUnion::CreateRequest(create)),
        };
        self.call(async |client, token| {
            let (requests, stream) = mpsc::channel(1);
            // The channel has room for one.
            let _ = requests.try_send(create.clone());
            let stream = with(token, ReceiverStream::new(stream));
            let responses = client.watch().watch(stream).await?.into_inner();
            Ok(Members {
                responses,
                _requests: requests,
            })
        })
        .await
    }

    /// Asks one endpoint after the other until one answers, within the time of a request.
    async fn call<T>(
        &mut self,
        ask: impl AsyncFn(&Client, Option<&MetadataValue<Ascii>>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let patience = self.request_timeout;
        let answered = timeout(patience, async {
            let mut asked = 0;
            loop {
                let client = &self.clients[self.current];
                match ask(client, self.token.as_ref()).await {
                    Err(error) if error.code() == Code::Unavailable => {
                        tracing::debug!(
                            error = error.message(),
                            "an endpoint of the discovery service is unavailable"
                        );
                        self.current = (self.current + 1) % self.clients.len();
                        asked += 1;
                        if asked % self.clients.len() == 0 {
                            tokio::time::sleep(RETRY).await;
                        }
                    }
                    // The token has run out.
                    Err(error) if error.code() == Code::Unauthenticated && self.user.is_some() => {
                        tokio::time::sleep(RETRY).await;
                        self.authenticate().await?;
                    }
                    answer => return answer,
                }
            }
        });
        answered.await.unwrap_or_else(|_| Err(too_late()))
    }

    /// Gets a token, if requests are a user's and the cluster has users.
    async fn authenticate(&mut self) -> Result<(), Status> {
        let Some((name, password)) = self.user.clone() else {
            return Ok(());
        };
        let request = pb::AuthenticateRequest { name, password };
        loop {
            let client = &self.clients[self.current];
            match client.auth().authenticate(request.clone()).await {
                Ok(response) => {
                    let token = response.into_inner().token.parse();
                    self.token = Some(token.map_err(|_| Status::internal("the token is no text"))?);
                    return Ok(());
                }
                Err(error) if error.message().contains("authentication is not enabled") => {
                    return Ok(());
                }
                Err(error) if error.code() == Code::Unavailable => {
                    self.current = (self.current + 1) % self.clients.len();
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A watch of the registered members.
pub(super) struct Members {
    responses: Streaming<pb::WatchResponse>,
    /// The watch ends with the stream of requests.
    _requests: mpsc::Sender<pb::WatchRequest>,
}

impl Members {
    /// Those that came next; an error at the end of the watch.
    pub(super) async fn next(&mut self) -> Result<Vec<KeyValue>, Status> {
        match self.responses.message().await? {
            Some(response) if !response.canceled => {
                let events = response.events.into_iter();
                Ok(events.filter_map(|event| event.kv).collect())
            }
            Some(response) => Err(Status::aborted(response.cancel_reason)),
            None => Err(Status::aborted("the watch has ended")),
        }
    }
}

fn with<T>(token: Option<&MetadataValue<Ascii>>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("token", token.clone());
    }
    request
}

/// grpc-go's text.
fn too_late() -> Status {
    Status::deadline_exceeded("context deadline exceeded")
}

/// TLS for all endpoints, if there is any; as in etcd, the first endpoint decides.
fn tls(registry: &Registry, first: &str) -> Result<Option<Arc<Dialing>>, String> {
    let given = registry.tls.clone();
    // What was given is checked even if it is not needed.
    let dialing = given.as_ref().map(encrypted).transpose()?;
    let scheme = first.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "http" => Ok(None),
        "https" | "unixs" if dialing.is_none() => encrypted(&RegistryTls::default()).map(Some),
        _ => Ok(dialing),
    }
}

fn encrypted(tls: &RegistryTls) -> Result<Arc<Dialing>, String> {
    let files = &tls.files;
    if files.cert_file.is_empty() != files.key_file.is_empty() {
        return Err(format!(
            "KeyFile and CertFile must both be present[key: {}, cert: {}]",
            files.key_file, files.cert_file
        ));
    }
    Dialing::to_service(files.clone(), tls.skip_verify).map(Arc::new)
}

/// A connection that is made when it is needed, and made again when it breaks.
fn channel(
    endpoint: &str,
    registry: &Registry,
    tls: Option<Arc<Dialing>>,
) -> Result<Channel, String> {
    let url = address(endpoint, tls.is_some());
    let url = Url::parse(&url).map_err(|error| format!("--discovery-endpoints: {error}"))?;
    let authority = if url.is_unix() {
        let name = Path::new(url.socket_path()).file_name();
        name.map_or("localhost".into(), |name| {
            name.to_string_lossy().into_owned()
        })
    } else {
        url.address()
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let origin = format!("{scheme}://{authority}");
    let origin: Uri = origin
        .parse()
        .map_err(|_| format!("bad endpoint {endpoint}"))?;
    let mut channel = Endpoint::from_shared(format!("http://{authority}"))
        .map_err(|error| format!("{endpoint}: {error}"))?
        .origin(origin)
        .connect_timeout(registry.dial_timeout);
    if !registry.keepalive_time.is_zero() {
        channel = channel
            .http2_keep_alive_interval(registry.keepalive_time)
            .keep_alive_timeout(registry.keepalive_timeout);
    }
    Ok(
        channel.connect_with_connector_lazy(service_fn(move |_: Uri| {
            let (url, tls) = (url.clone(), tls.clone());
            async move { Ok::<_, io::Error>(TokioIo::new(connect(&url, tls).await?)) }
        })),
    )
}

async fn connect(url: &Url, tls: Option<Arc<Dialing>>) -> io::Result<Box<dyn Connection>> {
    let socket = Socket::connect(url).await?;
    match tls {
        Some(tls) => tls.connect_to(url, socket).await,
        None => Ok(Box::new(socket)),
    }
}

/// An endpoint as a URL without a path. An endpoint may be a host and port alone, or `unix:` and a
/// path.
fn address(endpoint: &str, secure: bool) -> String {
    let scheme = if secure { "https" } else { "http" };
    if let Some((unix @ ("unix" | "unixs"), path)) = endpoint.split_once(':') {
        return format!("{unix}://{}", path.trim_start_matches("//"));
    }
    let host = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, host)| host);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_many_forms() {
        for (endpoint, secure, url) in [
            ("a:1", false, "http://a:1"),
            ("a:1", true, "https://a:1"),
            ("http://a:1/path", false, "http://a:1"),
            ("https://a:1", true, "https://a:1"),
            ("unix:///run/a", false, "unix:///run/a"),
            ("unix://a:1", false, "unix://a:1"),
            ("unixs:a", true, "unixs://a"),
        ] {
            assert_eq!(address(endpoint, secure), url);
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_behind_all_its_keys() {
        assert_eq!(prefix_end("/ab"), b"/ac");
    }
}
