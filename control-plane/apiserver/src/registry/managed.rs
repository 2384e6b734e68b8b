//! The managers of objects in every write: who owns which fields.

use std::sync::Arc;

use machinery::apply::{
    self, Conflict, Deduced, Managers, Replicas, Shown, Typing, Versions, Write,
};
use machinery::object;
use machinery::schema::Message;
use machinery::status::{Cause, Status};
use machinery::strict;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::auth::Attributes;
use crate::basics::clock;
use crate::registry::options::Validation;
use crate::registry::strategy;
use crate::registry::verbs::write::Writer;
use crate::resources::catalogue::Resource;
use crate::resources::convert;

/// The reason of an error about an object that is too large for the store.
const TOO_LARGE: &str = "RequestEntityTooLarge";

/// A configuration that a client applies.
#[derive(Debug)]
pub(crate) struct Configuration {
    document: Value,
    /// Takes over fields of other managers.
    force: bool,
    /// What is duplicated in the body.
    problem: Option<String>,
    validation: Validation,
}

/// The versions of a resource.
struct Kinds {
    resource: Arc<Resource>,
    /// All resources of the same collection.
    all: Vec<Arc<Resource>>,
    /// What was converted, and what is to be converted.
    conversions: Mutex<Vec<Conversion>>,
}

/// An object that is needed in another version.
struct Conversion {
    object: Value,
    api_version: String,
    /// `None` until the converter was asked.
    result: Option<Value>,
}

