//! A client of a store elsewhere, over TLS where its address says so.
//!
//! There is one connection. When it breaks, or its server answers no pings, the next server of the
//! store takes its place.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;
use tower::service_fn;

/// Attempts to reach the store, and the delay between them: 20 seconds in total.
const CONNECTS_MAX: usize = 100;
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Longest time until a server is connected. After that the next one is tried.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
/// Interval of pings while calls are under way, and time for their answer, as in Kubernetes. Pings
/// without calls would make etcd close the connection.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(10);

/// Where the store is, and who asks it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreFlags {
    /// Its servers. Calls go to the first one that answers, and to others when it does not.
    pub(crate) urls: Vec<String>,
    /// Authorities of its certificate (PEM); those of the system if none are given.
    pub(crate) authority: Option<PathBuf>,
    /// The certificate to show (PEM), and its key.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl StoreFlags {
    /// Connects, with retries, as the store may be starting.
    pub(crate) async fn connect(&self) -> Result<etcd_api::Client, Box<dyn Error>> {
        let first = self.urls.first().ok_or("there is no address of a store")?;
        let tls = if self.urls.iter().any(|url| url.starts_with("https:")) {
            Some(TlsConnector::from(Arc::new(self.tls()?)))
        } else {
            None
        };
        let servers = Arc::new(Servers {
            urls: self.urls.clone(),
            tls,
            next: AtomicUsize::new(0),
        });
        let endpoint = endpoint(first)?
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_PATIENCE);
        let mut tried = 0;
        loop {
            let servers = Arc::clone(&servers);
            let connect = service_fn(move |_: Uri| {
                let servers = Arc::clone(&servers);
                async move { servers.connect().await.map(TokioIo::new) }
            });
            match endpoint.connect_with_connector(connect).await {
                Ok(channel) => return Ok(etcd_api::Client::new(channel)),
                Err(error) if tried == CONNECTS_MAX => {
                    let failed = with_causes(&error);
                    return Err(format!("the store cannot be reached: {failed}").into());
                }
                Err(_) => {}
            }
            tried += 1;
            tokio::time::sleep(CONNECT_AGAIN_AFTER).await;
        }
    }

    fn tls(&self) -> Result<ClientConfig, Box<dyn Error>> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.authority {
            for certificate in certificates(path)? {
                roots.add(certificate)?;
            }
        } else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let pem = read(key)?;
                let secret = PrivateKeyDer::from_pem_slice(pem.as_bytes());
                let secret = secret.map_err(|error| format!("{}: {error}", key.display()))?;
                config.with_client_auth_cert(certificates(certificate)?, secret)?
            }
            (None, None) => config.with_no_client_auth(),
            _ => return Err("--etcd-certfile and --etcd-keyfile belong together".into()),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// The servers of a store.
struct Servers {
    urls: Vec<String>,
    tls: Option<TlsConnector>,
    /// The one to try first.
    next: AtomicUsize,
}

/// An open connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Servers {
    /// Connects to the first server that answers. The next time, another one is tried before it.
    async fn connect(&self) -> Result<Box<dyn Stream>, Box<dyn Error + Send + Sync>> {
        let (count, first) = (self.urls.len(), self.next.load(Ordering::Relaxed));
        let mut failed = Vec::new();
        for at in (first..first + count).map(|turn| turn % count) {
            let url = &self.urls[at];
            let connected = tokio::time::timeout(CONNECTED_WITHIN, self.connect_to(url));
            match connected.await {
                Ok(Ok(stream)) => {
                    self.next.store(at + 1, Ordering::Relaxed);
                    return Ok(stream);
                }
                Ok(Err(error)) => failed.push(format!("{url}: {}", with_causes(&*error))),
                Err(_) => failed.push(format!("{url}: no connection within {CONNECTED_WITHIN:?}")),
            }
        }
        Err(failed.join("; ").into())
    }

    async fn connect_to(&self, url: &str) -> Result<Box<dyn Stream>, Box<dyn Error + Send + Sync>> {
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Ok(Box::new(UnixStream::connect(path).await?));
        }
        let uri: Uri = url.parse()?;
        let tls = self.tls.as_ref().filter(|_| url.starts_with("https:"));
        let port = uri
            .port_u16()
            .unwrap_or(if tls.is_some() { 443 } else { 80 });
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = tls else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}

/// What requests name as their server. Its connector encrypts where it has to; to its user the
/// connection is a plain one.
fn endpoint(url: &str) -> Result<Endpoint, Box<dyn Error>> {
    Ok(match url.strip_prefix("https:") {
        Some(rest) => Endpoint::from_shared(format!("http:{rest}"))?.origin(url.parse()?),
        None => Endpoint::from_shared(url.to_owned())?,
    })
}

/// An error with what caused it: the transport alone says only that it failed.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    found.map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn listener() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (listener, url)
    }

    #[tokio::test]
    async fn the_next_server_takes_the_place_of_one_that_is_lost() {
        let (one, first) = listener().await;
        let (other, second) = listener().await;
        let servers = Servers {
            urls: vec![first.clone(), second.clone()],
            tls: None,
            next: AtomicUsize::new(0),
        };
        let connected = servers.connect().await;
        one.accept().await.unwrap();
        drop((connected, one));
        // Each time, the one that was lost is tried last, and refuses.
        for _ in 0..3 {
            let connected = servers.connect().await;
            other.accept().await.unwrap();
            drop(connected);
        }
        drop(other);
        let failed = servers.connect().await.err().unwrap().to_string();
        assert!(
            failed.contains(&first) && failed.contains(&second),
            "{failed}"
        );
    }
}
