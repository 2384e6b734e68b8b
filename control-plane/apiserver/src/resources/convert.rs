//! Converts kinds that are served in several versions and stored in one: among ours, events and
//! autoscalers.
//!
//! The objects of custom resources are the same in all versions, or a [`Converter`] converts them.
//! The plain functions leave those as they are; [`served`] and [`stored`] ask the converter.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use machinery::conversion;
use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use crate::resources::catalogue::{Resource, Storage};

/// How objects of the stored version become objects of a served one, and back, besides the version
/// that they name. A collection has one, too: between the version of the store and that of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    pub(crate) to_served: fn(&mut Value),
    pub(crate) to_stored: fn(&mut Value),
}

impl Conversion {
    /// Both versions have the same fields.
    pub(crate) const NONE: Conversion = Conversion {
        to_served: |_| {},
        to_stored: |_| {},
    };
}

/// Converts the objects of one custom resource between its versions.
pub(crate) trait Converter: Send + Sync + fmt::Debug {
    /// Converts objects to an `apiVersion`, those that are in another one with one call. The result
    /// has the order of the objects.
    fn convert<'a>(&'a self, objects: Vec<Value>, api_version: &'a str) -> Converted<'a>;

    /// Converts an object and leaves all fields that the result has, also those that the version
    /// does not have, as server-side apply needs it.
    fn convert_unpruned<'a>(&'a self, object: &'a Value, api_version: &'a str) -> ConvertedOne<'a>;

    /// True if [`Converter::convert_unpruned`] changes nothing but the version.
    fn changes_version_alone(&self) -> bool;
}

/// An object in another version.
pub(crate) type ConvertedOne<'a> = Pin<Box<dyn Future<Output = Result<Value, Status>> + Send + 'a>>;

/// The objects in another version.
pub(crate) type Converted<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Value>, Status>> + Send + 'a>>;

/// A version of a custom resource whose versions have different fields.
#[derive(Debug, Clone)]
pub(crate) struct ConvertedVersion {
    pub(crate) converter: Arc<dyn Converter>,
    /// The collection as this version shows it. Each change of a definition makes another one, so
    /// that no object is taken for current that was converted by an earlier one.
    pub(crate) view: Arc<Storage>,
}

impl ConvertedVersion {
    /// One object in the version of the view.
    pub(crate) async fn convert(&self, object: Value) -> Result<Value, Status> {
        one(&*self.converter, object, &self.view.kind.api_version()).await
    }
}

/// Events of `events.k8s.io`, which are stored as events of the core group.
pub(crate) const EVENT: Conversion = Conversion {
    to_served: conversion::event::to_events,
    to_stored: conversion::event::to_core,
};

/// Autoscalers of autoscaling/v1, which are stored as those of v2.
pub(crate) const AUTOSCALER_V1: Conversion = Conversion {
    to_served: conversion::autoscaler::to_v1,
    to_stored: conversion::autoscaler::to_v2,
};

/// Definitions in v1beta1, the version that Kubernetes stores.
pub(crate) const STORED_DEFINITION: Conversion = Conversion {
    to_served: conversion::definition::to_v1,
    to_stored: conversion::definition::to_v1beta1,
};

/// True if the resource is served as it is stored.
pub(crate) fn is_same(resource: &Resource) -> bool {
    resource.conversion.is_none()
}

/// Converts a stored object to the version of the resource.
pub(crate) fn to_served(resource: &Resource, object: &Arc<Value>) -> Arc<Value> {
    if is_same(resource) {
        return Arc::clone(object);
    }
    let mut object = Value::clone(object);
    if let Some(conversion) = resource.conversion {
        (conversion.to_served)(&mut object);
    }
    object::set_type(
        &mut object,
        &resource.kind.api_version(),
        resource.kind.kind(),
    );
    Arc::new(object)
}

/// Converts an object of the resource's version to the stored version.
pub(crate) fn to_stored(resource: &Resource, mut object: Value) -> Value {
    let (Some(storage), Some(conversion)) = (&resource.storage, resource.conversion) else {
        return object;
    };
    (conversion.to_stored)(&mut object);
    object::set_type(
        &mut object,
        &storage.kind.api_version(),
        storage.kind.kind(),
    );
    object
}

/// Converts an object of any version to that of the resource, by its converter if it has one.
pub(crate) async fn served(resource: &Resource, object: &Arc<Value>) -> Result<Arc<Value>, Status> {
    match resource.converted() {
        Some(served) => served.convert(Value::clone(object)).await.map(Arc::new),
        None => Ok(to_served(resource, object)),
    }
}

/// Converts an object of the resource's version to the stored version, by its converter if it has
/// one.
pub(crate) async fn stored(resource: &Resource, object: Value) -> Result<Value, Status> {
    match (resource.converted(), &resource.storage) {
        (Some(served), Some(storage)) => {
            one(&*served.converter, object, &storage.kind.api_version()).await
        }
        _ => Ok(to_stored(resource, object)),
    }
}

/// Converts an object from the version of one resource to that of another with the same objects.
/// One of the two may be from before a change of their definition.
pub(crate) async fn between(
    from: &Resource,
    to: &Resource,
    object: Value,
) -> Result<Value, Status> {
    if let Some(served) = to.converted() {
        return served.convert(object).await;
    }
    let stored = Arc::new(to_stored(from, object));
    let mut served = Arc::unwrap_or_clone(to_served(to, &stored));
    // Each may be the stored version of its own collection, so that neither converts.
    object::set_type(&mut served, &to.kind.api_version(), to.kind.kind());
    Ok(served)
}

async fn one(converter: &dyn Converter, object: Value, version: &str) -> Result<Value, Status> {
    let converted = converter.convert(vec![object], version).await?;
    let first = converted.into_iter().next();
    first.ok_or_else(|| Status::internal("a conversion of one object has no result"))
}

/// Why an object cannot be converted `to` or `from` a version that its definition does not have.
pub(crate) fn no_version(word: &str, version: &str) -> String {
    format!("request to convert CR {word} an invalid group/version: {version}")
}
