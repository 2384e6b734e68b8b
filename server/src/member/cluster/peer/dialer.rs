//! Connections to other members: clear text or TLS, over TCP or unix sockets. Connections for short
//! requests are kept for reuse.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Introduction, PeerAnswer};
use crate::config::Url;
use crate::net::socket::Socket;
use crate::net::tls::{Connection, Dialing, Security};

/// Limit for connecting, including the TLS handshake, unless elections take longer.
const DIAL_PATIENCE: Duration = Duration::from_secs(1);
/// Limit for the answer to a request.
const POST_PATIENCE: Duration = Duration::from_secs(5);
/// Requests under way per URL, and so connections for requests; others wait. Clients that renew leases at
/// a follower make it ask the leader thousands of times a second: without the bound it would open as
/// many connections, until neither it nor the leader had descriptors left.
const REQUESTS_MAX: usize = 8;

/// Answers longer than this are not read, except streams.
pub(super) const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Dialer(Arc<Inner>);

struct Inner {
    tls: Arc<Dialing>,
    patience: Duration,
    /// By URL.
    kept: Mutex<HashMap<String, Kept>>,
}

struct Kept {
    /// The most recently used connection is last. A request opens another only if there is none: so
    /// there are no more than requests.
    idle: Vec<SendRequest<Full<Bytes>>>,
    requests: Arc<Semaphore>,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            idle: Vec::new(),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
        }
    }
}

impl Dialer {
    pub(crate) fn new(security: &Security) -> Dialer {
        Dialer::between_members(security, Duration::ZERO)
    }

    /// As in etcd, the election timeout says how slow the links between the members may be: to connect
    /// takes several round trips.
    pub(crate) fn between_members(security: &Security, election_timeout: Duration) -> Dialer {
        Dialer(Arc::new(Inner {
            tls: Arc::new(Dialing::to_members(security)),
            patience: DIAL_PATIENCE.max(election_timeout),
            kept: Mutex::default(),
        }))
    }

    /// Sends a request over a new connection. The response may be a long-lived stream.
    pub(super) async fn send<B>(
        &self,
        url: &str,
        mut request: Request<B>,
    ) -> io::Result<http::Response<Incoming>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        let url = Url::parse(url).map_err(io::Error::other)?;
        name_host(&url, &mut request)?;
        let mut sender = self.open(&url).await?;
        sender.send_request(request).await.map_err(io::Error::other)
    }

    /// The same; an error if the response does not begin in time.
    pub(super) async fn send_soon(
        &self,
        url: &str,
        request: Request<Full<Bytes>>,
    ) -> io::Result<http::Response<Incoming>> {
        timeout(self.0.patience, self.send(url, request)).await?
    }

    /// Sends a request to the member with these URLs; tries them in turn until one answers.
    pub(crate) async fn post(
        &self,
        me: &Introduction,
        urls: &[String],
        path: &str,
        body: Bytes,
    ) -> io::Result<PeerAnswer> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for url in urls {
            match self.ask(me, url, path, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Reads a page of a member that need not know this one.
    pub(crate) async fn get(
        &self,
        url: &str,
        path: &str,
        patience: Duration,
    ) -> io::Result<PeerAnswer> {
        let request = Request::builder().uri(path).body(Full::default());
        let request = request.map_err(io::Error::other)?;
        timeout(patience, self.exchange(url, request)).await?
    }

    pub(super) async fn ask(
        &self,
        me: &Introduction,
        url: &str,
        path: &str,
        body: Bytes,
    ) -> io::Result<PeerAnswer> {
        let request = me
            .request("POST", path)
            .header(http::header::CONTENT_TYPE, "application/protobuf")
            .body(Full::new(body))
            .map_err(io::Error::other)?;
        timeout(POST_PATIENCE, self.exchange(url, request)).await?
    }

    /// Sends a request over a kept connection and reads the whole response.
    pub(super) async fn exchange(
        &self,
        url: &str,
        mut request: Request<Full<Bytes>>,
    ) -> io::Result<PeerAnswer> {
        let parsed = Url::parse(url).map_err(io::Error::other)?;
        name_host(&parsed, &mut request)?;
        let requests = Arc::clone(
            &self
                .0
                .kept
                .lock()
                .entry(url.to_owned())
                .or_default()
                .requests,
        );
        let _permit = requests.acquire().await.map_err(io::Error::other)?;
        loop {
            let kept = self.take(url);
            let is_new = kept.is_none();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.open(&parsed).await?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let answer = collect(response).await?;
                    self.keep(url, sender);
                    return Ok(answer);
                }
                // The member closed a kept connection before it took the request: retry on the next
                // one, at last on a new one. If the request may have been executed, only the caller
                // may repeat it.
                Err(mut error) => match error.take_message().filter(|_| !is_new) {
                    Some(unsent) => request = unsent,
                    None => return Err(io::Error::other(error.into_error())),
                },
            }
        }
    }

    fn take(&self, url: &str) -> Option<SendRequest<Full<Bytes>>> {
        let mut kept = self.0.kept.lock();
        let idle = &mut kept.get_mut(url)?.idle;
        loop {
            let sender = idle.pop()?;
            // A connection that is not ready is closed, or soon will be.
            if sender.is_ready() {
                return Some(sender);
            }
        }
    }

    fn keep(&self, url: &str, sender: SendRequest<Full<Bytes>>) {
        let mut kept = self.0.kept.lock();
        let idle = &mut kept.entry(url.to_owned()).or_default().idle;
        idle.retain(|sender| !sender.is_closed());
        if !sender.is_closed() {
            idle.push(sender);
        }
    }

    async fn open<B>(&self, url: &Url) -> io::Result<SendRequest<B>>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        let stream = timeout(self.0.patience, self.connect(url)).await??;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        // Ends when the sender is dropped and the response was read or dropped.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn connect(&self, url: &Url) -> io::Result<Box<dyn Connection>> {
        let socket = Socket::connect(url).await?;
        if !url.is_secure() {
            return Ok(Box::new(socket));
        }
        self.0.tls.connect_to(url, socket).await
    }
}

