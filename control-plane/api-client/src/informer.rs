//! Informers: the objects of a kind and their changes, from one watch that begins with a list.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use http::{Request, Uri};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::client::Body;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use machinery::object::{self, Object};
use machinery::schema::Kind;
use serde::Serialize;
use tower::{BoxError, service_fn};

use crate::Client;

/// A notice from an informer.
#[derive(Debug, Clone)]
pub enum Notice {
    /// These are all objects; any other known object is gone.
    Replaced(Vec<Object>),
    /// An object is new or different.
    Applied(Object),
    /// An object is gone; this is its last state.
    Deleted(Object),
}

/// Which objects to watch.
#[derive(Debug, Clone)]
pub struct Informer {
    /// The kind of the objects, in all namespaces.
    pub kind: Arc<Kind>,
    /// A field selector; empty for all objects.
    pub fields: String,
    /// Only the metadata, without `spec`, `status` and the like.
    pub metadata_only: bool,
}

impl Informer {
    /// All objects of a kind.
    pub fn of(kind: Arc<Kind>) -> Informer {
        Informer {
            kind,
            fields: String::new(),
            metadata_only: false,
        }
    }

    /// The metadata of all objects of a kind.
    pub fn metadata_of(kind: Arc<Kind>) -> Informer {
        Informer {
            metadata_only: true,
            ..Informer::of(kind)
        }
    }

    /// Only objects that satisfy this field selector.
    pub fn with_fields(mut self, fields: &str) -> Informer {
        self.fields = fields.into();
        self
    }

    /// Watches forever; a failure is logged and retried with back-off. Called on a runtime.
    pub fn run(self, client: &Client) -> impl Stream<Item = Notice> + Send + use<> {
        let Informer {
            kind,
            fields,
            metadata_only,
        } = self;
        let resource = ApiResource {
            group: kind.group().into(),
            version: kind.version().into(),
            api_version: kind.api_version(),
            kind: kind.kind().into(),
            plural: kind.plural().into(),
        };
        let mut config = watcher::Config::default().streaming_lists();
        if !fields.is_empty() {
            config = config.fields(&fields);
        }
        let kube = of_the_newest(client.kube().clone(), client.patience);
        if metadata_only {
            type Metadata = PartialObjectMeta<DynamicObject>;
            let api: Api<Metadata> = Api::all_with(kube, &resource);
            let events = watcher::watcher(api, config).default_backoff();
            notices(Arc::clone(&kind), events).left_stream()
        } else {
            let api: Api<DynamicObject> = Api::all_with(kube, &resource);
            let events = watcher::watcher(api, config).default_backoff();
            notices(kind, events).right_stream()
        }
    }
}

/// The same connection, but a watch begins with the newest state. The library asks for any: of several
/// apiservers one that lags behind would answer without what the loops have written since, and they
/// would write it again.
///
/// The library looks after a watch that falls silent, not after one whose answer never begins: it
/// would leave the informer deaf if the other end is gone without a word.
fn of_the_newest(kube: kube::Client, patience: Duration) -> kube::Client {
    let namespace = kube.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let kube = kube.clone();
        async move {
            let asked = kube.send(asking_for_the_newest(request));
            let answered = tokio::time::timeout(patience, asked).await;
            let answered = answered.map_err(|_| format!("no answer within {patience:?}"))?;
            Ok::<_, BoxError>(answered?)
        }
    });
    kube::Client::new(service, namespace)
}

/// Without a version the answer is at least as new as the question.
fn asking_for_the_newest(request: Request<Body>) -> Request<Body> {
    let (mut head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    if query
        .split('&')
        .any(|pair| pair == "sendInitialEvents=true")
    {
        let kept = query.split('&').filter(|pair| *pair != "resourceVersion=0");
        let kept: Vec<&str> = kept.collect();
        let path = format!("{}?{}", head.uri.path(), kept.join("&"));
        let mut parts = head.uri.clone().into_parts();
        parts.path_and_query = path.parse().ok().or(parts.path_and_query);
        head.uri = Uri::from_parts(parts).unwrap_or(head.uri);
    }
    Request::from_parts(head, body)
}

/// Collects the initial objects into one [`Notice::Replaced`].
fn notices<K: Serialize + Send + 'static>(
    kind: Arc<Kind>,
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
) -> impl Stream<Item = Notice> + Send {
    let gathered: Vec<Object> = Vec::new();
    events
        .scan(gathered, move |gathered, event| {
            let notice = match event {
                Ok(Event::Init) => {
                    gathered.clear();
                    None
                }
                Ok(Event::InitApply(one)) => {
                    gathered.extend(to_object(&kind, &one));
                    None
                }
                Ok(Event::InitDone) => Some(Notice::Replaced(std::mem::take(gathered))),
                Ok(Event::Apply(one)) => to_object(&kind, &one).map(Notice::Applied),
                Ok(Event::Delete(one)) => to_object(&kind, &one).map(Notice::Deleted),
                Err(error) => {
                    tracing::warn!(kind = kind.plural(), %error, "the watch ended, trying again");
                    None
                }
            };
            std::future::ready(Some(notice))
        })
        .filter_map(std::future::ready)
}

fn to_object<K: Serialize>(kind: &Kind, one: &K) -> Option<Object> {
    let mut object = serde_json::to_value(one).ok()?;
    // A watch for metadata returns objects of the kind `PartialObjectMetadata`.
    object::set_type(&mut object, &kind.api_version(), kind.kind());
    Some(object)
}
