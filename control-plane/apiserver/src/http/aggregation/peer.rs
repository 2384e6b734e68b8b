//! One other server: how it is reached, and what it serves.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT, ETAG, HOST, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use machinery::object;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde_json::{Map, Value};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::name_user;
use crate::auth::User;
use crate::auth::authorize::rbac::MASTERS;
use crate::auth::pki::Identity;
use crate::http::openapi::{self, Document, converted, v2};
use crate::storage::reader::Reader;
use crate::webhook::address::{Place, not_reached};
use crate::webhook::trust;

/// Upper bound of requests whose answer has not begun; others wait, and their timeouts pass.
const CALLS_MAX: usize = 256;
/// Time for a connection to a server, the handshake of TLS included.
const DIAL_PATIENCE: Duration = Duration::from_secs(10);
/// Time for one look at what a server serves.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// Upper bound of the list of resources, and of a document of OpenAPI, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Another server, as one state of an APIService describes it.
pub(super) struct Peer {
    /// The spec of the APIService.
    spec: Value,
    reached: Result<Reached, String>,
    calls: Semaphore,
    resources: Mutex<Option<(Arc<Value>, bool)>>,
    /// Where its OpenAPI document is, if it has one.
    document: Mutex<Option<String>>,
    old_document: Mutex<OldDocument>,
    converted: Mutex<Converted>,
}

/// What a document of OpenAPI v2 says about the version of a peer.
#[derive(Default)]
struct OldDocument {
    /// By which the server knows whether the document is still the same.
    tag: Option<HeaderValue>,
    about: Option<Arc<[u8]>>,
    /// The document with this tag is too large: what is known is of one before it.
    is_too_large: bool,
}

