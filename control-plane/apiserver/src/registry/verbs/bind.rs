//! Binding: assigns a pod to a node.

use machinery::status::{self, Cause, Status};
use machinery::{name, object};
use serde_json::{Value, json};

use crate::auth::Answer;
use crate::basics::clock;
use crate::registry::lifecycle;
use crate::registry::verbs::edit::{Edit, Step};
use crate::registry::verbs::write::{precondition_failed, told_key};
use crate::registry::verbs::writer::Writer;
use crate::storage::decoded::DecodedObject;

impl Writer<'_> {
    /// Assigns the pod of a binding to its node. The writer's resource is the one that the binding
    /// was sent to. The pod's name is in its path or, if that is empty, in the body.
    pub(crate) async fn bind(
        &self,
        subresource: &str,
        name: &str,
        mut binding: Value,
    ) -> Result<(), Status> {
        lifecycle::match_namespace(&self.resource, self.namespace, &mut binding)?;
        let name = if name.is_empty() {
            object::name(&binding).to_owned()
        } else {
            name.to_owned()
        };
        let pods = self.registry.reader.resource("", "v1", "pods")?;
        let storage = pods.stored()?;
        if object::name(&binding) != name {
            let why = "name in URL does not match name in Binding object";
            return Err(Status::bad_request(why));
        }
        self.admit_body(subresource, &name, &mut binding).await?;
        let wrong = wrong_target(&binding);
        if !wrong.is_empty() {
            // Kubernetes does not report this as an invalid object.
            return Err(Status::new(500, "", status::told_together(&wrong)));
        }
        nameable(&name)?;
        let key = storage.key(self.namespace, &name);
        let mut edit = Binding {
            key: told_key(&key, self.dry),
            name: &name,
            binding: &binding,
        };
        let edited = self.registry.edit(storage, &key, self.dry, &mut edit).await;
        edited.map(|_| ())
    }
}

/// Refuses a name that cannot be part of a path.
fn nameable(name: &str) -> Result<(), Status> {
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let wrong = name::path_segment(name);
    if wrong.is_empty() {
        return Ok(());
    }
    let why = wrong.join(";");
    Err(Status::bad_request(format!(
        "Name parameter invalid: {name:?}: {why}"
    )))
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
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step> {
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
        let condition = json!({
            "type": "PodScheduled", "status": "True",
            "lastTransitionTime": clock::now().to_seconds(),
        });
        object::set_condition(&mut pod, condition);
        Ok(Step::Put(pod))
    }
}
