//! The managers of objects in every write: who owns which fields.

use std::sync::Arc;

use machinery::apply::{
    self, Conflict, Deduced, Managers, Replicas, Shown, Typing, Unconverted, Versions, Write,
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
use crate::registry::verbs::patch::as_restored;
use crate::registry::verbs::write::Writer;
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::resources::custom::Custom;

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
    /// The write is one of the status.
    of_status: bool,
    /// The built-in resources of the same collection and group. Kubernetes knows no types of other
    /// groups where it manages the fields of this one.
    all: Vec<Arc<Resource>>,
    /// What was converted, and what is to be converted.
    conversions: Mutex<Vec<Conversion>>,
}

/// An object that is needed in another version.
struct Conversion {
    object: Value,
    api_version: String,
    /// `None` until the converter was asked.
    result: Option<Result<Value, String>>,
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

    /// A custom resource in another version, with all fields that it has: those that the version
    /// does not have are for the caller to find.
    fn custom(&self, custom: &Custom, object: &Value, to: &str) -> Result<Value, Unconverted> {
        let from = object::api_version(object);
        for (word, version) in [("to", to), ("from", from)] {
            if !custom.versions.contains_key(version) {
                let why = convert::no_version(word, version);
                return Err(Unconverted::Failed(why));
            }
        }
        let converter = custom.converted.as_ref().map(|one| &one.converter);
        match converter.filter(|one| from != to && !one.changes_version_alone()) {
            Some(_) => self.converted(object, to),
            None => {
                let mut object = object.clone();
                object::set_type(&mut object, to, self.resource.kind.kind());
                Ok(object)
            }
        }
    }

    /// What the converter made of an object. If it was not asked yet, it will be.
    fn converted(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted> {
        let mut all = self.conversions.lock();
        let mut known = all.iter();
        let is_it = |one: &&Conversion| one.api_version == api_version && one.object == *object;
        let unasked = || Unconverted::Failed("the converter was not asked yet".into());
        if let Some(found) = known.find(is_it) {
            let result = found.result.clone().ok_or_else(unasked)?;
            return result.map_err(Unconverted::Failed);
        }
        all.push(Conversion {
            object: object.clone(),
            api_version: api_version.to_owned(),
            result: None,
        });
        Err(unasked())
    }

    /// Asks the converter for what is missing; false if nothing is.
    async fn convert_missing(&self) -> bool {
        let mut all = std::mem::take(&mut *self.conversions.lock());
        let mut asked = false;
        if let Some(converted) = self.resource.converted() {
            for one in all.iter_mut().filter(|one| one.result.is_none()) {
                let converter = &converted.converter;
                let result = converter.convert_whole(&one.object, &one.api_version).await;
                one.result = Some(result.map_err(|status| status.message));
                asked = true;
            }
        }
        *self.conversions.lock() = all;
        asked
    }
}

impl Versions for Kinds {
    fn typing(&self, api_version: &str) -> Option<&dyn Typing> {
        let Some(custom) = &self.resource.custom else {
            return Some(self.of(api_version)?.kind.message());
        };
        let version = custom.versions.get(api_version)?;
        Some(match &version.schema {
            Some(schema) => schema.typing(),
            None => &Deduced,
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

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted> {
        if let Some(custom) = &self.resource.custom {
            // By way of the request's version, as Kubernetes does.
            let object = self.custom(custom, object, &self.resource.kind.api_version())?;
            return self.custom(custom, &object, api_version);
        }
        let to = self.of(api_version).ok_or(Unconverted::Unknown)?;
        let from = self.of(object::api_version(object));
        let from = from.ok_or(Unconverted::Unknown)?;
        let stored = convert::to_stored(from, object.clone());
        let served = convert::to_served(to, &Arc::new(stored));
        // With the fields that Go always has.
        let decoded = strict::prune(&served, to.kind.message());
        let mut decoded = decoded.map_err(|strict::Error(why)| Unconverted::Failed(why))?;
        object::set_type(&mut decoded.object, api_version, to.kind.kind());
        Ok(decoded.object)
    }

    fn resets(&self, api_version: &str) -> bool {
        let Some(custom) = &self.resource.custom else {
            return true;
        };
        // What a status cannot change is known of all versions, what other writes cannot change
        // only of their own.
        if self.of_status {
            let version = custom.versions.get(api_version);
            version.is_some_and(|version| version.has_status)
        } else {
            api_version == self.resource.kind.api_version()
        }
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

    fn convert(&self, _object: &Value, _api_version: &str) -> Result<Value, Unconverted> {
        Err(Unconverted::Unknown)
    }
}

impl Writer<'_> {
    /// Writes the managers into `new`, which an update makes of `live`; `None` for a new object.
    /// If that fails, the object has no managers, as in Kubernetes: they must not stop a write.
    pub(crate) async fn manage(&self, subresource: &str, live: Option<&Value>, new: &mut Value) {
        let kinds = self.kinds(subresource);
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
        let kinds = self.kinds(subresource);
        let empty = live.is_none().then(|| kinds.empty());
        let live = live.or(empty.as_ref()).unwrap_or(&Value::Null);
        let applied = self
            .with_kinds(&kinds, subresource, |write| {
                write.apply(live, &config.document, config.force)
            })
            .await
            .map_err(refused)?;
        let warnings = config.judge()?;
        let decoded = strict::prune(&applied, kind.message()).map_err(|strict::Error(why)| {
            let version = format!("{}/{}, Kind={}", kind.group(), kind.version(), kind.kind());
            let sent = &config.document;
            let (namespace, name) = (object::namespace(sent), object::name(sent));
            let why = as_restored(&why).unwrap_or(why);
            Status::new(500, "", format!(
                "failed to convert new object ({namespace}/{name}; {version}) to proper version: unable to convert unstructured object to {version}: {why}"
            ))
        })?;
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
        let kinds = self.kinds("scale");
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
        let kinds = self.kinds("scale");
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
            if !kinds.convert_missing().await {
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

    fn kinds(&self, subresource: &str) -> Kinds {
        let resource = Arc::clone(&self.resource);
        let catalogue = self.registry.reader.reflector.catalogue();
        let same = |one: &&Arc<Resource>| match (&one.storage, &resource.storage) {
            (Some(a), Some(b)) => {
                let same_group = one.kind.group() == resource.kind.group();
                a.id == b.id && same_group && one.kind != resource.kind
            }
            _ => false,
        };
        let mut all = vec![Arc::clone(&resource)];
        all.extend(catalogue.resources().iter().filter(same).cloned());
        Kinds {
            resource,
            of_status: subresource == "status",
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
    let Some(custom) = &kinds.resource.custom else {
        return match kinds.of(api_version) {
            Some(_) => Replicas::At(["spec", "replicas"].map(Into::into).into()),
            None => Replicas::Unknown,
        };
    };
    match custom.versions.get(api_version).map(|one| &one.replicas) {
        None => Replicas::Unknown,
        Some(None) => Replicas::Nowhere,
        Some(Some(path)) => Replicas::At(path.iter().map(|key| key.as_str().into()).collect()),
    }
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