/// A document of OpenAPI v3 that is made here.
#[derive(Default)]
struct Converted {
    /// The server said last that it has no index of v3.
    is_wanted: bool,
    /// What the document of v2 said of which it was made, and the document unless it is too large.
    made: Option<(Arc<[u8]>, Option<Document>)>,
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
            document: Mutex::default(),
            old_document: Mutex::default(),
            converted: Mutex::default(),
        }
    }

    /// True if this is what an APIService describes.
    pub(super) fn is_of(&self, service: &Value) -> bool {
        self.spec == service["spec"]
    }

    pub(super) fn resources(&self) -> Option<(Arc<Value>, bool)> {
        self.resources.lock().clone()
    }

    /// Where the document about its version of the group is.
    pub(super) fn document(&self) -> Option<String> {
        let text = |key: &str| object::text(&self.spec, &[key]);
        match self.converted() {
            Some(document) => {
                let path = format!("apis/{}/{}", text("group"), text("version"));
                Some(openapi::url(&path, &document))
            }
            None => self.document.lock().clone(),
        }
    }

    /// The document about its version of the group if it was made here.
    pub(super) fn converted(&self) -> Option<Document> {
        self.converted.lock().made.as_ref()?.1.clone()
    }

    /// What the document of OpenAPI v2 says about its version of the group.
    pub(super) fn old_document(&self) -> Option<Arc<[u8]>> {
        self.old_document.lock().about.clone()
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
        // It ends with the answer, because its sender is dropped here, or becomes another protocol.
        tokio::spawn(connection.with_upgrades());
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
        if looked.is_ok() {
            self.look_for_document(reader, &path).await;
            self.look_for_old_document(reader).await;
            self.convert().await;
        }
        let (found, told) = match looked {
            // A server that answers is there, whatever its answer is worth to discovery.
            Ok(found) => (found, Ok(())),
            Err(why) => {
                let why = format!("failing or missing response from {url}: {why}");
                (None, Err(why))
            }
        };
        take_in(&mut self.resources.lock(), found);
        told
    }

    /// Asks where the OpenAPI document is. A server may have none, and an old one no index either.
    async fn look_for_document(&self, reader: &Reader, path: &str) {
        let asked = async {
            let answer = self.ask(reader, "/openapi/v3", None).await?;
            let is_absent = answer.status() == StatusCode::NOT_FOUND;
            let index = if is_absent {
                None
            } else {
                object_in(answer).await?
            };
            Ok::<_, String>((is_absent, index))
        };
        let Ok(Ok((is_absent, index))) = tokio::time::timeout(LOOK_PATIENCE, asked).await else {
            return;
        };
        if is_absent || index.is_some() {
            self.converted.lock().is_wanted = is_absent;
        }
        take_place(&mut self.document.lock(), index.as_ref(), path);
    }

    /// Asks for the document of OpenAPI v2. As in Kubernetes, any answer without one leaves the
    /// last one, also that there is none, and so does one that is too large.
    async fn look_for_old_document(&self, reader: &Reader) {
        let tag = self.old_document.lock().tag.clone();
        let asked = self.ask(reader, "/openapi/v2", tag);
        let Ok(Ok(answer)) = tokio::time::timeout(LOOK_PATIENCE, asked).await else {
            return;
        };
        let tag = answer.headers().get(ETAG).cloned();
        let text = |key: &str| object::text(&self.spec, &[key]);
        match told(answer, text("group"), text("version")).await {
            Some(Ok(about)) => {
                let mut known = self.old_document.lock();
                let about = same_or(known.about.take(), about);
                *known = OldDocument {
                    tag,
                    about: Some(about),
                    is_too_large: false,
                };
            }
            Some(Err(limit)) => self.refuse_old_document(tag, limit),
            None => {}
        }
    }

    /// Says of a document, once, that it is too large. It is asked for again when it has changed.
    fn refuse_old_document(&self, tag: Option<HeaderValue>, limit: usize) {
        if self.old_document.lock().refuse(tag) {
            self.warn_of_size(limit);
        }
    }

    fn warn_of_size(&self, limit: usize) {
        let text = |key: &str| object::text(&self.spec, &[key]);
        let name = format!("{}.{}", text("version"), text("group"));
        tracing::warn!(name, limit, "the OpenAPI v2 of an APIService is too large");
    }

    /// As in Kubernetes, makes the document of v3 of a server that has none of what it says in v2.
    async fn convert(&self) {
        let about = self.old_document();
        let Some(of) = self.converted.lock().wants(about) else {
            return;
        };
        let from = Arc::clone(&of);
        // It takes long, and other servers are looked at meanwhile.
        let made = tokio::task::spawn_blocking(move || converted::of(&from)).await;
        let Ok(made) = made else {
            return;
        };
        if let Err(limit) = made {
            self.warn_of_size(limit);
        }
        self.converted.lock().made = Some((of, made.ok()));
    }

    /// The object at a path; `None` if the answer is something else.
    async fn fetch(&self, reader: &Reader, path: &str) -> Result<Option<Value>, String> {
        object_in(self.ask(reader, path, None).await?).await
    }

    /// Asks for a path as this server itself. With a tag, what has it still is not sent.
    async fn ask(
        &self,
        reader: &Reader,
        path: &str,
        tag: Option<HeaderValue>,
    ) -> Result<Response<Incoming>, String> {
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
        if let Some(tag) = tag {
            request.headers_mut().insert(IF_NONE_MATCH, tag);
        }
        name_user(request.headers_mut(), &user).map_err(|status| status.to_string())?;
        // Not after the requests of users, who could keep it from being seen.
        self.exchange(reader, request).await
    }
}

/// The object in an answer; `None` if the answer is something else.
async fn object_in(answer: Response<Incoming>) -> Result<Option<Value>, String> {
    let code = answer.status();
    if !code.is_success() {
        return Err(format!("bad status: {}", code.as_u16()));
    }
    let body = limited(answer).await.map_err(|error| error.to_string())?;
    Ok(read(&body).map(Value::Object))
}

