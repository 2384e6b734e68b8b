//! What is below an object: its status, its scale, and the verbs that are written as paths.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use machinery::object::{self, metadata_mut};
use machinery::selector::LabelSelector;
use machinery::status::{self, Cause, Status};
use serde_json::{Map, Value, json};

use crate::admission;
use crate::api::{Api, not_found};
use crate::auth::Answer;
use crate::clock;
use crate::http::body::{self, Expected};
use crate::http::media;
use crate::http::serve::Call;
use crate::registry::delete::Options;
use crate::registry::edit::{Edit, Step};
use crate::registry::evict;
use crate::registry::lifecycle;
use crate::registry::write::{Change, Writer, precondition_failed};
use crate::resources::catalogue::{self, Resource};
use crate::storage::entry::Entry;

/// Answers a request about a subresource.
pub(crate) async fn answer(
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
        ("eviction", _) => eviction(call, body).await,
        ("token", _) => token(call, body).await,
        ("finalize", _) => finalize(call, body).await,
        ("status" | "approval" | "ephemeralcontainers" | "resize", "get") => {
            let entry = call
                .api
                .read(
                    call.target.resource,
                    &call.target.namespace,
                    &call.target.name,
                )
                .await?;
            call.show_stored(&entry)
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

/// Reads a body as what the subresource takes.
async fn read(call: &Call<'_>, body: Bytes) -> Result<Value, Status> {
    let resource = call.target.resource;
    let expected = match resource.kind.subresource(&call.target.subresource) {
        Some(sub) => Expected {
            group: sub.group,
            version: sub.version,
            kind: sub.kind,
            message: sub.message(),
        },
        None => Expected {
            group: resource.kind.group,
            version: resource.kind.version,
            kind: resource.kind.kind,
            message: resource.kind.message(),
        },
    };
    let validation = call.options()?.validation;
    let media_type = media::content_type(call.headers);
    Ok(body::decode(&body, &media_type, &expected, validation)?.object)
}

/// The number of an object's replicas as an object of its own.
async fn scale(call: &Call<'_>, verb: &str, body: Bytes) -> Result<Response<Body>, Status> {
    let dry = call.options()?.dry;
    let change = match verb {
        "get" => {
            let object = call.stored().await?;
            return call.value(StatusCode::OK, &scale_of(&object));
        }
        "update" => ScaleChange::Replace(read(call, body).await?),
        _ => ScaleChange::Patch(call.read_patch(body).await?),
    };
    let resource = call.target.resource;
    let storage = resource.storage.ok_or_else(Status::method_not_allowed)?;
    let key = storage.key(&call.target.namespace, &call.target.name);
    let mut edit = Scaling {
        call,
        resource,
        name: &call.target.name,
        change,
    };
    let edited = call.api.edit(storage, &key, dry, &mut edit).await?;
    call.value(StatusCode::OK, &scale_of(&edited.entry().object))
}

enum ScaleChange {
    Replace(Value),
    Patch(crate::registry::patch::Patch),
}

struct Scaling<'a> {
    call: &'a Call<'a>,
    resource: &'static Resource,
    name: &'a str,
    change: ScaleChange,
}

impl Edit for Scaling<'_> {
    fn step<'a>(&'a mut self, _: &'a Api, current: Option<&'a Entry>) -> Answer<'a, Step> {
        Box::pin(async move {
            let Some(current) = current else {
                return Err(not_found(self.resource, self.name));
            };
            self.decide(&current.object).await
        })
    }
}

