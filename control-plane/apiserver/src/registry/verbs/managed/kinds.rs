//! The versions of a resource, as managers need them: their types, and objects in each of them.

use std::sync::Arc;

use machinery::apply::{Replicas, Typing, Unconverted, UntypedDeduced, Versions};
use machinery::object;
use machinery::schema::Message;
use machinery::strict;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::resources::custom::Custom;

/// The versions of a resource.
pub(super) struct Kinds {
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

impl Writer<'_> {
    /// The versions of the resource that is written.
    pub(super) fn kinds(&self, subresource: &str) -> Kinds {
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

impl Kinds {
    pub(super) fn of(&self, api_version: &str) -> Option<&Arc<Resource>> {
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
    pub(super) async fn convert_missing(&self) -> bool {
        let mut all = std::mem::take(&mut *self.conversions.lock());
        let mut asked = false;
        if let Some(converted) = self.resource.converted() {
            for one in all.iter_mut().filter(|one| one.result.is_none()) {
                let converter = &converted.converter;
                let result = converter
                    .convert_unpruned(&one.object, &one.api_version)
                    .await;
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
            None => &UntypedDeduced,
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

/// An object of a kind without fields, as Go shows it.
pub(super) fn empty(message: &'static Message) -> Value {
    let empty = json!({});
    strict::prune(&empty, message).map_or(empty, |decoded| decoded.object)
}

/// Where a version has its number of replicas.
pub(super) fn replicas(kinds: &Kinds, api_version: &str) -> Replicas {
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