/// The body of an answer to this server itself.
async fn limited<B>(answer: Response<B>) -> Result<Bytes, Box<dyn Error + Send + Sync>>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
    Ok(body.collect().await?.to_bytes())
}

/// Takes the list of resources that was found, or else says of the last one that it is not fresh:
/// without it, clients would believe that the server serves nothing.
fn take_in(known: &mut Option<(Arc<Value>, bool)>, found: Option<Value>) {
    let last = known.take().map(|(list, _)| list);
    *known = match found {
        Some(found) => Some((same_or(last, Arc::new(found)), true)),
        None => last.map(|list| (list, false)),
    };
}

/// Takes the place of a version's document from an index. As in Kubernetes, an answer without one
/// leaves the place of the last one.
fn take_place(known: &mut Option<String>, index: Option<&Value>, path: &str) {
    let Some(index) = index else {
        return;
    };
    let url = index["paths"][path.trim_start_matches('/')]["serverRelativeURL"].as_str();
    // Nothing else of the server is shown under this server's address.
    let is_it = |url: &&str| url.split('?').next() == Some(&format!("/openapi/v3{path}"));
    *known = url.filter(is_it).map(str::to_owned);
}

/// The object in a body; `None` if there is something else.
fn read(body: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(body).ok()
}

/// What was found; what is known if that is the same. Servers are looked at again and again, and
/// what is made of their answers is kept as long as it is of the same ones.
fn same_or<T: PartialEq + ?Sized>(known: Option<Arc<T>>, found: Arc<T>) -> Arc<T> {
    known.filter(|known| *known == found).unwrap_or(found)
}

/// What an answer says in OpenAPI v2 about one version of a group. `None` if it has no document;
/// the error is the limit that it is beyond.
async fn told<B>(
    answer: Response<B>,
    group: &str,
    version: &str,
) -> Option<Result<Arc<[u8]>, usize>>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if answer.status() != StatusCode::OK {
        return None;
    }
    match tokio::time::timeout(LOOK_PATIENCE, limited(answer)).await {
        Ok(Ok(body)) => about(&body, group, version),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Some(Err(ANSWER_BYTES_MAX)),
        _ => None,
    }
}

/// What a document of OpenAPI v2 says about one version of a group. `None` if it is none; the error
/// is the limit that it is beyond.
fn about(document: &[u8], group: &str, version: &str) -> Option<Result<Arc<[u8]>, usize>> {
    let about = v2::foreign::about(read(document)?.into(), group, version);
    Some(about.map(|about| about.to_string().into_bytes().into()))
}

impl OldDocument {
    /// Takes a document with this tag as seen, and keeps what the last one said; false if it was
    /// seen before.
    fn refuse(&mut self, tag: Option<HeaderValue>) -> bool {
        let is_known = self.is_too_large && self.tag == tag;
        self.is_too_large = true;
        self.tag = tag;
        !is_known
    }
}