impl Scaling<'_> {
    async fn decide(&self, current: &Value) -> Result<Step, Status> {
        let kind = self.resource.kind;
        let old = scale_of(current);
        let mut new = match &self.change {
            ScaleChange::Replace(scale) => scale.clone(),
            ScaleChange::Patch(patch) => {
                let message = kind.subresource("scale").ok_or_else(Status::unknown_path)?;
                patch.apply_to(message.message(), &old)?.0
            }
        };
        lifecycle::match_name(self.name, &new)?;
        let asked = object::resource_version(&new);
        if !asked.is_empty() && asked != object::resource_version(current) {
            return Err(Status::stale(kind.group, kind.plural, self.name));
        }
        let uid = object::uid(&new);
        if !uid.is_empty() && uid != object::uid(current) {
            let why = "Precondition failed: UID in precondition differs";
            return Err(Status::conflict(kind.group, kind.plural, self.name, why));
        }
        let writer = self.call.writer(false);
        let admission = writer.admission("UPDATE", "scale", self.name, Some(&old));
        admission::mutate(self.call.api, &admission, &mut new).await?;
        let replicas = object::integer(&new, &["spec", "replicas"]).unwrap_or(0);
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let cause = Cause::invalid("spec.replicas", &replicas.into(), why);
            return Err(Status::invalid(
                "autoscaling",
                "Scale",
                self.name,
                vec![cause],
            ));
        }
        admission::validate(self.call.api, &admission, &mut new).await?;
        if object::integer(current, &["spec", "replicas"]) == Some(replicas) {
            return Ok(Step::Keep);
        }
        let mut object = current.clone();
        object::set(&mut object, &["spec", "replicas"], replicas.into());
        if self.resource.has_generation() {
            let next = object::generation(current) + 1;
            metadata_mut(&mut object).insert("generation".into(), next.into());
        }
        Ok(Step::Put(object))
    }
}

fn scale_of(object: &Value) -> Value {
    let mut metadata = Map::new();
    for key in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = object::metadata(object).and_then(|all| all.get(key)) {
            metadata.insert(key.into(), value.clone());
        }
    }
    let replicas = object::integer(object, &["spec", "replicas"]).unwrap_or(0);
    let running = object::integer(object, &["status", "replicas"]).unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {}, "status": {"replicas": running},
    });
    if replicas != 0 {
        scale["spec"]["replicas"] = replicas.into();
    }
    // Replication controllers have a plain map.
    let selector = match object::at(object, &["spec", "selector"]) {
        Some(Value::Object(map)) if object::kind(object) == "ReplicationController" => {
            LabelSelector::from_map(map).to_string()
        }
        Some(selector) => LabelSelector::from_object(selector)
            .map(|selector| selector.to_string())
            .unwrap_or_default(),
        None => String::new(),
    };
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// Assigns a pod to a node.
pub(crate) async fn bind(call: &Call<'_>, body: Bytes) -> Result<Response<Body>, Status> {
    let dry = call.options()?.dry;
    let mut binding = read(call, body).await?;
    let name = match call.target.name.is_empty() {
        true => object::name(&binding).to_owned(),
        false => call.target.name.clone(),
    };
    let pods = catalogue::resource("", "v1", "pods").ok_or_else(Status::unknown_path)?;
    let storage = pods.storage.ok_or_else(Status::method_not_allowed)?;
    if object::name(&binding) != name {
        let why = "name in URL does not match name in Binding object";
        return Err(Status::bad_request(why));
    }
    admit_new(call, &name, &mut binding).await?;
    let wrong = wrong_target(&binding);
    if !wrong.is_empty() {
        // Kubernetes does not call this an invalid object.
        return Err(Status::new(500, "", status::told_together(&wrong)));
    }
    let key = storage.key(&call.target.namespace, &name);
    let mut edit = Binding {
        key: &key,
        name: &name,
        binding: &binding,
    };
    call.api.edit(storage, &key, dry, &mut edit).await?;
    created(call)
}

/// Admits a body that asks for something and is not stored.
pub(crate) async fn admit_new(call: &Call<'_>, name: &str, body: &mut Value) -> Result<(), Status> {
    let writer = call.writer(false);
    let admission = writer.admission("CREATE", &call.target.subresource, name, None);
    admission::admit(call.api, &admission, body).await
}

/// The answer to a verb that is written as a path.
fn created(call: &Call<'_>) -> Result<Response<Body>, Status> {
    let mut success = status::success("", "", "", "");
    success["code"] = StatusCode::CREATED.as_u16().into();
    call.value(StatusCode::CREATED, &success)
}

fn wrong_target(binding: &Value) -> Vec<Cause> {
    let target = |key| object::text(binding, &["target", key]);
    let mut wrong = Vec::new();
    let kind = target("kind");
    if !["", "Node"].contains(&kind) {
        let known = ["Node", "<empty>"];
        wrong.push(Cause::not_supported("target.kind", &kind.into(), &known));
    }
    if target("name").is_empty() {
        wrong.push(Cause::required("target.name", ""));
    }
    wrong
}

