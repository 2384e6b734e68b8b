//! A client of a store elsewhere, over TLS where its address says so.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Attempts to reach the store, and the delay between them: 20 seconds in total.
const CONNECTS_MAX: usize = 100;
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Where the store is, and who asks it.
#[derive(Clone, Debug)]
pub(crate) struct StoreFlags {
    /// The first one that answers is used.
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
        let tls = if self.urls.iter().any(|url| url.starts_with("https:")) {
            Some(Arc::new(self.tls()?))
        } else {
            None
        };
        let mut tried = 0;
        loop {
            let mut failed = "there is no address of a store".to_owned();
            for url in &self.urls {
                match connect(url, tls.as_ref()).await {
                    Ok(channel) => return Ok(etcd_api::Client::new(channel)),
                    Err(error) => failed = format!("{url}: {}", with_causes(&*error)),
                }
            }
            if tried == CONNECTS_MAX {
                return Err(format!("the store cannot be reached: {failed}").into());
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

async fn connect(url: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Channel, Box<dyn Error>> {
    let endpoint = Endpoint::from_shared(url.to_owned())?.tcp_nodelay(true);
    let (Some(tls), Some(rest)) = (tls, url.strip_prefix("https:")) else {
        return Ok(endpoint.connect().await?);
    };
    // The connector below encrypts; to its user the connection is a plain one.
    let endpoint = Endpoint::from_shared(format!("http:{rest}"))?.origin(url.parse()?);
    let connector = TlsConnector::from(Arc::clone(tls));
    let connect = service_fn(move |uri: Uri| {
        let connector = connector.clone();
        async move {
            let (host, port) = (
                uri.host().unwrap_or_default(),
                uri.port_u16().unwrap_or(443),
            );
            let host = host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned();
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            Ok::<_, io::Error>(TokioIo::new(connector.connect(name, stream).await?))
        }
    });
    Ok(endpoint.connect_with_connector(connect).await?)
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