impl Converted {
    /// What to make a document from; `None` if there is nothing to make. One that is not wanted any
    /// more is dropped.
    fn wants(&mut self, about: Option<Arc<[u8]>>) -> Option<Arc<[u8]>> {
        let about = about.filter(|_| self.is_wanted);
        if about.is_none() {
            self.made = None;
        }
        let made = self.made.as_ref();
        about.filter(|about| made.is_none_or(|(of, _)| !Arc::ptr_eq(of, about)))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_that_is_no_list_leaves_the_last_one_which_is_not_fresh() {
        let list = json!({"resources": [{"name": "nodes"}]});
        let mut known = None;
        let mut take = |body: &str| {
            take_in(&mut known, read(body.as_bytes()).map(Value::Object));
            known.clone()
        };
        let with = |is_fresh| Some((Arc::new(list.clone()), is_fresh));
        assert_eq!(take("<html>"), None);
        for wrong in ["<html>", "", "[]", "null"] {
            assert_eq!(take(&list.to_string()), with(true));
            assert_eq!(take(wrong), with(false), "{wrong}");
        }
    }

    #[test]
    fn the_place_of_a_document_stays_until_another_index_is_read() {
        let path = "/apis/a.test/v1";
        let url = "/openapi/v3/apis/a.test/v1?hash=1";
        let index = |url: &str| json!({"paths": {"apis/a.test/v1": {"serverRelativeURL": url}}});
        let mut known = None;
        let mut take = |index: Option<Value>| {
            take_place(&mut known, index.as_ref(), path);
            known.clone()
        };
        assert_eq!(take(None), None);
        assert_eq!(take(Some(index(url))).as_deref(), Some(url));
        assert_eq!(take(None).as_deref(), Some(url));
        assert_eq!(take(Some(index("/openapi/v3/apis/other"))), None);
        take(Some(index(url)));
        assert_eq!(take(Some(json!({}))), None);
    }

    #[test]
    fn what_is_found_again_stays_in_its_place() {
        let (known, other): (Arc<[u8]>, Arc<[u8]>) = (Arc::from(*b"one"), Arc::from(*b"two"));
        let again = same_or(Some(Arc::clone(&known)), Arc::from(*b"one"));
        assert!(Arc::ptr_eq(&again, &known));
        for before in [None, Some(known)] {
            let found = same_or(before, Arc::clone(&other));
            assert!(Arc::ptr_eq(&found, &other));
        }
    }

    #[test]
    fn what_is_no_document_does_not_take_the_place_of_one() {
        let document = json!({"paths": {"/apis/a.test/v1/things": {}}}).to_string();
        let about = |document: &str| about(document.as_bytes(), "a.test", "v1");
        assert!(about(&document).is_some_and(|about| about.is_ok()));
        for wrong in ["", "<html>", &document[1..], "null", "[]"] {
            assert_eq!(about(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn an_answer_without_a_document_is_none() {
        let document = json!({"paths": {"/apis/a.test/v1/things": {}}}).to_string();
        let told = async |code: StatusCode| {
            let mut answer = Response::new(Body::from(document.clone()));
            *answer.status_mut() = code;
            told(answer, "a.test", "v1").await
        };
        assert!(told(StatusCode::OK).await.is_some());
        for code in [StatusCode::NOT_MODIFIED, StatusCode::NOT_FOUND] {
            assert_eq!(told(code).await, None, "{code}");
        }
    }

    #[test]
    fn a_document_of_v3_is_made_once_of_each_of_v2_while_there_is_no_other() {
        let (one, other): (Arc<[u8]>, Arc<[u8]>) = (Arc::from(*b"{}"), Arc::from(*b"{}"));
        let mut converted = Converted::default();
        assert_eq!(converted.wants(Some(Arc::clone(&one))), None);
        converted.is_wanted = true;
        assert!(converted.wants(Some(Arc::clone(&one))).is_some());
        converted.made = Some((Arc::clone(&one), None));
        assert_eq!(converted.wants(Some(Arc::clone(&one))), None);
        assert!(converted.wants(Some(other)).is_some());
        converted.is_wanted = false;
        assert_eq!(converted.wants(Some(one)), None);
        assert!(converted.made.is_none());
    }

    #[test]
    fn a_document_that_is_too_large_is_told_once_and_leaves_the_last_one() {
        let tag = |tag: &'static str| Some(HeaderValue::from_static(tag));
        let mut document = OldDocument {
            tag: tag("\"1\""),
            about: Some(Arc::from(*b"{}")),
            is_too_large: false,
        };
        assert!(document.refuse(tag("\"2\"")));
        assert!(!document.refuse(tag("\"2\"")));
        assert!(document.refuse(tag("\"3\"")));
        assert_eq!(document.tag, tag("\"3\""));
        assert!(document.about.is_some());
        // A server without tags sends it again and again.
        assert!(document.refuse(None));
        assert!(!document.refuse(None));
    }
}
