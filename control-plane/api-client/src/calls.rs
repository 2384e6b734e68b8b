//! Converts calls to HTTP requests, and responses to results.

mod reading;
#[cfg(test)]
mod tests;

use std::time::Duration;

use http::{Method, Request, header};
use kube::core::response;
use machinery::api::{Api, Call, PatchForm};
use machinery::object::{self, Object};
use machinery::schema::Kind;
use machinery::status::{Details, Status};
use serde_json::{Value, json};

/// The error reasons that loops distinguish; any other reason becomes empty in the status.
const REASONS: [&str; 20] = [
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "StorageReadError",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
    "Unknown",
];

/// Longest time until an answer: an apiserver ends requests after a minute. A connection whose
/// other end is gone without a word must not hold a loop for good.
const ANSWERED_WITHIN: Duration = Duration::from_secs(75);

/// The program, which the apiserver takes for the field manager of its writes.
const PROGRAM: &str = concat!("stele-kube/", env!("CARGO_PKG_VERSION"));

/// An apiserver as an implementation of the loops' `Api`.
#[derive(Clone)]
pub struct Client {
    kube: kube::Client,
    /// Longest time until an answer begins.
    pub(crate) patience: Duration,
}

impl Client {
    /// A client over this connection.
    pub fn new(kube: kube::Client) -> Client {
        Client {
            kube,
            patience: ANSWERED_WITHIN,
        }
    }

    /// The connection.
    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }
}

impl Api for Client {
    async fn call(&self, call: Call) -> Result<Object, Status> {
        let (method, path, content, body) = request(&call);
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept(&call))
            .header(header::CONTENT_TYPE, content)
            .header(header::USER_AGENT, PROGRAM)
            .body(body)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let asked = async {
            match &call {
                Call::Read { what, .. } => reading::read(&self.kube, request, what).await,
                _ => self.kube.request(request).await.map_err(status),
            }
        };
        let answered = tokio::time::timeout(self.patience, asked).await;
        let answer: Object = answered
            .map_err(|_| Status::unavailable(format!("no answer within {:?}", self.patience)))??;
        // A server that knows the older form alone answers in that: it must not be taken for a
        // server without kinds.
        let discovers = matches!(call, Call::Discover { .. });
        if discovers && object::kind(&answer) != "APIGroupDiscoveryList" {
            return Err(Status::unavailable("discovery is not aggregated"));
        }
        Ok(answer)
    }
}

/// The path of a collection, or of one object in it.
fn path(kind: &Kind, namespace: &str, name: &str) -> String {
    let mut path = match kind.group() {
        "" => format!("/api/{}", kind.version()),
        group => format!("/apis/{group}/{}", kind.version()),
    };
    if kind.namespaced() && !namespace.is_empty() {
        path += &format!("/namespaces/{namespace}");
    }
    path += &format!("/{}", kind.plural());
    if !name.is_empty() {
        path.push('/');
        push_segment(&mut path, name);
    }
    path
}

/// Adds a name as one segment. Those of roles may have letters that mean something else in a path.
fn push_segment(path: &mut String, name: &str) {
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            path.push(char::from(byte));
        } else {
            *path += &format!("%{byte:02X}");
        }
    }
}

/// The media type of the response.
fn accept(call: &Call) -> &'static str {
    match call {
        Call::Discover { .. } => {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
        _ => "application/json",
    }
}

fn request(call: &Call) -> (Method, String, &'static str, Option<Value>) {
    const JSON: &str = "application/json";
    let of_object = match (call, call.kind()) {
        (_, Some(kind)) => path(kind, call.namespace(), call.name()),
        (Call::Read { path, .. }, None) => path.clone(),
        (Call::Discover { core: true }, None) => "/api".to_owned(),
        (_, None) => "/apis".to_owned(),
    };
    let below = |subresource: &str| match subresource {
        "" => of_object.clone(),
        subresource => format!("{of_object}/{subresource}"),
    };
    match call {
        Call::Get { .. } | Call::List { .. } | Call::Discover { .. } | Call::Read { .. } => {
            (Method::GET, of_object, JSON, None)
        }
        Call::Create { kind, object } => {
            let path = path(kind, object::namespace(object), "");
            (Method::POST, path, JSON, Some(object.clone()))
        }
        Call::Update {
            subresource,
            object,
            ..
        } => (Method::PUT, below(subresource), JSON, Some(object.clone())),
        Call::Patch {
            subresource,
            form,
            patch,
            ..
        } => {
            let mut path = below(subresource);
            let content = match form {
                PatchForm::Merge => "application/merge-patch+json",
                PatchForm::Strategic => "application/strategic-merge-patch+json",
                PatchForm::Apply(manager) => {
                    path += &format!("?fieldManager={manager}&force=true");
                    "application/apply-patch+yaml"
                }
            };
            (Method::PATCH, path, content, Some(patch.clone()))
        }
        Call::Delete { options, .. } => {
            let body = Some(options.to_object());
            (Method::DELETE, of_object, JSON, body)
        }
        Call::DeleteCollection { .. } => (Method::DELETE, of_object, JSON, None),
        Call::Bind { pod, uid, node, .. } => {
            let mut body = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            if !uid.is_empty() {
                body["metadata"]["uid"] = uid.as_str().into();
            }
            (Method::POST, below("binding"), JSON, Some(body))
        }
        Call::Evict { pod, options, .. } => {
            let mut body = json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod},
            });
            body["deleteOptions"] = options.to_object();
            (Method::POST, below("eviction"), JSON, Some(body))
        }
    }
}

/// The API's own error; any other failure becomes "unavailable".
fn status(error: kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => of_answer(&status),
        other => Status::unavailable(other.to_string()),
    }
}

fn of_answer(answer: &response::Status) -> Status {
    let known = REASONS.into_iter().find(|known| *known == answer.reason);
    let mut status = Status::new(
        answer.code,
        known.unwrap_or_default(),
        answer.message.clone(),
    );
    if let Some(details) = &answer.details {
        *status.details = Details {
            name: details.name.clone(),
            group: details.group.clone(),
            kind: details.kind.clone(),
            uid: details.uid.clone(),
            causes: Vec::new(),
            retry_after_seconds: details.retry_after_seconds,
            ..Details::default()
        };
    }
    status
}
