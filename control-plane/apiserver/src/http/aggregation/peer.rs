//! One other server: how it is reached, and what it serves.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use machinery::object;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::pass;
use crate::auth::User;
use crate::auth::authorize::rbac::MASTERS;
use crate::auth::pki::Identity;
use crate::storage::reader::Reader;
use crate::webhook::address::{Place, not_reached};
use crate::webhook::trust;

/// Upper bound of requests whose answer has not begun; others wait, and their timeouts pass.
const CALLS_MAX: usize = 256;
/// Time for a connection to a server, the handshake of TLS included.
const DIAL_PATIENCE: Duration = Duration::from_secs(10);
/// Time for one look at what a server serves.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// Upper bound of the list of resources, in bytes.
const RESOURCES_BYTES_MAX: usize = 4 << 20;

/// Another server, as one state of an APIService describes it.
pub(super) struct Peer {
    /// The spec of the APIService.
    spec: Value,
    reached: Result<Reached, String>,
    calls: Semaphore,
    resources: Mutex<Option<(Arc<Value>, bool)>>,
}

struct Reached {
    place: Place,
    server_name: ServerName<'static>,
    connector: TlsConnector,
}

impl Peer {
    pub(super) fn of(service: &Value, identity: Option<&Identity>) -> Peer {
        let spec = service["spec"].clone();
        Peer {
            reached: Reached::of(&spec, identity),
            spec,
            calls: Semaphore::new(CALLS_MAX),
            resources: Mutex::default(),
        }
    }

    /// True if this is what an APIService describes.
    pub(super) fn is_of(&self, service: &Value) -> bool {
        self.spec == service["spec"]
    }

    pub(super) fn resources(&self) -> Option<(Arc<Value>, bool)> {
        self.resources.lock().clone()
    }

    /// Sends a request, whose URI is a path; waits for the head of the answer.
    pub(super) async fn send(
        &self,
        reader: &Reader,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, String> {
        let _turn = self.calls.acquire().await.map_err(|e| e.to_string())?;
        self.exchange(reader, request).await
    }

    async fn exchange(
        &self,
        reader: &Reader,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, String> {
        let reached = self.reached.as_ref().map_err(Clone::clone)?;
        let host = HeaderValue::from_str(&reached.place.host()).map_err(|e| e.to_string())?;
        request.headers_mut().insert(HOST, host);
        let dialed = tokio::time::timeout(DIAL_PATIENCE, reached.dial(reader)).await;
        let stream = dialed.map_err(|_| "dial: i/o timeout".to_owned())??;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
        // It ends with the answer: its sender is dropped here.
        tokio::spawn(connection);
        let sent = sender.send_request(request).await;
        sent.map_err(|error| error.to_string())
    }

    /// Asks for the list of resources, and keeps it. The error says why there is none.
    pub(super) async fn look(&self, reader: &Reader) -> Result<(), String> {
        let text = |key: &str| object::text(&self.spec, &[key]);
        let path = format!("/apis/{}/{}", text("group"), text("version"));
        let host = self.reached.as_ref().map(|reached| reached.place.host());
        let url = format!("https://{}{path}", host.unwrap_or_default());
        let looked = tokio::time::timeout(LOOK_PATIENCE, self.fetch(reader, &path)).await;
        let looked = looked.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        let mut resources = self.resources.lock();
        match looked {
            Ok(found) => {
                *resources = Some((Arc::new(found), true));
                Ok(())
            }
            Err(why) => {
                if let Some((_, is_fresh)) = &mut *resources {
                    *is_fresh = false;
                }
                Err(format!("failing or missing response from {url}: {why}"))
            }
        }
    }

    async fn fetch(&self, reader: &Reader, path: &str) -> Result<Value, String> {
        // Whatever the server allows to whom, its owner may look.
        let user = User {
            name: "system:kube-aggregator".to_owned(),
            groups: vec![MASTERS.to_owned()],
            ..User::default()
        };
        let request = Request::get(path)
            .header(USER_AGENT, "kube-apiserver")
            .header(ACCEPT, "application/json");
        let mut request = request
            .body(Body::empty())
            .map_err(|error| error.to_string())?;
        pass::name_user(request.headers_mut(), &user).map_err(|status| status.to_string())?;
        // Not after the requests of users, who could keep it from being seen.
        let answer = self.exchange(reader, request).await?;
        let code = answer.status();
        if !code.is_success() {
            return Err(format!("bad status: {}", code.as_u16()));
        }
        let body = Limited::new(answer.into_body(), RESOURCES_BYTES_MAX);
        let body = body.collect().await.map_err(|error| error.to_string())?;
        let body: Bytes = body.to_bytes();
        // A server that answers is there, whatever its answer is worth to discovery.
        Ok(serde_json::from_slice(&body).unwrap_or_else(|_| json!({"resources": []})))
    }
}

impl Reached {
    fn of(spec: &Value, identity: Option<&Identity>) -> Result<Reached, String> {
        let place = Place::of(spec)?;
        let name = place.server_name();
        let server_name = ServerName::try_from(name.clone())
            .map_err(|_| format!("{name:?} is no name of a server"))?;
        let identity = identity.map(|one| (one.certificate.as_bytes(), one.key.as_bytes()));
        let connector = if spec["insecureSkipTLSVerify"] == true {
            trust::connector_to_anybody(identity)?
        } else {
            trust::connector(object::text(spec, &["caBundle"]), identity)?
        };
        Ok(Reached {
            place,
            server_name,
            connector,
        })
    }

    async fn dial(&self, reader: &Reader) -> Result<TlsStream<TcpStream>, String> {
        let address = self.place.address(reader)?;
        let dialed = TcpStream::connect(&address).await;
        let stream = dialed.map_err(|error| not_reached(&address, &error))?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let secured = self.connector.connect(self.server_name.clone(), stream);
        secured.await.map_err(|error| trust::told(&error))
    }
}
