//! Connections to the cluster. Calls go to the connected members in turn, and wait while there is
//! none, as with etcd's client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::SendRequest;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;

mod connection;
pub(super) mod sync;

use super::settings::DialKeepalive;
use crate::config::Url;
use crate::net::tls::Dialing;

/// The way to a cluster. Cheap to clone.
#[derive(Clone)]
pub(super) struct Upstream(Arc<Inner>);

struct Inner {
    how: How,
    members: Mutex<Vec<Member>>,
    next: AtomicUsize,
    /// Changes with every connection that opens or ends.
    changed: watch::Sender<()>,
}

/// How members are dialed.
#[derive(Clone)]
pub(super) struct How {
    /// For endpoints whose scheme asks for TLS; and for those without a scheme, if `tls_is_usual`.
    pub(super) tls: Arc<Dialing>,
    pub(super) tls_is_usual: bool,
    pub(super) keepalive: DialKeepalive,
    /// Limits of one message in each direction.
    pub(super) max_send_bytes: usize,
    pub(super) max_recv_bytes: usize,
}

/// A member that is connected, or being connected.
struct Member {
    endpoint: Endpoint,
    open: Arc<Mutex<Option<SendRequest<Body>>>>,
    task: AbortHandle,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The address of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    url: Url,
    authority: Authority,
}

impl Endpoint {
    /// Reads `host:port` or a URL.
    pub(super) fn parse(text: &str, tls_is_usual: bool) -> Result<Endpoint, String> {
        let with_scheme = if text.contains("://") {
            text.trim_end_matches('/').to_owned()
        } else if let Some(path) = text.strip_prefix("unix:") {
            format!("unix://{path}")
        } else if tls_is_usual {
            format!("https://{text}")
        } else {
            format!("http://{text}")
        };
        let url = Url::parse(&with_scheme)?;
        let authority = if url.is_unix() {
            "localhost".to_owned()
        } else {
            url.address()
        };
        let authority = authority
            .parse()
            .map_err(|error| format!("{text}: {error}"))?;
        Ok(Endpoint { url, authority })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }
}

impl Upstream {
    /// Begins to connect. Must be called inside the runtime.
    pub(super) fn new(how: How, endpoints: Vec<Endpoint>) -> Upstream {
        let upstream = Upstream(Arc::new(Inner {
            how,
            members: Mutex::default(),
            next: AtomicUsize::default(),
            changed: watch::Sender::default(),
        }));
        upstream.set_endpoints(endpoints);
        upstream
    }

    /// Connects to new members and leaves those that are not listed any more. Returns false if
    /// nothing changed.
    pub(super) fn set_endpoints(&self, endpoints: Vec<Endpoint>) -> bool {
        let inner = &self.0;
        let mut members = inner.members.lock();
        let before = members.len();
        members.retain(|member| endpoints.contains(&member.endpoint));
        let mut changed = members.len() < before;
        for endpoint in endpoints {
            if members.iter().any(|member| member.endpoint == endpoint) {
                continue;
            }
            let open = Arc::new(Mutex::new(None));
            let (how, slot) = (inner.how.clone(), Arc::clone(&open));
            let (url, signal) = (endpoint.url.clone(), inner.changed.clone());
            let task = tokio::spawn(connection::keep(how, url, slot, signal));
            changed = true;
            members.push(Member {
                endpoint,
                open,
                task: task.abort_handle(),
            });
        }
        changed
    }

    /// The number of endpoints, connected or not.
    pub(super) fn endpoints(&self) -> usize {
        self.0.members.lock().len()
    }

    pub(super) fn how(&self) -> &How {
        &self.0.how
    }

    pub(super) fn endpoint(&self, text: &str) -> Result<Endpoint, String> {
        Endpoint::parse(text, self.0.how.tls_is_usual)
    }

    /// The next member in turn that is connected.
    fn pick(&self) -> Option<(SendRequest<Body>, Endpoint)> {
        let members = self.0.members.lock();
        let first = self.0.next.fetch_add(1, Ordering::Relaxed);
        let turn = (0..members.len()).map(|step| first.wrapping_add(step) % members.len());
        turn.map(|at| &members[at]).find_map(|member| {
            let open = member.open.lock();
            let sender = open.as_ref().filter(|sender| !sender.is_closed())?;
            Some((sender.clone(), member.endpoint.clone()))
        })
    }

    /// Sends a request to a member that is connected. One that no member has received yet goes to
    /// the next.
    async fn send(self, mut request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or(PathAndQuery::from_static("/"));
        let mut changed = self.0.changed.subscribe();
        loop {
            let Some((mut sender, endpoint)) = self.pick() else {
                // The sender lives as long as this upstream.
                let _ = changed.changed().await;
                continue;
            };
            let uri = Uri::builder()
                .scheme(if endpoint.url.is_secure() {
                    Scheme::HTTPS
                } else {
                    Scheme::HTTP
                })
                .authority(endpoint.authority)
                .path_and_query(path.clone());
            *request.uri_mut() = uri.build().map_err(|e| Status::internal(e.to_string()))?;
            let mut error = match sender.try_send_request(request).await {
                Ok(response) => {
                    return Ok(response.map(|body| Body::new(body.map_err(broken))));
                }
                Err(error) => error,
            };
            request = match error.take_message() {
                Some(request) => {
                    // The connection is about to be seen as closed.
                    tokio::task::yield_now().await;
                    request
                }
                None => return Err(broken(error.into_error())),
            };
        }
    }
}

/// The status of a call whose connection broke; gRPC's code for what may be tried again.
fn broken(error: hyper::Error) -> Status {
    let text = format!("error reading from server: {error}");
    let status = Status::from_error(Box::new(error));
    match status.code() {
        tonic::Code::Unknown | tonic::Code::Internal => Status::unavailable(text),
        _ => status,
    }
}

impl tower_service::Service<http::Request<Body>> for Upstream {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<http::Response<Body>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// `None` for zero, which switches pings off.
fn pings(keepalive: DialKeepalive) -> Option<Duration> {
    (!keepalive.time.is_zero()).then_some(keepalive.time)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config;
    use crate::net::tls::Security;

    /// The way to a cluster without members.
    pub(in crate::proxy) fn to_nobody() -> Upstream {
        let config = config::parse(&[], &[], &|_| unreachable!()).unwrap();
        let security = Security::prepare(&config).unwrap();
        let how = How {
            tls: Arc::new(Dialing::to_members(&security)),
            tls_is_usual: false,
            keepalive: DialKeepalive::NONE,
            max_send_bytes: 0,
            max_recv_bytes: 0,
        };
        Upstream::new(how, Vec::new())
    }

    #[test]
    fn endpoints_may_have_a_scheme() {
        let url = |text, tls| Endpoint::parse(text, tls).unwrap().url.to_string();
        assert_eq!(url("127.0.0.1:2379", false), "http://127.0.0.1:2379");
        assert_eq!(url("127.0.0.1:2379", true), "https://127.0.0.1:2379");
        // As with etcd's client, a scheme decides whatever certificates there are.
        assert_eq!(url("http://a:1/", true), "http://a:1");
        assert_eq!(url("https://a:1", false), "https://a:1");
        assert_eq!(url("unix:///run/etcd", false), "unix:///run/etcd");
        assert_eq!(url("unix:/run/etcd", false), "unix:///run/etcd");
        assert!(Endpoint::parse("a", false).is_err());
    }
}