struct Binding<'a> {
    key: &'a str,
    name: &'a str,
    binding: &'a Value,
}

impl Edit for Binding<'_> {
    fn step<'a>(&'a mut self, _: &'a Api, current: Option<&'a Entry>) -> Answer<'a, Step> {
        let step = match current {
            Some(current) => self.decide(&current.object),
            None => Err(Status::not_found("", "pods", self.name)),
        };
        Box::pin(async { step })
    }
}

impl Binding<'_> {
    fn decide(&self, pod: &Value) -> Result<Step, Status> {
        let refuse = |why: String| {
            let mut status = Status::conflict("", "pods/binding", self.name, &why);
            status.details.kind = "pods/binding".into();
            Err(status)
        };
        for (what, asked, has) in [
            ("UID", object::uid(self.binding), object::uid(pod)),
            (
                "ResourceVersion",
                object::resource_version(self.binding),
                object::resource_version(pod),
            ),
        ] {
            if !asked.is_empty() && asked != has {
                let why = precondition_failed(self.key, what, asked, has);
                return Err(Status::conflict("", "pods", self.name, &why));
            }
        }
        if object::is_deleting(pod) {
            return refuse(format!(
                "pod {} is being deleted, cannot be assigned to a host",
                self.name
            ));
        }
        let has = object::text(pod, &["spec", "nodeName"]);
        if !has.is_empty() {
            return refuse(format!(
                "pod {} is already assigned to node {has:?}",
                self.name
            ));
        }
        if !object::items(pod, &["spec", "schedulingGates"]).is_empty() {
            return refuse(format!(
                "pod {} has non-empty .spec.schedulingGates",
                self.name
            ));
        }
        let mut pod = pod.clone();
        let node = object::text(self.binding, &["target", "name"]);
        object::set(&mut pod, &["spec", "nodeName"], node.into());
        object::remove(&mut pod, &["status", "nominatedNodeName"]);
        for what in ["annotations", "labels"] {
            let given = object::metadata(self.binding).and_then(|all| all.get(what)?.as_object());
            for (key, value) in given.into_iter().flatten() {
                object::set(&mut pod, &["metadata", what, key], value.clone());
            }
        }
        scheduled(&mut pod);
        Ok(Step::Put(pod))
    }
}

/// Sets the condition PodScheduled.
fn scheduled(pod: &mut Value) {
    let now = clock::now().to_seconds();
    let mut conditions = object::items(pod, &["status", "conditions"]).to_vec();
    conditions.retain(|one| one["type"] != "PodScheduled");
    conditions.push(json!({
        "type": "PodScheduled", "status": "True", "lastTransitionTime": now,
    }));
    object::set(pod, &["status", "conditions"], conditions.into());
}

/// Deletes a pod if its disruption budgets allow.
async fn eviction(call: &Call<'_>, body: Bytes) -> Result<Response<Body>, Status> {
    let mut eviction = read(call, body).await?;
    let name = object::name(&eviction);
    if !name.is_empty() && name != call.target.name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    admit_new(call, &call.target.name, &mut eviction).await?;
    let mut options = match eviction.get("deleteOptions") {
        Some(options) => Options::of(options)?,
        None => Options::default(),
    };
    options.dry |= call.options()?.dry;
    evict::evict(call, options).await?;
    created(call)
}

async fn token(call: &Call<'_>, body: Bytes) -> Result<Response<Body>, Status> {
    let mut request = read(call, body).await?;
    let account = call.stored().await?;
    admit_new(call, &call.target.name, &mut request).await?;
    let gate = &call.api.0.config.gate;
    let answer = gate.issue_token(call.api, &account, request).await?;
    call.value(StatusCode::CREATED, &answer)
}

/// Replaces the finalizers of a namespace's spec; with the last one it goes.
async fn finalize(call: &Call<'_>, body: Bytes) -> Result<Response<Body>, Status> {
    let asked = call.options()?;
    let decoded = call.object(body, asked.validation).await?;
    let writer: Writer<'_> = call.writer(asked.dry);
    let change = Change::Replace(decoded.object);
    let (edited, _) = writer.update(&call.target.name, "finalize", change).await?;
    call.show(StatusCode::OK, &edited.entry())
}
