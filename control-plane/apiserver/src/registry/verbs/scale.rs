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
use crate::registry::verbs::write::{Change, check_version, precondition, refuse};
use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::resources::defaults::set_defaults;
use crate::storage::decoded::DecodedObject;
use crate::storage::views;
use crate::validate;

/// Where a Scale has the number of replicas that is asked for.
const REPLICAS: [&str; 2] = ["spec", "replicas"];
/// What a write finds there if a custom resource has no number of replicas, as in Kubernetes: a
/// patch that leaves it so must not set it to zero.
const UNSET: i64 = i32::MIN as i64;

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
        let (writer, name) = (self.writer, self.name);
        let resource = &*writer.resource;
        let mut old = scale_of(resource, current)?;
        let asked = object::integer(current, &Paths::of(resource).asked);
        let is_unset = resource.custom.is_some() && asked.is_none();
        if is_unset {
            object::set(&mut old, &REPLICAS, UNSET.into());
        }
        writer.managed_scale(current, &mut old)?;
        let mut new = self.new_scale(&old)?;
        lifecycle::match_namespace(resource, writer.namespace, &mut new)?;
        lifecycle::match_name(name, &new)?;
        if !object::resource_version(&new).is_empty() {
            check_version(resource, name, current, &new)?;
        }
        self.check_uid(current, &new)?;
        if is_unset {
            object::remove(&mut old, &REPLICAS);
        }
        let admission = writer.admission(UPDATE, "scale", name, Some(&old));
        let chain = &writer.registry.admission;
        let mutated = chain.mutate(&admission, &mut new).await?;
        let object = self.scaled(current, &new)?;
        // A Scale must not make of the object what a write of the object itself could not.
        let rules = &strategy::of(resource).rules;
        let causes = rules.update(resource, "", (current, &object), writer.policy());
        refuse(resource, &object, causes)?;
        chain.validate(mutated, &admission, &new).await?;
        Ok(object)
    }

    /// What the request makes of the Scale.
    fn new_scale(&mut self, old: &Value) -> Result<Value, Status> {
        let writer = self.writer;
        let (mut new, warnings) = match &self.change {
            Change::Replace(scale) => (scale.clone(), Vec::new()),
            Change::Patch(patch) => {
                let scale = writer.resource.kind.subresource("scale");
                let scale = scale.ok_or_else(Status::unknown_path)?;
                patch.apply_to(scale.message(), old)?
            }
            Change::Apply(config) => writer.apply_scale(old, config)?,
        };
        self.warnings = warnings;
        if !matches!(self.change, Change::Apply(_)) {
            writer.manage_scale(old, &mut new)?;
        }
        Ok(new)
    }

    /// Checks the uid that the request expects. Kubernetes does not look at that of a patch for a
    /// custom resource.
    fn check_uid(&self, current: &Value, new: &Value) -> Result<(), Status> {
        let (asked, has) = (object::uid(new), object::uid(current));
        if asked.is_empty() || asked == has {
            return Ok(());
        }
        let Resource { kind, custom, .. } = &*self.writer.resource;
        match self.change {
            Change::Replace(_) => Err(self.writer.another_uid(self.name, asked, has)),
            _ if custom.is_some() => Ok(()),
            _ => {
                let resource = format!("{}/scale", kind.plural());
                let why = precondition("UID", asked, has);
                Err(Status::conflict(kind.group(), &resource, self.name, &why))
            }
        }
    }

    /// The object with what its new Scale says.
    fn scaled(&self, current: &Value, scale: &Value) -> Result<Value, Status> {
        let resource = &*self.writer.resource;
        let asked = Paths::of(resource).asked;
        let replicas = object::integer(scale, &REPLICAS).unwrap_or(0);
        if resource.custom.is_none() {
            let causes: Vec<Cause> = validate::scale::check_written(resource, scale).into();
            if !causes.is_empty() {
                let (group, kind) = ("autoscaling", "Scale");
                return Err(Status::invalid(group, kind, self.name, causes));
            }
        }
        if resource.custom.is_some() && replicas == UNSET {
            let path = asked.join(".");
            let why = format!("the spec replicas field \".{path}\" cannot be empty");
            return Err(Status::bad_request(why));
        }
        let mut object = current.clone();
        let changes = object::integer(current, &asked) != Some(replicas);
        object::set(&mut object, &asked, replicas.into());
        set_defaults(resource, &mut object)?;
        self.writer.manage_parent(scale, &mut object)?;
        if apply::equal_without_times(current, &object) {
            // The times of managers stay, too.
            return Ok(current.clone());
        }
        if changes && strategy::of(resource).generation != Generation::Never {
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
pub(crate) fn scale_of(resource: &Resource, object: &Value) -> Result<Value, Status> {
    if let Some(why) = validate::scale::unreadable(resource, object) {
        // Kubernetes has no specific reason for these errors.
        return Err(Status::new(500, "", why));
    }
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
    Ok(scale)
}
