//! Requests about subresources: the status, the scale, and actions that are written as paths.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use machinery::defaults;
use machinery::status::{self, Status};
use serde_json::Value;

use super::Call;
use crate::http::answer::reply;
use crate::http::answer::shown::Shown;
use crate::http::media::{self, Accept, Form};
use crate::http::question::body::{self, Expected};
use crate::registry::verbs::scale::scale_of;
use crate::registry::verbs::write::Change;
use crate::resources::catalogue::Resource;
use crate::storage::views;

/// Serves a request about a subresource.
pub(super) async fn answer(
    call: &Call<'_>,
    verb: &str,
    body: Bytes,
) -> Result<Response<Body>, Status> {
    let name = call.target.subresource.as_str();
    let known = call
        .target
        .resource
        .kind
        .subresource(name)
        .ok_or_else(Status::unknown_path)?;
    if !known.verbs.contains(&verb) {
        return Err(Status::method_not_allowed());
    }
    match (name, verb) {
        ("scale", _) => scale(call, verb, body).await,
        ("binding", _) => bind(call, body).await,
        ("eviction", _) => evict(call, body).await,
        ("token", _) => token(call, body).await,
        ("finalize", _) => finalize(call, body).await,
        ("status" | "approval" | "ephemeralcontainers" | "resize", "get") => {
            let reader = &call.api.reader();
            let target = call.target;
            let stored = reader
                .read(&target.resource, &target.namespace, &target.name)
                .await?;
            // Kubernetes hides fields only of the object itself.
            if stored.hides_a_field() {
                let whole = stored.decoded()?;
                return call.show(StatusCode::OK, &whole).await;
            }
            call.show_stored(&stored).await
        }
        ("status" | "approval" | "ephemeralcontainers" | "resize", "update") => {
            call.replace(body, name).await
        }
        ("status" | "approval" | "ephemeralcontainers" | "resize", "patch") => {
            call.patch(body, name).await
        }
        _ => Err(Status::new(
            501,
            "NotImplemented",
            format!("{name} needs a node that runs containers"),
        )),
    }
}

/// Decodes the body of a subresource.
async fn read(call: &Call<'_>, body: Bytes) -> Result<Value, Status> {
    let resource = &call.target.resource;
    let expected = match resource.kind.subresource(&call.target.subresource) {
        Some(sub) => Expected {
            group: sub.group(),
            version: sub.version(),
            kind: sub.kind(),
            message: sub.message(),
        },
        None => Expected {
            group: resource.kind.group(),
            version: resource.kind.version(),
            kind: resource.kind.kind(),
            message: resource.kind.message(),
        },
    };
    let validation = call.options()?.validation;
    let media_type = media::content_type(call.headers);
    let body::Decoded { object, warnings } =
        body::decode(&body, &media_type, &expected, validation)?;
    call.warnings.add(warnings);
    if let Some(record) = call.audit {
        record.request_object(&object, |sent| {
            defaults::apply(expected.group, expected.kind, sent);
        });
    }
    Ok(object)
}

/// Reads or writes the number of replicas, as a separate object.
async fn scale(call: &Call<'_>, verb: &str, body: Bytes) -> Result<Response<Body>, Status> {
    let dry = call.options()?.dry;
    let change = match verb {
        "get" => {
            let object = stored(call).await?;
            let scale = scale_of(&call.target.resource, &object)?;
            has_replicas(&call.target.resource, &object)?;
            return show_scale(call, &scale);
        }
        "update" => Change::Replace(read(call, body).await?),
        _ => call.read_patch(body)?,
    };
    let edited = call.writer(dry).scale(&call.target.name, change).await?;
    let resource = &call.target.resource;
    let object = views::of_decoded(resource, edited.entry_ref()).await?;
    show_scale(call, &scale_of(resource, &object)?)
}

/// Answers with a scale, as a table if the client prefers that.
fn show_scale(call: &Call<'_>, scale: &Value) -> Result<Response<Body>, Status> {
    let accept = Accept::negotiate(call.headers, true).unwrap_or(Accept::PLAIN);
    if accept.form != Form::Table {
        return call.value(StatusCode::OK, scale);
    }
    let shown = Shown {
        accept,
        ..call.shown()?
    };
    let body = shown.table_of_scale(scale)?;
    Ok(reply::bytes(
        StatusCode::OK,
        accept.encoding.media_type(),
        body,
    ))
}

/// Refuses to show the scale of a custom resource without a number of replicas, as Kubernetes does:
/// 0 would be taken for what was asked for.
fn has_replicas(resource: &Resource, object: &Value) -> Result<(), Status> {
    let custom = resource.custom.as_ref();
    let Some(scale) = custom.and_then(|custom| custom.scale.as_ref()) else {
        return Ok(());
    };
    let path: Vec<&str> = scale.spec_replicas.iter().map(String::as_str).collect();
    if machinery::object::at(object, &path).is_some() {
        return Ok(());
    }
    let path = path.join(".");
    let why = format!("the spec replicas field \".{path}\" does not exist");
    Err(Status::internal(&why))
}

/// Assigns a pod to a node.
pub(super) async fn bind(call: &Call<'_>, body: Bytes) -> Result<Response<Body>, Status> {
    let dry = call.options()?.dry;
    let binding = read(call, body).await?;
    let target = call.target;
    call.writer(dry)
        .bind(&target.subresource, &target.name, binding)
        .await?;
    created(call)
}

/// Deletes a pod if its disruption budgets allow it.
async fn evict(call: &Call<'_>, body: Bytes) -> Result<Response<Body>, Status> {
    let eviction = read(call, body).await?;
    let dry = call.options()?.dry;
    call.writer(dry)
        .evict(&call.target.name, eviction, dry)
        .await?;
    created(call)
}

/// Issues a token for a service account.
async fn token(call: &Call<'_>, body: Bytes) -> Result<Response<Body>, Status> {
    let request = read(call, body).await?;
    let writer = call.writer(false);
    let token = writer.issue_token(&call.target.name, request).await?;
    call.value(StatusCode::CREATED, &token)
}

/// Replaces the finalizers of a namespace's spec; without any left, a namespace in deletion is
/// removed.
async fn finalize(call: &Call<'_>, body: Bytes) -> Result<Response<Body>, Status> {
    let asked = call.options()?;
    let decoded = call.object(body, asked.validation).await?;
    let change = Change::Replace(decoded.object);
    let writer = call.writer(asked.dry);
    let (edited, _) = writer.update(&call.target.name, "finalize", change).await?;
    call.show(StatusCode::OK, &edited.decoded()).await
}

/// The response to an action that is written as a path.
fn created(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let mut success = status::success("", "", "", "");
    success["code"] = StatusCode::CREATED.as_u16().into();
    call.value(StatusCode::CREATED, &success)
}

/// The target's object in the served version.
async fn stored(call: &Call<'_>) -> Result<std::sync::Arc<Value>, Status> {
    let reader = &call.api.reader();
    let target = call.target;
    let kind = &target.resource.kind;
    reader.get(kind, &target.namespace, &target.name).await
}