fn name_host<B>(url: &Url, request: &mut Request<B>) -> io::Result<()> {
    let address = if url.is_unix() {
        "localhost".to_owned()
    } else {
        url.address()
    };
    let host = address.parse().map_err(io::Error::other)?;
    request.headers_mut().insert(http::header::HOST, host);
    Ok(())
}

async fn collect(response: http::Response<Incoming>) -> io::Result<PeerAnswer> {
    let status = response.status().as_u16();
    let cluster_id = response.headers().get("X-Etcd-Cluster-ID");
    let cluster_id = cluster_id.and_then(|id| id.to_str().ok());
    let cluster_id = cluster_id.unwrap_or_default().to_owned();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let body = body.collect().await;
    let body = body.map_err(io::Error::other)?.to_bytes();
    Ok(PeerAnswer {
        status,
        cluster_id,
        body,
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hyper::service::service_fn;
    use tokio::net::TcpListener;

    use super::*;
    use crate::config;

    /// Answers "ok" to everything and counts connections. Closes each after `requests` requests.
    async fn serve(listener: TcpListener, connections: Arc<AtomicUsize>, requests: usize) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let served = AtomicUsize::new(1);
                let service = service_fn(|_| {
                    let is_last = served.fetch_add(1, Ordering::Relaxed) == requests;
                    let mut response = http::Response::new(Full::<Bytes>::from("ok"));
                    if is_last {
                        let close = http::HeaderValue::from_static("close");
                        response.headers_mut().insert("connection", close);
                    }
                    std::future::ready(Ok::<_, Infallible>(response))
                });
                let served = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
                served.unwrap();
            });
        }
    }

    async fn start(requests: usize) -> (Dialer, String, Arc<AtomicUsize>) {
        let config = config::parse(&[], &[], &|_| unreachable!()).unwrap();
        let dialer = Dialer::new(&Security::prepare(&config).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        tokio::spawn(serve(listener, Arc::clone(&connections), requests));
        (dialer, url, connections)
    }

    fn me() -> Introduction {
        Introduction {
            member_id: 1,
            cluster_id: 2,
            peer_urls: Vec::new(),
        }
    }

    #[tokio::test]
    async fn requests_one_after_the_other_share_a_connection() {
        let (dialer, url, connections) = start(usize::MAX).await;
        for _ in 0..100 {
            let (me, urls) = (me(), [url.clone()]);
            let answer = dialer.post(&me, &urls, "/leases", Bytes::new()).await;
            assert_eq!(answer.unwrap().body, "ok");
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn many_requests_at_once_share_a_few_connections() {
        let (dialer, url, connections) = start(usize::MAX).await;
        let asks = (0..200).map(|_| {
            let (dialer, urls) = (dialer.clone(), [url.clone()]);
            tokio::spawn(async move { dialer.post(&me(), &urls, "/leases", Bytes::new()).await })
        });
        for ask in asks.collect::<Vec<_>>() {
            assert_eq!(ask.await.unwrap().unwrap().body, "ok");
        }
        let opened = connections.load(Ordering::Relaxed);
        assert!((1..=REQUESTS_MAX).contains(&opened), "{opened}");
    }

    #[tokio::test]
    async fn a_connection_that_the_member_closed_is_replaced() {
        let (dialer, url, connections) = start(10).await;
        for _ in 0..100 {
            let (me, urls) = (me(), [url.clone()]);
            let answer = dialer.post(&me, &urls, "/leases", Bytes::new()).await;
            assert_eq!(answer.unwrap().body, "ok");
        }
        assert_eq!(connections.load(Ordering::Relaxed), 10);
    }

    #[tokio::test]
    async fn members_whose_elections_take_long_may_be_far_away() {
        let config = config::parse(&[], &[], &|_| unreachable!()).unwrap();
        let security = Security::prepare(&config).unwrap();
        let dialer = Dialer::between_members(&security, 60 * DIAL_PATIENCE);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            // The connection is the kernel's; its first bytes are read late.
            tokio::time::sleep(DIAL_PATIENCE * 5 / 4).await;
            serve(listener, Arc::default(), 1).await;
        });
        let request = me().request("GET", "/raft/stream/message/1");
        let response = dialer.send_soon(&url, request.body(Full::default()).unwrap());
        assert_eq!(response.await.unwrap().status(), 200);
    }
}
