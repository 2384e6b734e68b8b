//! Strategy `None`: an object keeps its fields in another version, except those that the schema of
//! that version does not have.

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use super::{check_target, coerce, complete};
use crate::resources::convert::{Converted, ConvertedOne, Converter};
use crate::resources::custom::Schemas;

/// Changes nothing but the version and what the schemas of both versions say.
#[derive(Debug)]
pub(super) struct Unconverted {
    /// All versions of the definition.
    schemas: Schemas,
}

impl Unconverted {
    /// A converter between these versions; `None` if they keep and complete objects alike.
    pub(super) fn of(schemas: &Schemas) -> Option<Unconverted> {
        let mut all = schemas.values();
        let first = all.next()?;
        let differs = all.any(|other| match (first, other) {
            (Some(one), Some(other)) => !one.keeps_like(other),
            (one, other) => one.is_some() != other.is_some(),
        });
        differs.then(|| Unconverted {
            schemas: schemas.clone(),
        })
    }

    fn run(&self, mut objects: Vec<Value>, to: &str) -> Result<Vec<Value>, Status> {
        check_target(&self.schemas, to)?;
        for one in &mut objects {
            complete(&self.schemas, one)?;
            if object::api_version(one) != to {
                let kind = object::kind(one).to_owned();
                object::set_type(one, to, &kind);
                coerce(&self.schemas, one);
            }
        }
        Ok(objects)
    }
}

impl Converter for Unconverted {
    fn convert<'a>(&'a self, objects: Vec<Value>, api_version: &'a str) -> Converted<'a> {
        Box::pin(std::future::ready(self.run(objects, api_version)))
    }

    fn convert_unpruned<'a>(&'a self, object: &'a Value, api_version: &'a str) -> ConvertedOne<'a> {
        let mut object = object.clone();
        let kind = object::kind(&object).to_owned();
        object::set_type(&mut object, api_version, &kind);
        Box::pin(std::future::ready(Ok(object)))
    }

    fn changes_version_alone(&self) -> bool {
        true
    }
}
