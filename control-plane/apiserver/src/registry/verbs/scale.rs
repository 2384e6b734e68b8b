//! The scale of an object: its number of replicas, read and written as a separate object.

use machinery::apply;
use machinery::object::{self, metadata_mut};
use machinery::selector::LabelSelector;
use machinery::status::{Cause, Status};
use serde_json::{Map, Value, json};

use crate::admission::UPDATE;
use crate::auth::Answer;
use crate::registry::lifecycle;
use crate::registry::strategy::{self, Generation};
use crate::registry::verbs::edit::{Edit, Edited, Step};
use crate::registry::verbs::write::{Change, check_version};
use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::storage::decoded::DecodedObject;
use crate::storage::views;

impl Writer<'_> {
    /// Changes the number of replicas of an object.
    pub(crate) async fn scale(&self, name: &str, change: Change) -> Result<Edited, Status> {
        let storage = self.resource.stored()?;
        let key = storage.key(self.namespace, name);
        let mut edit = Scaling {
            writer: self,
            name,
            change,
            warnings: Vec::new(),
        };
        let edited = self.registry.edit(storage, &key, self.dry, &mut edit);
        let edited = edited.await?;
        self.warnings.add(edit.warnings);
        Ok(edited)
    }
}

struct Scaling<'a> {
    writer: &'a Writer<'a>,
    name: &'a str,
    change: Change,
    /// What the body says that has no effect.
    warnings: Vec<String>,
}

impl Edit for Scaling<'_> {
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step> {
        Box::pin(async move {
            let Some(current) = current else {
                return Err(self.writer.resource.not_found(self.name));
            };
            let resource = &self.writer.resource;
            let served = views::of_decoded(resource, current).await?;
            let scaled = self.decide(&served).await?;
            Ok(Step::Put(convert::stored(resource, scaled).await?))
        })
    }
}

impl Scaling<'_> {
    /// The object with the number of replicas that is asked for.
    async fn decide(&mut self, current: &Value) -> Result<Value, Status> {
        let kind = &self.writer.resource.kind;
        let mut old = scale_of(&self.writer.resource, current);
        self.writer.managed_scale(current, &mut old);
        let (mut new, warnings) = match &self.change {
            Change::Replace(scale) => (scale.clone(), Vec::new()),
            Change::Patch(patch) => {
                let message = kind.subresource("scale").ok_or_else(Status::unknown_path)?;
                patch.apply_to(message.message(), &old)?
            }
            Change::Apply(config) => self.writer.apply_scale(&old, config)?,
        };
        self.warnings = warnings;
        if !matches!(self.change, Change::Apply(_)) {
            self.writer.manage_scale(&old, &mut new)?;
        }
        lifecycle::match_name(self.name, &new)?;
        if !object::resource_version(&new).is_empty() {
            check_version(&self.writer.resource, self.name, current, &new)?;
        }
        let uid = object::uid(&new);
        if !uid.is_empty() && uid != object::uid(current) {
            let why = "Precondition failed: UID in precondition differs";
            return Err(Status::conflict(
                kind.group(),
                kind.plural(),
                self.name,
                why,
            ));
        }
        let admission = self
            .writer
            .admission(UPDATE, "scale", self.name, Some(&old));
        let chain = &self.writer.registry.admission;
        let mutated = chain.mutate(&admission, &mut new).await?;
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
        chain.validate(mutated, &admission, &new).await?;
        let paths = Paths::of(&self.writer.resource);
        let mut object = current.clone();
        let changes = object::integer(current, &paths.asked) != Some(replicas);
        object::set(&mut object, &paths.asked, replicas.into());
        self.writer.manage_parent(&new, &mut object);
        if apply::equal_without_times(current, &object) {
            // The times of managers stay, too.
            return Ok(current.clone());
        }
        if changes && strategy::of(&self.writer.resource).generation != Generation::Never {
            let next = object::generation(current) + 1;
            metadata_mut(&mut object).insert("generation".into(), next.into());
        }
        Ok(object)
    }
}

/// Where an object has what its Scale shows.
struct Paths<'a> {
    asked: Vec<&'a str>,
    running: Vec<&'a str>,
    selector: Vec<&'a str>,
}

impl<'a> Paths<'a> {
    fn of(resource: &'a Resource) -> Paths<'a> {
        let custom = resource.custom.as_ref();
        match custom.and_then(|custom| custom.scale.as_ref()) {
            Some(scale) => Paths {
                asked: keys(&scale.spec_replicas),
                running: keys(&scale.status_replicas),
                selector: keys(&scale.label_selector),
            },
            None => Paths {
                asked: vec!["spec", "replicas"],
                running: vec!["status", "replicas"],
                selector: vec!["spec", "selector"],
            },
        }
    }
}

fn keys(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// The Scale of an object, which holds its number of replicas.
pub(crate) fn scale_of(resource: &Resource, object: &Value) -> Value {
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
    let paths = Paths::of(resource);
    let replicas = object::integer(object, &paths.asked).unwrap_or(0);
    let running = object::integer(object, &paths.running).unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {}, "status": {"replicas": running},
    });
    if replicas != 0 {
        scale["spec"]["replicas"] = replicas.into();
    }
    let selector = match object::at(object, &paths.selector) {
        // Custom resources have it as text.
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(map)) if strategy::of(resource).has_plain_selector => {
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
