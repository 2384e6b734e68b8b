//! The managers of objects in every write: who owns which fields.

mod configuration;
mod kinds;
mod scale;

use machinery::apply::{self, Versions, Write};
use machinery::object;
use machinery::status::{Cause, Status};
use machinery::strict;
use serde_json::Value;

use crate::auth::Attributes;
use crate::basics::clock;
use crate::registry::strategy;
use crate::registry::verbs::patch::as_restored;
use crate::registry::verbs::writer::Writer;
pub(crate) use configuration::Configuration;
use kinds::Kinds;

/// The reason of an error about an object that is too large for the store.
const TOO_LARGE: &str = "RequestEntityTooLarge";
/// Where an object has its managers.
const MANAGERS: [&str; 2] = ["metadata", "managedFields"];

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
        // Nobody owns a list that is not written.
        let mut written = new.clone();
        strict::as_written(&mut written, self.resource.kind.message());
        let run = |write: &Write<'_>| {
            let mut managed = written.clone();
            write.update(live, &mut managed).map(|()| managed)
        };
        match self.with_kinds(&kinds, subresource, run).await {
            Ok(mut managed) => match object::remove(&mut managed, &MANAGERS) {
                Some(managers) => object::set(new, &MANAGERS, managers),
                None => drop(object::remove(new, &MANAGERS)),
            },
            Err(error) => {
                let (kind, name) = (object::kind(new), object::name(new));
                tracing::warn!(kind, namespace = self.namespace, name, %error, "an object loses its managers");
                object::remove(new, &MANAGERS);
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
        let decoded = strict::restore(&applied, kind.message()).map_err(|strict::Error(why)| {
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

    /// Creating by an apply or an update needs the right to create, too.
    pub(crate) async fn may_create(&self, name: &str) -> Result<(), Status> {
        if self.user.is_this_process() {
            return Ok(());
        }
        let kind = &self.resource.kind;
        let asked = Attributes {
            user: self.user.clone(),
            verb: "create".into(),
            api_group: kind.group().into(),
            api_version: kind.version().into(),
            resource: kind.plural().into(),
            namespace: self.namespace.into(),
            name: name.into(),
            ..Attributes::default()
        };
        let reader = &self.registry.reader;
        self.registry.authorizer.authorize(reader, &asked).await
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
}

/// Takes the managers from an object that the store finds too large with them, as Kubernetes does:
/// who owns which fields must not decide what can be stored. False if it has none, or failed for
/// another reason.
pub(crate) fn fits_without_managers(error: &Status, object: &mut Value) -> bool {
    error.reason == TOO_LARGE && object::remove(object, &MANAGERS).is_some()
}

fn refused(error: apply::Error) -> Status {
    match error {
        apply::Error::Refused(why) => Status::bad_request(why),
        apply::Error::Failed(why) => Status::new(500, "", why),
        apply::Error::Conflicts(conflicts) => {
            let mut status = Status::new(409, "Conflict", conflicts.to_string());
            let causes = conflicts.told().into_iter().map(|conflict| Cause {
                reason: "FieldManagerConflict",
                message: format!("conflict with {}", conflict.manager),
                field: conflict.path,
            });
            status.details.causes = causes.collect();
            status
        }
    }
}