/// The only version of scales.
struct Scales(&'static Message);

impl Configuration {
    /// A configuration from a body; `problem` says which keys it duplicates.
    pub(crate) fn new(
        document: Value,
        problem: Option<String>,
        force: bool,
        validation: Validation,
    ) -> Configuration {
        Configuration {
            document,
            force,
            problem,
            validation,
        }
    }

    /// The uid that it names; may be empty.
    pub(crate) fn uid(&self) -> &str {
        object::uid(&self.document)
    }

    /// The configuration is for objects of this type.
    fn check_type(&self, api_version: &str, kind: &str) -> Result<(), Status> {
        let given = (
            object::api_version(&self.document),
            object::kind(&self.document),
        );
        if given == (api_version, kind) {
            return Ok(());
        }
        let version = match given.0 {
            core if !core.contains('/') => format!("/{core}"),
            other => other.to_owned(),
        };
        let text = format!("invalid object type: {version}, Kind={}", given.1);
        Err(Status::bad_request(text))
    }

    /// Warnings for the client, or the error that it asked for.
    fn judge(&self) -> Result<Vec<String>, Status> {
        match (&self.problem, self.validation) {
            (None, _) | (_, Validation::Ignore) => Ok(Vec::new()),
            (Some(why), Validation::Warn) => Ok(vec![why.clone()]),
            (Some(why), Validation::Strict) => {
                let text = format!("error strict decoding YAML: {why}");
                Err(Status::bad_request(text))
            }
        }
    }
}

impl Kinds {
    fn of(&self, api_version: &str) -> Option<&Arc<Resource>> {
        let named = |one: &&Arc<Resource>| one.kind.api_version() == api_version;
        self.all.iter().find(named)
    }

    /// What the converter made of an object. If it was not asked yet, it will be.
    fn converted(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut all = self.conversions.lock();
        let mut known = all.iter();
        let is_it = |one: &&Conversion| one.api_version == api_version && one.object == *object;
        if let Some(found) = known.find(is_it) {
            return found.result.clone();
        }
        all.push(Conversion {
            object: object.clone(),
            api_version: api_version.to_owned(),
            result: None,
        });
        None
    }

    /// Asks the converter for what is missing; false if nothing is.
    async fn convert_missing(&self) -> Result<bool, Status> {
        let mut all = std::mem::take(&mut *self.conversions.lock());
        let mut asked = false;
        for one in &mut all {
            let to = self.of(&one.api_version);
            let (None, Some(served)) = (&one.result, to.and_then(|to| to.converted())) else {
                continue;
            };
            one.result = Some(served.convert(one.object.clone()).await?);
            asked = true;
        }
        *self.conversions.lock() = all;
        Ok(asked)
    }
}

impl Versions for Kinds {
    fn typing(&self, api_version: &str) -> Option<&dyn Typing> {
        let resource = self.of(api_version)?;
        Some(match (&resource.custom, resource.schema()) {
            (None, _) => resource.kind.message(),
            (Some(_), Some(schema)) => schema.typing(),
            (Some(_), None) => &Deduced,
        })
    }

    fn empty(&self) -> Value {
        let kind = &self.resource.kind;
        let mut empty = match self.resource.custom {
            Some(_) => json!({}),
            None => empty(kind.message()),
        };
        object::set_type(&mut empty, &kind.api_version(), kind.kind());
        empty
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        if self.of(api_version)?.converted().is_some() {
            return self.converted(object, api_version);
        }
        let from = self.of(object::api_version(object))?;
        let stored = convert::to_stored(from, object.clone());
        let served = convert::to_served(self.of(api_version)?, &Arc::new(stored));
        Some(Arc::unwrap_or_clone(served))
    }
}

impl Versions for Scales {
    fn typing(&self, api_version: &str) -> Option<&dyn Typing> {
        (api_version == "autoscaling/v1").then_some(self.0)
    }

    fn empty(&self) -> Value {
        let mut empty = empty(self.0);
        object::set_type(&mut empty, "autoscaling/v1", "Scale");
        empty
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        (object::api_version(object) == api_version).then(|| object.clone())
    }
}

impl Writer<'_> {
    /// Writes the managers into `new`, which an update makes of `live`; `None` for a new object.
    /// If that fails, the object has no managers, as in Kubernetes: they must not stop a write.
    pub(crate) async fn manage(&self, subresource: &str, live: Option<&Value>, new: &mut Value) {
        let kinds = self.kinds();
        let empty;
        let live = match live {
            Some(live) => live,
            None => {
                empty = kinds.empty();
                &empty
            }
        };
        let run = |write: &Write<'_>| {
            let mut new = new.clone();
            write.update(live, &mut new).map(|()| new)
        };
        match self.with_kinds(&kinds, subresource, run).await {
            Ok(managed) => *new = managed,
            Err(error) => {
                let (kind, name) = (object::kind(new), object::name(new));
                tracing::warn!(kind, namespace = self.namespace, name, %error, "an object loses its managers");
                object::remove(new, &["metadata", "managedFields"]);
            }
        }
    }

    /// What a configuration makes of the live object, or a new object of it; also returns
    /// warnings.
    pub(crate) async fn apply(
        &self,
        subresource: &str,
        live: Option<&Value>,
        config: &Configuration,
    ) -> Result<(Value, Vec<String>), Status> {
        let kind = &self.resource.kind;
        config.check_type(&kind.api_version(), kind.kind())?;
        let kinds = self.kinds();
        let empty = live.is_none().then(|| kinds.empty());
        let live = live.or(empty.as_ref()).unwrap_or(&Value::Null);
        let applied = self
            .with_kinds(&kinds, subresource, |write| {
                write.apply(live, &config.document, config.force)
            })
            .await
            .map_err(refused)?;
        let warnings = config.judge()?;
        let decoded = strict::prune(&applied, kind.message())
            .map_err(|strict::Error(why)| Status::new(500, "", why))?;
        Ok((decoded.object, warnings))
    }

    /// Creating by apply needs the right to create, too.
    pub(crate) async fn may_create(&self, name: &str) -> Result<(), Status> {
        let kind = &self.resource.kind;
        let asked = Attributes {
            user: self.user.clone(),
            verb: "create".into(),
            api_group: kind.group().into(),
            resource: kind.plural().into(),
            namespace: self.namespace.into(),
            name: name.into(),
            ..Attributes::default()
        };
        let reader = &self.registry.reader;
        self.registry.authorizer.authorize(reader, &asked).await
    }

    /// The Scale of an object as field managers see it: with the managers of its replicas.
    pub(crate) fn managed_scale(&self, parent: &Value, scale: &mut Value) {
        let managers = Managers::of(parent).unwrap_or_default();
        let kinds = self.kinds();
        apply::to_scale(&managers, |version| replicas(&kinds, version)).write(scale);
    }

    /// Writes the managers into the new state of a Scale.
    pub(crate) fn manage_scale(&self, live: &Value, new: &mut Value) -> Result<(), Status> {
        let scales = self.scales()?;
        let managed = self.with_write(&scales, "scale", |write| write.update(live, new));
        managed.map_err(refused)
    }

    /// What a configuration makes of a Scale.
    pub(crate) fn apply_scale(
        &self,
        live: &Value,
        config: &Configuration,
    ) -> Result<Value, Status> {
        config.check_type("autoscaling/v1", "Scale")?;
        let scales = self.scales()?;
        let applied = self.with_write(&scales, "scale", |write| {
            write.apply(live, &config.document, config.force)
        });
        config.judge()?;
        applied.map_err(refused)
    }

    /// Writes the managers of a Scale into its parent.
    pub(crate) fn manage_parent(&self, scale: &Value, parent: &mut Value) {
        let (of_parent, of_scale) = (Managers::of(parent), Managers::of(scale));
        let kinds = self.kinds();
        let version = self.resource.kind.api_version();
        let merged = apply::to_parent(
            &of_parent.unwrap_or_default(),
            of_scale.unwrap_or_default(),
            &version,
            |version| replicas(&kinds, version),
        );
        merged.write(parent);
    }

    fn scales(&self) -> Result<Scales, Status> {
        let scale = self.resource.kind.subresource("scale");
        Ok(Scales(scale.ok_or_else(Status::unknown_path)?.message()))
    }

    /// Runs a write that managers of other versions may be concerned by. Whenever it needs an object
    /// that only a converter makes, that is asked, and the write is run again. This ends: each
    /// conversion is asked for once, and a write needs few.
    async fn with_kinds<T>(
        &self,
        kinds: &Kinds,
        subresource: &str,
        run: impl Fn(&Write<'_>) -> Result<T, apply::Error>,
    ) -> Result<T, apply::Error> {
        loop {
            let result = self.with_write(kinds, subresource, &run);
            let asked = kinds.convert_missing().await;
            if !asked.map_err(|status| apply::Error::Failed(status.message))? {
                return result;
            }
        }
    }

    fn with_write<T>(
        &self,
        versions: &dyn Versions,
        subresource: &str,
        run: impl FnOnce(&Write<'_>) -> T,
    ) -> T {
        let reset = strategy::of(&self.resource).reset(&self.resource, subresource);
        let api_version = match subresource {
            "scale" => "autoscaling/v1".to_owned(),
            _ => self.resource.kind.api_version(),
        };
        run(&Write {
            versions,
            api_version: &api_version,
            subresource,
            reset: &reset,
            manager: &self.manager,
            now: &clock::now().to_seconds(),
        })
    }

    fn kinds(&self) -> Kinds {
        let resource = Arc::clone(&self.resource);
        let catalogue = self.registry.reader.reflector.catalogue();
        let same = |one: &&Arc<Resource>| match (&one.storage, &resource.storage) {
            (Some(a), Some(b)) => a.id == b.id && one.kind != resource.kind,
            _ => false,
        };
        let mut all = vec![Arc::clone(&resource)];
        all.extend(catalogue.resources().iter().filter(same).cloned());
        Kinds {
            resource,
            all,
            conversions: Mutex::default(),
        }
    }
}

/// Takes the managers from an object that the store finds too large with them, as Kubernetes does:
/// who owns which fields must not decide what can be stored. False if it has none, or failed for
/// another reason.
pub(crate) fn fits_without_managers(error: &Status, object: &mut Value) -> bool {
    error.reason == TOO_LARGE && object::remove(object, &["metadata", "managedFields"]).is_some()
}

/// Where a version has its number of replicas.
fn replicas(kinds: &Kinds, api_version: &str) -> Replicas {
    let Some(resource) = kinds.of(api_version) else {
        return Replicas::Unknown;
    };
    let custom = resource.custom.as_ref();
    let path = match custom.map(|custom| &custom.scale) {
        None => vec!["spec", "replicas"],
        Some(None) => return Replicas::Nowhere,
        Some(Some(scale)) => scale.spec_replicas.iter().map(String::as_str).collect(),
    };
    Replicas::At(path.into_iter().map(Into::into).collect())
}

/// An object of a kind without fields, as Go shows it.
fn empty(message: &'static Message) -> Value {
    let empty = json!({});
    strict::prune(&empty, message).map_or(empty, |decoded| decoded.object)
}

fn refused(error: apply::Error) -> Status {
    match error {
        apply::Error::Refused(why) => Status::bad_request(why),
        apply::Error::Failed(why) => Status::new(500, "", why),
        apply::Error::Conflicts(conflicts) => {
            let mut status = Status::new(409, "Conflict", Conflict::told(&conflicts));
            let causes = conflicts.iter().map(|conflict| Cause {
                reason: "FieldManagerConflict",
                message: format!("conflict with {}", conflict.manager),
                field: Shown(&conflict.path).to_string(),
            });
            status.details.causes = causes.collect();
            status
        }
    }
}
