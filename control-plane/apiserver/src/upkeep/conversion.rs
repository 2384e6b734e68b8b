//! Converts the objects of a custom resource between versions with different fields: by a webhook, a
//! program outside, or by leaving out fields (strategy `None`).
//!
//! An object is stored in the version that was the stored one when it was written. A request for
//! another version gets what the converter makes of it. As in Kubernetes, an object gets the defaults
//! of the version that it is in before it is converted, and loses afterwards what the schema of the
//! wanted version does not have.

mod none;
mod review;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use crate::resources::convert::{Converted, ConvertedOne, Converter, no_version};
use crate::resources::custom::Schemas;
use crate::storage::reader::Reader;
use crate::storage::reflector::Reflector;
use crate::storage::store::Store;
use crate::webhook::Endpoint;
use none::Unconverted;
use review::Question;

/// How long a call may take. Kubernetes has no setting for it either.
const PATIENCE: Duration = Duration::from_secs(30);
/// What Go's client adds to the message when the time of a whole call is over.
const TIME_IS_OVER: &str = "context deadline exceeded";
const WHILE_WAITING: &str = " (Client.Timeout exceeded while awaiting headers)";

/// The converter of a definition; `None` if objects are the same in all its versions.
pub(crate) fn converter(
    definition: &Value,
    schemas: &Schemas,
    reader: &Reader,
) -> Option<Arc<dyn Converter>> {
    match Webhook::of(definition, schemas, reader) {
        Some(webhook) => Some(Arc::new(webhook)),
        None => Some(Arc::new(Unconverted::of(schemas)?)),
    }
}

/// The webhook of one definition.
struct Webhook {
    /// Where it is, or why it cannot be called.
    endpoint: Result<Endpoint, String>,
    /// The first version of reviews that both sides know.
    review_version: Option<&'static str>,
    /// All versions of the definition.
    schemas: Schemas,
    patience: Duration,
    store: Store,
    /// The reflector has the resources, which have this.
    reflector: Weak<Reflector>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self.schemas.keys();
        f.debug_list().entries(versions).finish()
    }
}

impl Webhook {
    /// The webhook of a definition; `None` if it has none.
    fn of(definition: &Value, schemas: &Schemas, reader: &Reader) -> Option<Webhook> {
        let conversion = object::at(definition, &["spec", "conversion"])?;
        if object::text(conversion, &["strategy"]) != "Webhook" {
            return None;
        }
        let config = object::at(conversion, &["webhook", "clientConfig"]).cloned();
        let config = with_bundle(config.unwrap_or_default());
        let versions = object::items(conversion, &["webhook", "conversionReviewVersions"]);
        Some(Webhook {
            endpoint: Endpoint::of(&config),
            review_version: review::version(versions),
            schemas: schemas.clone(),
            patience: PATIENCE,
            store: reader.store.clone(),
            reflector: Arc::downgrade(&reader.reflector),
        })
    }

    async fn run(&self, mut objects: Vec<Value>, to: &str) -> Result<Vec<Value>, Status> {
        check_target(&self.schemas, to)?;
        let mut converts = Vec::new();
        for (at, one) in objects.iter_mut().enumerate() {
            if is_empty(one) {
                let kind = object::kind(one).to_owned();
                object::set_type(one, to, &kind);
                continue;
            }
            complete(&self.schemas, one)?;
            if object::api_version(one) != to {
                converts.push(at);
            }
        }
        if converts.is_empty() {
            return Ok(objects);
        }
        let asked: Vec<&Value> = converts.iter().map(|at| &objects[*at]).collect();
        let converted = self.ask(&asked, to).await?;
        for (at, mut one) in converts.into_iter().zip(converted) {
            coerce(&self.schemas, &mut one);
            objects[at] = one;
        }
        Ok(objects)
    }

    /// Asks the webhook about objects of other versions.
    async fn ask(&self, objects: &[&Value], to: &str) -> Result<Vec<Value>, Status> {
        let Some(version) = self.review_version else {
            return Err(failed("no supported conversion review versions".into()));
        };
        let question = Question::new(version, objects, to);
        let subject = review::subject(objects);
        let about = |why: String| failed(format!("conversion webhook for {subject} failed: {why}"));
        let endpoint = self.endpoint.as_ref().map_err(|why| about(why.clone()))?;
        let stopped = || failed("the server stops".into());
        let reader = Reader {
            store: self.store.clone(),
            reflector: self.reflector.upgrade().ok_or_else(stopped)?,
        };
        let called = endpoint.call(&reader, &question.review, self.patience);
        let answer = called.await.map_err(|mut why| {
            if why.ends_with(TIME_IS_OVER) {
                why.push_str(WHILE_WAITING);
            }
            about(why)
        })?;
        question.read(objects, answer).map_err(failed)
    }
}

impl Converter for Webhook {
    fn convert<'a>(&'a self, objects: Vec<Value>, api_version: &'a str) -> Converted<'a> {
        Box::pin(self.run(objects, api_version))
    }

    fn convert_unpruned<'a>(&'a self, object: &'a Value, api_version: &'a str) -> ConvertedOne<'a> {
        Box::pin(async move {
            if is_empty(object) {
                let mut object = object.clone();
                let kind = object::kind(&object).to_owned();
                object::set_type(&mut object, api_version, &kind);
                return Ok(object);
            }
            let mut converted = self.ask(&[object], api_version).await?;
            let none = || failed("a conversion of one object has no result".into());
            converted.pop().ok_or_else(none)
        })
    }

    fn changes_version_alone(&self) -> bool {
        false
    }
}

/// Refuses to convert to a version that the definition does not have.
fn check_target(schemas: &Schemas, to: &str) -> Result<(), Status> {
    if schemas.contains_key(to) {
        return Ok(());
    }
    Err(failed(no_version("to", to)))
}

/// Gives an object the defaults of its version, and takes what that version does not have. Defaults
/// that would take too much memory are left out: no list could be read otherwise that has the
/// object.
fn complete(schemas: &Schemas, object: &mut Value) -> Result<(), Status> {
    let version = object::api_version(object);
    let Some(schema) = schemas.get(version) else {
        return Err(failed(no_version("from", version)));
    };
    if let Some(schema) = schema {
        schema.prune(object);
        schema.default(object);
    }
    Ok(())
}

/// Takes from a converted object what its version does not have.
fn coerce(schemas: &Schemas, object: &mut Value) {
    if let Some(Some(schema)) = schemas.get(object::api_version(object)) {
        schema.coerce(object);
    }
}

/// Authorities that are nothing but blanks are none.
fn with_bundle(mut config: Value) -> Value {
    let bundle = STANDARD.decode(object::text(&config, &["caBundle"]));
    if bundle.is_ok_and(|bundle| bundle.trim_ascii().is_empty()) {
        object::remove(&mut config, &["caBundle"]);
    }
    config
}

/// An object of nothing but its type is the same in all versions.
fn is_empty(object: &Value) -> bool {
    let fields = object.as_object();
    fields.is_some_and(|all| all.keys().all(|key| key == "kind" || key == "apiVersion"))
}

/// Kubernetes has no specific reason for these errors.
fn failed(why: String) -> Status {
    Status::new(500, "", why)
}
