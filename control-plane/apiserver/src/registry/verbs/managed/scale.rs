//! The managers of a Scale, which are those of the replicas of its parent.

use machinery::apply::{self, Managers, Typing, Unconverted, Versions};
use machinery::object;
use machinery::schema::Message;
use machinery::status::Status;
use serde_json::Value;

use super::configuration::Configuration;
use super::kinds::{empty, replicas};
use super::refused;
use crate::registry::verbs::writer::Writer;

/// The only version of scales.
struct Scales(&'static Message);

impl Writer<'_> {
    /// The Scale of an object as field managers see it: with the managers of its replicas.
    pub(crate) fn managed_scale(&self, parent: &Value, scale: &mut Value) -> Result<(), Status> {
        let managers = managers_of(parent)?;
        let kinds = self.kinds("scale");
        apply::to_scale(&managers, |version| replicas(&kinds, version)).write(scale);
        Ok(())
    }

    /// Writes the managers into the new state of a Scale.
    pub(crate) fn manage_scale(&self, live: &Value, new: &mut Value) -> Result<(), Status> {
        let scales = self.scales()?;
        let managed = self.with_write(&scales, "scale", |write| write.update(live, new));
        managed.map_err(refused)
    }

    /// What a configuration makes of a Scale; also returns warnings.
    pub(crate) fn apply_scale(
        &self,
        live: &Value,
        config: &Configuration,
    ) -> Result<(Value, Vec<String>), Status> {
        config.check_type("autoscaling/v1", "Scale")?;
        let scales = self.scales()?;
        let applied = self.with_write(&scales, "scale", |write| {
            write.apply(live, &config.document, config.force)
        });
        Ok((applied.map_err(refused)?, config.judge()?))
    }

    /// Writes the managers of a Scale into its parent.
    pub(crate) fn manage_parent(&self, scale: &Value, parent: &mut Value) -> Result<(), Status> {
        let (of_parent, of_scale) = (managers_of(parent)?, managers_of(scale)?);
        let kinds = self.kinds("scale");
        let version = self.resource.kind.api_version();
        let replicas = |version: &str| replicas(&kinds, version);
        apply::to_parent(&of_parent, of_scale, &version, replicas).write(parent);
        Ok(())
    }

    fn scales(&self) -> Result<Scales, Status> {
        let scale = self.resource.kind.subresource("scale");
        Ok(Scales(scale.ok_or_else(Status::unknown_path)?.message()))
    }
}

/// The managers of an object. As in Kubernetes, a Scale is not written if they cannot be read: the
/// object would lose them.
fn managers_of(object: &Value) -> Result<Managers, Status> {
    Managers::of(object).map_err(|why| refused(apply::Error::Failed(why)))
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
